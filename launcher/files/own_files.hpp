// The files and folders that commands write into their output directory. A replacement deletes these and nothing else.
// Pure.
#pragma once

#include <string_view>

namespace shardproof::launcher {

/// A file in each output directory. A command that writes to the directory holds a lock on it. It has one line for each
/// file that the user puts into the directory by an option, and is empty otherwise.
inline constexpr char marker_name[] = ".shardproof-output";

/// Whether a command writes a file of this path, relative to its output directory.
bool is_own_file(std::string_view path);
/// Whether a command makes a symbolic link of this path: ranks that are threads of one process share its logs, and
/// `latest` leads to a run.
bool is_own_link(std::string_view path);
/// Whether a command makes a folder of this path. `explore` and `faults` also make output directories inside their own.
/// The marker, and not the name, identifies those.
bool is_own_folder(std::string_view path);
/// Whether the path is below a folder whose files have names that other code chooses: the compiled code of PyTorch, and
/// shared memory of ranks that is on the disk. All of it may be deleted.
bool is_of_others(std::string_view path);

}  // namespace shardproof::launcher
