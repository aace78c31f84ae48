// A rank of a world that an MPI library has started: `test-mpi-world MODULES DIRECTORY WHAT`. The directory is the same
// for all ranks, and empty at first. It ends with 0 if everything holds on this rank.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <thread>

#include "harness/control/control_page.hpp"
#include "harness/fabric/mpi/mpi_fabric.hpp"
#include "harness/fabric/mpi/mpi_library.hpp"
#include "harness/protocol/environment.hpp"
#include "harness/rendezvous/file_store.hpp"
#include "tests/fabric/collective_checks.hpp"
#include "tests/fabric/worlds.hpp"

using namespace shardproof;
using namespace shardproof::testing;

namespace {

void collectives(Side& side) {
  every_collective(side);
  Checks<float> large(*side.world, 12);
  large.all_kinds(300'001);
  large.coalesced(600, 30);
  const auto half = side.world->split(side.rank / 2, side.rank, "half");
  Checks<std::int64_t>(*side.world, 13).all_reduce(ReduceOp::sum, 1000);
  expect(half->all_reduce(iota(static_cast<float>(side.rank), 1)) == iota(static_cast<float>(side.rank < 2 ? 1 : 5), 1),
         "all_reduce of a half");
  const std::string text =
      thrown_by<Mismatch>([&] { side.world->all_reduce(iota(0, side.rank == 2 ? 4 : 3), ReduceOp::sum); });
  expect_contains(text, "rank 0 asks for all_reduce of 3 f32 (sum), rank 2 for all_reduce of 4 f32 (sum)");
  side.world->barrier();
}

/// One rank leaves its case while the others exchange long messages. All of them can end in order all the same.
void abort(Side& side) {
  side.world->barrier();
  std::thread aborting;
  if (side.rank == 1) {
    aborting = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      side.control.raise_abort(side.epoch, {1, control::AbortReason::failed, "line 7"});
    });
  }
  const std::string text = thrown_by<control::Released>([&] {
    while (true) side.world->all_to_all(iota(0, 400'000));
  });
  if (aborting.joinable()) aborting.join();
  expect_contains(text, "line 7");
}

void be_rank(const std::string& modules, const std::string& directory, std::string_view what) {
  const auto& library = fabric::mpi::library_of(protocol::own_variable);
  auto transport = fabric::mpi::open_library(library, modules);
  const int rank = transport->rank(), size = transport->size();
  expect(size == 4, "the library has started " + std::to_string(size) + " ranks, not 4");

  const std::string page = directory + "/control";
  rendezvous::FileStore store(directory + "/store", "nonce", rank);
  const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  if (rank != 0) store.wait("page", soon);
  control::ControlPage control =
      rank == 0 ? control::ControlPage::create(page, size, "nonce") : control::ControlPage::open(page, "nonce");
  if (rank == 0) store.put("page", "made");

  std::atomic<std::uint32_t> epoch{1};
  fabric::MpiFabric fabric({.control = &control, .store = &store, .epoch = [&] { return epoch.load(); }, .rank = rank},
                           std::move(transport));
  Side side{rank, size, control, fabric.join(), epoch, directory};
  try {
    what == "abort" ? abort(side) : collectives(side);
  } catch (const std::exception& failure) {
    control.doom({rank, control::AbortReason::error, failure.what()});
    throw;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: test-mpi-world MODULES DIRECTORY collectives|abort\n");
    return 2;
  }
  try {
    be_rank(argv[1], argv[2], argv[3]);
    return 0;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "test-mpi-world: %s\n", failure.what());
    return 1;
  }
}
