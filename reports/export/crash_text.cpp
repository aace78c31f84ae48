#include "reports/export/crash_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

#include "harness/protocol/ending.hpp"
#include "reports/export/foreign_text.hpp"

namespace shardproof::reports {

namespace {

constexpr std::string_view harness_begins = "-- below: the harness, which called the body of the case --";
constexpr std::size_t most_of_name = 2000;  ///< bytes of a function's name
constexpr std::string_view no_stack = "no stack: ";
constexpr std::string_view body_caller = "shardproof::runner::CaseBodyRunner::run(";

/// Whether the function only passes the call of a body on.
bool passes_on(std::string_view function) {
  constexpr std::array rooms{std::string_view("std::"), std::string_view("shardproof::runner::"),
                             std::string_view("shardproof::cases::")};
  if (constexpr std::string_view nothing = "void "; function.starts_with(nothing))
    function.remove_prefix(nothing.size());
  return std::ranges::any_of(rooms, [&](std::string_view room) { return function.starts_with(room); });
}

/// The number of frames above the harness: all of them if no body was running.
std::size_t frames_of_body(std::span<const CrashFrame> frames) {
  const auto caller =
      std::ranges::find_if(frames, [](const CrashFrame& frame) { return frame.function.starts_with(body_caller); });
  if (caller == frames.end()) return frames.size();
  auto count = static_cast<std::size_t>(caller - frames.begin());
  while (count > 0 && passes_on(frames[count - 1].function)) --count;
  return count;
}

std::string frame_text(const CrashFrame& frame) {
  std::string text = frame.function.empty() ? fmt::format("{:#x}", frame.module.empty() ? frame.address : frame.offset)
                                            : one_line(frame.function, most_of_name);
  if (frame.is_inlined) text += " (inlined)";
  if (!frame.file.empty()) text += fmt::format(" at {}:{}", one_line(frame.file), frame.line);
  else if (!frame.module.empty()) text += fmt::format(" in {}", one_line(frame.module));
  else text += ", where the rank has no code";
  return text + (frame.is_guess ? " (perhaps)" : "");
}

bool is_same_call(const CrashFrame& a, const CrashFrame& b) {
  return a.address == b.address && a.is_inlined == b.is_inlined && a.function == b.function;
}

/// Recursion makes many equal frames: the first one has a line, and the number of the others.
void add_frames(std::string& text, std::span<const CrashFrame> frames, std::size_t first_number) {
  for (auto frame = frames.begin(); frame != frames.end();) {
    const auto next =
        std::find_if_not(frame, frames.end(), [&](const CrashFrame& other) { return is_same_call(*frame, other); });
    const auto number = first_number + static_cast<std::size_t>(frame - frames.begin());
    text += fmt::format("#{:<3} {}", number, frame_text(*frame));
    if (next - frame > 1) text += fmt::format(", {} times", next - frame);
    text += '\n';
    frame = next;
  }
}

std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

/// The line of a frame, in one line of a terminal. The place in the source stays whole if it is not too long.
std::string short_frame(std::string_view line) {
  constexpr std::size_t most = 112, least_of_name = 40;
  const std::size_t place = std::min(line.rfind(" at "), line.size());
  const std::size_t length_of_place = std::min(line.size() - place, most - least_of_name);
  return one_line(line.substr(0, place), most - length_of_place) + one_line(line.substr(place), length_of_place);
}

}  // namespace

std::string crash_text(int rank, const protocol::CrashHeader& header, const CrashFrames& found) {
  const std::string cause = protocol::signal_cause(header);
  const auto name_end = std::ranges::find(header.thread_name, '\0');
  std::string text =
      fmt::format("rank {}, {}{}{}, thread {} \"{}\"", rank, protocol::signal_text(header.signal),
                  cause.empty() ? "" : " ", cause, header.thread, std::string(header.thread_name.begin(), name_end));
  if (header.rank < 0) text += ", which the program started";
  text = one_line(text) + '\n';
  const std::span frames(found.frames);
  const std::size_t of_body = frames_of_body(frames);
  add_frames(text, frames.first(of_body), 0);
  if (of_body < frames.size()) text += fmt::format("{}\n", harness_begins);
  add_frames(text, frames.subspan(of_body), of_body);
  if (header.is_complete == 0) text += "the record is incomplete: the rank had no time or no space to save all of it\n";
  if (!found.why_no_more.empty())
    text += fmt::format("no {}frames: {}\n", frames.empty() ? "" : "more ", one_line(found.why_no_more));
  return text;
}

std::string no_crash_text(std::string_view why) { return fmt::format("{}{}\n", no_stack, one_line(why)); }

std::string crash_excerpt(int rank, std::string_view text, std::string_view place) {
  constexpr std::size_t most_lines = 13;
  if (text.empty()) return {};
  if (text.starts_with(no_stack))
    return fmt::format("  no stack of rank {}: {}\n", rank, one_line(first_line(text.substr(no_stack.size()))));
  std::string excerpt = fmt::format("  the stack of rank {}", rank);
  excerpt += place.empty() ? std::string(":\n") : fmt::format(" ({}):\n", one_line(place));
  std::size_t lines = 0, left_out = 0;
  while (!text.empty()) {
    const std::string_view line = first_line(text);
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line == harness_begins) break;
    if (++lines <= most_lines)
      excerpt += fmt::format("    {}\n", line.starts_with('#') ? short_frame(line) : one_line(line));
    else ++left_out;
  }
  if (left_out > 0) excerpt += fmt::format("    … and {} more lines\n", left_out);
  return excerpt;
}

}  // namespace shardproof::reports
