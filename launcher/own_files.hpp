// The files and folders that commands write into their output directory. A replacement deletes these and nothing else. Pure.
#pragma once

#include <string_view>

namespace shardproof::launcher {

/// An empty file in each output directory. Its owner holds a lock on it as long as it writes there. A file that its user puts there by an
/// option has a line in it.
inline constexpr char marker_name[] = ".shardproof-output";

/// Whether a command writes a file of this path, relative to its output directory.
bool is_own_file(std::string_view path);
/// Whether a command makes a symbolic link of this path: ranks that are threads of one process share its logs.
bool is_own_link(std::string_view path);
/// Whether a command makes a folder of this path. Folders that are output directories themselves, as `explore` and `faults` make them, are
/// known by their markers, not by their names.
bool is_own_folder(std::string_view path);
/// Whether the path is below the folder where PyTorch keeps its compiled code. All of it may be deleted.
bool is_cached(std::string_view path);

}  // namespace shardproof::launcher
