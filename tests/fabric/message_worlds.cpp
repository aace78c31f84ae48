#include "tests/fabric/message_worlds.hpp"

#include <catch2/catch_get_random_seed.hpp>

#include "harness/fabric/messages/message_fabric.hpp"
#include "harness/fabric/tcp/tcp_transport.hpp"

namespace shardproof::testing {

namespace {

using TransportOf = std::function<std::unique_ptr<fabric::messages::Transport>(int rank)>;

std::vector<std::string> run_over(const TransportOf& transport_of, const std::string& name, int size, const Body& body,
                                  const Settings& settings) {
  control::ControlPage control = control::ControlPage::anonymous(size);
  return run_on_threads(control, body, [&](int rank, std::atomic<std::uint32_t>& epoch) {
    return fabric::MessageFabric(name,
                                 {.control = &control,
                                  .epoch = [&epoch] { return epoch.load(); },
                                  .timeout = settings.timeout,
                                  .rank = rank},
                                 transport_of(rank))
        .join();
  });
}

}  // namespace

std::vector<std::string> run_messages(int size, const Body& body, const Settings& settings) {
  Mailboxes mailboxes(size, Catch::getSeed());
  std::vector<std::string> failures = run_messages(size, body, mailboxes, settings);
  return failures == all_well(size) ? run_tcp(size, body, settings) : failures;
}

std::vector<std::string> run_messages(int size, const Body& body, Mailboxes& mailboxes, const Settings& settings) {
  return run_over([&](int rank) { return mailboxes.open(rank); }, "mail", size, body, settings);
}

std::vector<std::string> run_tcp(int size, const Body& body, const Settings& settings) {
  const ScratchDirectory directory;
  const auto connect = [&](int rank) {
    return std::make_unique<fabric::tcp::TcpTransport>(
        rendezvous::FileStore(directory.path() + "/store", "nonce", rank), rank, size);
  };
  return run_over(connect, "tcp", size, body, settings);
}

}  // namespace shardproof::testing
