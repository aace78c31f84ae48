#include "launcher/run/trace_files.hpp"

#include <fmt/format.h>

#include <charconv>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "harness/base/input_file.hpp"
#include "harness/base/json_parse.hpp"
#include "harness/base/json_text.hpp"
#include "harness/protocol/trace_json.hpp"
#include "launcher/files/output.hpp"
#include "launcher/launcher.hpp"
#include "reports/export/chrome_trace.hpp"

namespace shardproof::launcher {
namespace {

/// The parts `CASE` and `3` of `CASE.rank-3.json`.
std::optional<std::pair<std::string, int>> part_of(const std::string& file_name) {
  constexpr std::string_view mark = ".rank-";
  constexpr std::string_view extension = ".json";
  const std::size_t at = file_name.rfind(mark);
  if (at == std::string::npos || !file_name.ends_with(extension)) return std::nullopt;
  const char* const first = file_name.data() + at + mark.size();
  const char* const last = file_name.data() + file_name.size() - extension.size();
  int rank = 0;
  const auto [rest, error] = std::from_chars(first, last, rank);
  if (error != std::errc{} || rest != last) return std::nullopt;
  return std::pair(file_name.substr(0, at), rank);
}

void merge_case(const std::map<int, std::filesystem::path>& parts, const std::filesystem::path& merged) {
  std::vector<Trace> ranks;
  for (const auto& [rank, file] : parts) ranks.push_back(base::parse_json(base::read_evidence(file, 1)).get<Trace>());
  write_own_file(merged, base::dump_line(reports::chrome_trace(ranks)) + "\n", 3);
  for (const auto& [rank, file] : parts) std::filesystem::remove(file);
}

}  // namespace

std::vector<std::string> merge_traces(const protocol::WorldDirectory& directory) {
  std::map<std::string, std::map<int, std::filesystem::path>> cases;
  if (!std::filesystem::is_directory(directory.traces())) return {};
  for (const auto& entry : std::filesystem::directory_iterator(directory.traces())) {
    if (auto part = part_of(entry.path().filename().string())) cases[part->first][part->second] = entry.path();
  }
  std::vector<std::string> defects;
  for (const auto& [name, parts] : cases) {
    try {
      merge_case(parts, directory.traces() / (name + ".trace.json"));
    } catch (const CommandError&) {
      throw;  // the disk is full: that is not this case's defect
    } catch (const std::exception& error) {
      defects.push_back(fmt::format("trace of {} in {}: {}", name, directory.traces().string(), error.what()));
    }
  }
  return defects;
}

}  // namespace shardproof::launcher
