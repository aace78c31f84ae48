// How a rank finds the MPI library that has started it, and the errors if it finds no library, or one of another world.
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "harness/control/control_page.hpp"
#include "harness/fabric/mpi/mpi_fabric.hpp"
#include "harness/fabric/mpi/mpi_library.hpp"
#include "tests/fabric/mailboxes.hpp"
#include "tests/fabric/worlds.hpp"

using namespace shardproof;
using namespace shardproof::fabric::mpi;
using Catch::Matchers::ContainsSubstring;

namespace {

const MpiLibrary& library_with(const std::map<std::string, std::string>& variables) {
  return library_of([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

}  // namespace

TEST_CASE("mpi library: the variables of the library's own mpirun decide") {
  CHECK(library_with({{"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_RANK", "0"}}).name == "Open MPI");
  CHECK(library_with({{"PMIX_RANK", "0"}}).name == "Open MPI");
  CHECK(library_with({{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}}).name == "MPICH");
  // A user decides for a run within a run, and for a library with the ABI of another one.
  CHECK(library_with({{"OMPI_COMM_WORLD_SIZE", "4"}, {"SHARDPROOF_MPI", "mpich"}}).name == "MPICH");
  CHECK(library_with({{"PMI_RANK", "0"}, {"SHARDPROOF_MPI", "openmpi"}}).name == "Open MPI");
  CHECK_THROWS_WITH(library_with({{"SHARDPROOF_MPI", "intel"}}),
                    R"(fabric mpi: SHARDPROOF_MPI is "intel": set it to openmpi or mpich, or unset it)");
  CHECK_THROWS_WITH(library_with({{"SLURM_PROCID", "0"}}),
                    ContainsSubstring("no MPI has started this process") && ContainsSubstring("use the fabric tcp"));
}

TEST_CASE("mpi library: a missing module names the file, the library and the package") {
  const auto& mpich = library_with({{"PMI_RANK", "0"}});
  CHECK_THROWS_WITH(
      open_library(mpich, "/nowhere"),
      "fabric mpi: /nowhere/libshardproof_mpi_mpich.so (MPICH): there is no such file. Install the package "
      "libmpich-dev and build shardproof again, or start the ranks by another MPI");
  const testing::ScratchDirectory folder;
  const std::filesystem::path module = std::filesystem::path(folder.path()) / mpich.module;
  std::ofstream(module) << "text";
  CHECK_THROWS_WITH(open_library(mpich, folder.path()),
                    ContainsSubstring("(MPICH): ") && ContainsSubstring("too short"));
  std::filesystem::remove(module);
  std::filesystem::create_symlink("/proc/self/exe", module);
  CHECK_THROWS_WITH(open_library(mpich, folder.path()), ContainsSubstring(module.string()));
}

TEST_CASE("mpi: a rank that has another number in its world is refused") {
  testing::Mailboxes mailboxes(3);
  control::ControlPage control = control::ControlPage::anonymous(2);
  const auto make = [&] { fabric::MpiFabric({.control = &control, .rank = 1}, mailboxes.open(1)); };
  CHECK_THROWS_WITH(make(),
                    "fabric mpi: mailboxes has started this process as rank 1 of 3, but in its world it is rank "
                    "1 of 2: start as many ranks as the world has, and number them alike");
}

TEST_CASE("mpi: a library that the launcher does not belong to is named") {
  testing::Mailboxes mailboxes(1);
  control::ControlPage control = control::ControlPage::anonymous(2);
  const auto make = [&] { fabric::MpiFabric({.control = &control, .rank = 1}, mailboxes.open(0)); };
  CHECK_THROWS_WITH(make(),
                    "fabric mpi: mailboxes sees this process alone, and in its world it is rank 1 of 2: the launcher "
                    "may belong to another MPI library; use the launcher of this one, or set SHARDPROOF_MPI to the "
                    "other (openmpi or mpich)");
}
