#include "reports/merge/rank_stream.hpp"

#include <fmt/format.h>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "harness/base/input_file.hpp"

namespace shardproof::reports {

namespace {

std::size_t size_of(const protocol::event::AssertionFailed& failure) {
  std::size_t bytes = sizeof(failure) + failure.file.size() + failure.macro.size() + failure.expression.size() +
                      failure.expansion.size();
  for (const auto& text : failure.messages) bytes += sizeof(text) + text.size();
  for (const auto& text : failure.clauses) bytes += sizeof(text) + text.size();
  return bytes;
}

}  // namespace

void StreamAssembly::take(protocol::RankEvent&& event) {
  if (stream_.complete) throw std::invalid_argument("a line after rank_ended");
  if (!stream_.start && !std::holds_alternative<protocol::event::RankStarted>(event))
    throw std::invalid_argument("the first line must be rank_started");
  std::visit([this](auto&& e) { on(std::forward<decltype(e)>(e)); }, std::move(event));
}

void StreamAssembly::on(protocol::event::RankStarted&& e) {
  if (stream_.start) throw std::invalid_argument("a second rank_started: two processes wrote this stream");
  stream_.start = std::move(e);
}

void StreamAssembly::on(protocol::event::CaseStarted&& e) {
  if (open_)
    throw std::invalid_argument(
        fmt::format("\"{}\" starts before \"{}\" has ended", e.id, stream_.cases.back().started.id));
  if (stream_.cases.size() >= limits_.cases)
    throw std::invalid_argument(fmt::format("more than {} cases", limits_.cases));
  keep(sizeof(StreamedCase) + e.id.size());
  stream_.cases.emplace_back().started = std::move(e);
  open_ = true;
}

void StreamAssembly::on(protocol::event::AssertionFailed&& e) {
  auto& current = open_case("assertion_failed");
  const auto bytes = size_of(e);
  if (current.failures.size() < limits_.failures_per_case && failure_bytes_ + bytes <= limits_.failure_bytes) {
    failure_bytes_ += bytes;
    current.failures.push_back(std::move(e));
  } else {
    ++current.failures_left_out;
  }
}

void StreamAssembly::on(protocol::event::Measured&& e) {
  auto& current = open_case("measured");
  if (current.measurements.size() >= limits_.measurements_per_case) {
    throw std::invalid_argument(fmt::format("more than {} measurements in one case", limits_.measurements_per_case));
  }
  keep(sizeof(e) + e.name.size() + e.unit.size());
  current.measurements.push_back(std::move(e));
}

void StreamAssembly::on(protocol::event::CaseEnded&& e) {
  auto& current = open_case("case_ended");
  if (e.id != current.started.id || e.position != current.started.position) {
    throw std::invalid_argument(fmt::format("\"{}\" at position {} ends inside \"{}\" at position {}", e.id, e.position,
                                            current.started.id, current.started.position));
  }
  std::size_t bytes = e.id.size() + e.reason.size();
  for (const std::string& feature : e.combined) bytes += sizeof(feature) + feature.size();
  keep(bytes);
  current.ended = std::move(e);
  open_ = false;
}

void StreamAssembly::on(protocol::event::RankEnded&& e) {
  if (open_) throw std::invalid_argument(fmt::format("rank_ended inside \"{}\"", stream_.cases.back().started.id));
  if (e.rank != stream_.start->rank)
    throw std::invalid_argument(fmt::format("rank {} ends the stream of rank {}", e.rank, stream_.start->rank));
  stream_.complete = true;
  keep(e.cut_short.size());
  stream_.cut_short = std::move(e.cut_short);
  stream_.is_cut_by_case = e.is_by_case;
}

StreamedCase& StreamAssembly::open_case(std::string_view what) {
  if (!open_) throw std::invalid_argument(fmt::format("{} outside a case", what));
  return stream_.cases.back();
}

void StreamAssembly::keep(std::size_t bytes) {
  other_bytes_ += bytes;
  if (other_bytes_ > limits_.other_bytes)
    throw std::invalid_argument(fmt::format("more than {} bytes of cases", limits_.other_bytes));
}

RankStream read_rank_stream(std::istream& in, const StreamLimits& limits) {
  RankStream stream;
  StreamAssembly assembly(stream, limits);
  std::uint64_t line_number = 0;
  std::uint64_t offset = 0;  // the offset of the line's first byte

  // Returns false when reading has to end.
  const auto take = [&](std::string_view line) {
    ++line_number;
    try {
      assembly.take(protocol::parse_line(line));
    } catch (const std::invalid_argument& error) {
      stream.defect = fmt::format("line {}, byte {}: {}", line_number, offset, error.what());
      return false;
    }
    offset += line.size() + 1;
    return true;
  };

  constexpr std::size_t chunk = 1U << 18U;
  std::string buffer(chunk, '\0');
  std::size_t filled = 0;
  while (true) {
    in.read(buffer.data() + filled, static_cast<std::streamsize>(buffer.size() - filled));
    const auto got = static_cast<std::size_t>(in.gcount());
    if (in.bad()) {
      stream.defect = fmt::format("byte {}: cannot be read", offset);
      return stream;
    }
    const std::size_t searched = filled;
    filled += got;
    std::size_t begin = 0;
    std::size_t from = searched;
    while (const void* found = std::memchr(buffer.data() + from, '\n', filled - from)) {
      const auto end = static_cast<std::size_t>(static_cast<const char*>(found) - buffer.data());
      if (!take({buffer.data() + begin, end - begin})) return stream;
      begin = from = end + 1;
    }
    std::memmove(buffer.data(), buffer.data() + begin, filled - begin);
    filled -= begin;
    if (got == 0) break;
    if (filled >= protocol::event::line_limit) {
      stream.defect =
          fmt::format("line {}, byte {}: longer than {} bytes", line_number + 1, offset, protocol::event::line_limit);
      return stream;
    }
    if (buffer.size() - filled < chunk / 2) buffer.resize(buffer.size() * 2);
  }
  stream.truncated = filled > 0;
  if (stream.truncated && stream.complete)
    stream.defect = fmt::format("line {}, byte {}: bytes after rank_ended", line_number + 1, offset);
  stream.absent = line_number == 0 && filled == 0;
  return stream;
}

RankStream read_rank_stream(const std::filesystem::path& file, const StreamLimits& limits) {
  try {
    const std::unique_ptr<std::istream> in = base::open_evidence(file, 1);
    return read_rank_stream(*in, limits);
  } catch (const base::UnreadableFile& error) {
    RankStream stream;
    std::error_code unknown;
    const auto folder = std::filesystem::symlink_status(file.parent_path(), unknown);
    // Something else in the place of the folder hides the streams in it.
    stream.absent =
        !std::filesystem::exists(folder) || (std::filesystem::is_directory(folder) && !base::is_there(file));
    stream.defect = fmt::format("cannot open {}: {}", file.filename().string(), error.why());
    return stream;
  }
}

}  // namespace shardproof::reports
