// The GPU backend, a shared object that reaches CUDA and NCCL for ranks. Finds its file. The launcher itself
// never loads it, but asks a worker.
#pragma once

#include <filesystem>

namespace shardproof::launcher {

/// The path of the backend that belongs to this executable. The file may be missing.
std::filesystem::path built_backend();

/// The full path of the backend that `--backend` names. Throws CommandError (usage) if it is not a file.
std::filesystem::path named_backend(const std::filesystem::path& requested);

}  // namespace shardproof::launcher
