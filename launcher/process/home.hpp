// The launcher's home, a build folder or an installation, and the message for an optional part that is missing there.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace shardproof::launcher {

/// The folder above the folder of this executable. Parts that belong to the launcher are in `bin/` and `lib/` below it.
std::filesystem::path launcher_home();

/// A part that is built only where CMake finds CUDA and NCCL.
struct OptionalPart {
  std::string_view name;  ///< `the GPU backend`
  std::string_view target;  ///< the CMake target that builds it
  std::filesystem::path file;  ///< where the launcher expects it
};

/// A message that `part` is missing, with the commands that build it. In an installation, the commands install it, too.
std::string why_missing(const OptionalPart& part, const std::filesystem::path& home);

}  // namespace shardproof::launcher
