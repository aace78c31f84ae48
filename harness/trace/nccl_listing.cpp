#include "harness/trace/nccl_listing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace shardproof::trace {

std::string name_of(const protocol::TapProcess& process) {
  return process.rank ? fmt::format("rank {}", *process.rank) : fmt::format("process {}", process.pid);
}

namespace {

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string line_of(const protocol::Communicator& communicator) {
  std::string line = fmt::format("comm {}", communicator.id);
  if (!communicator.name.empty()) line += fmt::format(" \"{}\"", communicator.name);
  if (communicator.size >= 0) line += fmt::format(" of {} ranks", communicator.size);
  if (communicator.rank >= 0) line += fmt::format(", rank {}", communicator.rank);
  line += communicator.origin ? fmt::format(", by {}", protocol::to_string(*communicator.origin))
                              : ", there before the tap";
  if (communicator.parent >= 0) line += fmt::format(" of comm {}", communicator.parent);
  return line + fmt::format(", {}", protocol::to_string(communicator.state));
}

}  // namespace

std::string list(const protocol::TapRecord& record) {
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{}: process {}, {} calls of ", name_of(record.process), record.process.pid, record.begun);
  if (record.library.version == 0) {
    fmt::format_to(out, "an NCCL that was not found\n");
  } else {
    fmt::format_to(out, "NCCL {} ({})\n", version_text(record.library.version), record.library.path);
  }
  if (!record.process.faults.empty()) fmt::format_to(out, "  with faults: {}\n", record.process.faults);
  for (const protocol::Communicator& communicator : record.communicators)
    fmt::format_to(out, "  {}\n", line_of(communicator));
  const std::uint64_t kept = record.calls.size();
  if (kept + record.missing < record.begun)
    fmt::format_to(out, "  … {} earlier calls\n", record.begun - kept - record.missing);
  for (const protocol::Call& call : record.calls) {
    fmt::format_to(out, "  {}{}{}\n", std::string(2UL * std::min(call.group_depth, 8U), ' '), protocol::describe(call),
                   protocol::describe_outcome(call));
  }
  if (record.missing > 0) fmt::format_to(out, "  and {} that the process was still writing\n", record.missing);
  return text;
}

}  // namespace shardproof::trace
