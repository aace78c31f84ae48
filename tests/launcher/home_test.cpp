// The launcher's message if a part that it needs is not built or not installed.
#include "launcher/process/home.hpp"

#include <catch2/catch_test_macros.hpp>

#include "tests/launcher/temporary.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;

namespace {

OptionalPart tap_in(const std::filesystem::path& home) {
  return {.name = "the NCCL tap", .target = "shardproof_nccl_tap_library", .file = home / "lib/tap.so"};
}

}  // namespace

TEST_CASE("a part that a build lacks is answered with the commands that build it") {
  const TemporaryDirectory directory;
  const std::string home = directory.path().string();
  write_text(directory / "CMakeCache.txt",
             "CMAKE_GENERATOR:INTERNAL=Ninja\nCMAKE_HOME_DIRECTORY:INTERNAL=/my tree\nX:INTERNAL=\n");
  CHECK(why_missing(tap_in(home), home) == "the NCCL tap is not built: there is no " + home +
                                               "/lib/tap.so\nBuild it:\n  cmake -S '/my tree' -B " + home +
                                               "\n  cmake --build " + home +
                                               " --target shardproof_nccl_tap_library\nThe first command needs the "
                                               "CUDA Toolkit 12 or later, and NCCL 2.22 or later.");
}

TEST_CASE("a part that an installation lacks is answered with the commands that build and install it") {
  const TemporaryDirectory directory;
  const std::string home = directory.path().string();
  CHECK(why_missing(tap_in(home), home) ==
        "the NCCL tap is not installed: there is no " + home +
            "/lib/tap.so\nBuild and install it, in the source tree of shardproof:\n  cmake --preset default\n"
            "  cmake --build build --target shardproof_package\n  cmake --install build --prefix " +
            home + "\nThe first command needs the CUDA Toolkit 12 or later, and NCCL 2.22 or later.");
}
