#include "launcher/terminal/log_tail.hpp"

#include <fmt/format.h>

#include <string_view>

#include "reports/export/terminal.hpp"

namespace shardproof::launcher {
namespace {

/// The most bytes at once. Large output is shown in pieces, so that the launcher can handle other events.
constexpr std::size_t bytes_at_once = std::size_t{1} << 20;

}  // namespace

LogTail::LogTail(const protocol::WorldDirectory& directory, const std::vector<int>& ranks, int size, bool together,
                 bool names_world) {
  const std::string world = names_world ? fmt::format("world {}, ", directory.root.filename().string()) : "";
  const auto follow = [&](int rank, const std::string& prefix) {
    logs_.push_back({GrowingFile(directory.standard_output(rank)), prefix, ""});
    logs_.push_back({GrowingFile(directory.standard_error(rank)), prefix, ""});
  };
  if (together) {
    if (!ranks.empty()) follow(0, fmt::format("[{}all ranks] ", world));
    return;
  }
  for (const int rank : ranks) {
    if (rank < size) follow(rank, fmt::format("[{}rank {}] ", world, rank));
  }
}

std::string LogTail::more(bool is_over) {
  std::string text;
  for (Log& log : logs_) take(log, is_over, text);
  return text;
}

void LogTail::take(Log& log, bool is_over, std::string& into) {
  log.rest += log.file.read_new(is_over ? std::string::npos : bytes_at_once);
  std::size_t begin = 0;
  for (std::size_t end = log.rest.find('\n'); end != std::string::npos; end = log.rest.find('\n', begin)) {
    into += log.prefix + reports::printable_line(std::string_view(log.rest).substr(begin, end - begin)) + "\n";
    begin = end + 1;
  }
  log.rest.erase(0, begin);
  if (log.rest.empty() || (!is_over && log.rest.size() < bytes_at_once))
    return;  // a very long line without an end is reported in pieces
  into += log.prefix + reports::printable_line(log.rest) + "\n";
  log.rest.clear();
}

}  // namespace shardproof::launcher
