#include "launcher/files/own_files.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <string>

namespace shardproof::launcher {
namespace {

/// Shared memory that is on the disk (rendezvous_directory.hpp). A killed launcher leaves it.
constexpr char memory_pattern[] = "worlds/[0-9]*/shardproof-??????";

/// The file store of a world on several hosts (rendezvous/file_store.hpp).
constexpr char store_pattern[] = "worlds/[0-9]*/store";

/// PyTorch keeps its compiled code here (warm_process.hpp), under its own names.
constexpr char cache_folder[] = "cache";

constexpr std::array folder_patterns{cache_folder,
                                     "worlds",
                                     "worlds/[0-9]*",
                                     memory_pattern,
                                     store_pattern,
                                     "worlds/[0-9]*/ranks",
                                     "worlds/[0-9]*/logs",
                                     "worlds/[0-9]*/evidence",
                                     "worlds/[0-9]*/traces",
                                     "worlds/[0-9]*/nccl",
                                     "worlds/[0-9]*/play",
                                     "worlds/[0-9]*/play/*",
                                     "smallest",
                                     "smallest/[0-9]*",
                                     "differences",
                                     "differences/[0-9]*"};

constexpr std::array file_patterns{
    "run.json", "plan.json", "listing.json", "report.json", "warm.log", "worlds/[0-9]*/plan.json",
    "worlds/[0-9]*/guard.json", "worlds/[0-9]*/plan-[0-9]*.json", "worlds/[0-9]*/key",
    "worlds/[0-9]*/ranks/rank-[0-9]*.end.json", "worlds/[0-9]*/logs/launcher.log", "worlds/[0-9]*/endings.json",
    "worlds/[0-9]*/turns", "worlds/[0-9]*/ranks/rank-[0-9]*.jsonl", "worlds/[0-9]*/logs/rank-[0-9]*.out",
    "worlds/[0-9]*/logs/rank-[0-9]*.err", "worlds/[0-9]*/evidence/flight.json",
    "worlds/[0-9]*/evidence/rank-[0-9]*.status", "worlds/[0-9]*/evidence/rank-[0-9]*.stacks",
    "worlds/[0-9]*/evidence/rank-[0-9]*.crash", "worlds/[0-9]*/evidence/*.rank-[0-9]*.out",
    "worlds/[0-9]*/evidence/*.rank-[0-9]*.err", "worlds/[0-9]*/evidence/*.scenario.json",
    "worlds/[0-9]*/evidence/*.scenario.json.rank-[0-9]*", "worlds/[0-9]*/traces/*.trace.json",
    "worlds/[0-9]*/traces/*.rank-[0-9]*.json", "worlds/[0-9]*/nccl/rank-[0-9]*.tap",
    "worlds/[0-9]*/nccl/rank-[0-9]*.tap.[0-9]*", "worlds/[0-9]*/play/*/rank-[0-9]*.json",
                           // of generated cases that failed
    "smallest/[0-9]*/scenario.json", "smallest/[0-9]*/as_drawn.json",
                           // of play and explore with two subjects
    "[12]-*.warm.log", "explored.json", "differences/[0-9]*/scenario.json", "differences/[0-9]*/as_found.json",
    "differences/[0-9]*/difference.txt", "differences/[0-9]*/difference.json",
                           // of output.hpp: a look whether a folder can be written to
    ".probe", "worlds/[0-9]*/logs/.probe"};

constexpr std::array link_patterns{"worlds/[0-9]*/logs/rank-[0-9]*.out", "worlds/[0-9]*/logs/rank-[0-9]*.err",
                                   // of runs that are inside this directory, where it is shardproof-out/
                                   "latest", ".latest-[0-9]*-[0-9]*"};

bool is_among(const auto& patterns, std::string_view path) {
  return std::ranges::any_of(patterns, [text = std::string(path)](const char* pattern) {
    return ::fnmatch(pattern, text.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0;
  });
}

}  // namespace

bool is_own_file(std::string_view path) {
  // write_file (output.hpp) gives a file another name until the file is whole.
  constexpr std::string_view unfinished = ".new";
  if (path == marker_name || is_among(file_patterns, path)) return true;
  return path.ends_with(unfinished) && is_among(file_patterns, path.substr(0, path.size() - unfinished.size()));
}

bool is_own_link(std::string_view path) { return is_among(link_patterns, path); }

bool is_of_others(std::string_view path) {
  constexpr std::array others{cache_folder, memory_pattern, store_pattern};
  for (auto slash = path.find('/'); slash != std::string_view::npos; slash = path.find('/', slash + 1)) {
    const std::string_view folder = path.substr(0, slash);
    if (is_among(others, folder)) return true;
  }
  return false;
}

bool is_own_folder(std::string_view path) { return is_among(folder_patterns, path); }

}  // namespace shardproof::launcher
