#include "tests/fabric/message_worlds.hpp"

#include <catch2/catch_get_random_seed.hpp>

#include "harness/fabric/mpi/mpi_fabric.hpp"

namespace shardproof::testing {

std::vector<std::string> run_messages(int size, const Body& body, const Settings& settings) {
  Mailboxes mailboxes(size, Catch::getSeed());
  return run_messages(size, body, mailboxes, settings);
}

std::vector<std::string> run_messages(int size, const Body& body, Mailboxes& mailboxes, const Settings& settings) {
  control::ControlPage control = control::ControlPage::anonymous(size);
  return run_on_threads(control, body, [&](int rank, std::atomic<std::uint32_t>& epoch) {
    return fabric::MpiFabric({.control = &control,
                              .epoch = [&epoch] { return epoch.load(); },
                              .timeout = settings.timeout,
                              .rank = rank},
                             mailboxes.open(rank))
        .join();
  });
}

}  // namespace shardproof::testing
