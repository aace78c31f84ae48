#include "launcher/terminal/terminal.hpp"

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "launcher/files/claimed_directory.hpp"
#include "launcher/files/small_file.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/terminal/run_files.hpp"
#include "reports/export/columns.hpp"
#include "reports/export/terminal.hpp"

namespace shardproof::launcher {
namespace {

using reports::columns_of;
using reports::shortened;
using std::chrono::nanoseconds;

bool is_terminal(std::FILE* out) {
  const char* const kind = getenv("TERM");
  return isatty(fileno(out)) == 1 && (kind == nullptr || std::string_view(kind) != "dumb");
}

std::size_t terminal_width(std::FILE* out) {
  winsize size{};
  return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string seconds(nanoseconds time) { return fmt::format("{:.1f} s", std::chrono::duration<double>(time).count()); }

/// An estimate has no digits that mean nothing.
std::string about(nanoseconds time) {
  const auto whole = std::chrono::ceil<std::chrono::seconds>(time).count();
  if (whole < 90) return fmt::format("{} s", whole);
  if (whole < 90 * 60) return fmt::format("{} min", (whole + 30) / 60);
  return fmt::format("{:.1f} h", static_cast<double>(whole) / 3600);
}

}  // namespace

bool use_color(ColorWhen requested, std::FILE* out) {
  if (requested != ColorWhen::automatic) return requested == ColorWhen::always;
  const char* const refused = getenv("NO_COLOR");
  return is_terminal(out) && (refused == nullptr || *refused == '\0');
}

std::string progress_line(const RunProgress& progress, std::size_t width) {
  std::string line = fmt::format("{}/{} {}", progress.done, progress.total, progress.what);
  const auto count = [&](std::size_t cases, std::string_view how) {
    if (cases > 0) line += fmt::format(", {} {}", cases, how);
  };
  count(progress.failed, "failed");
  count(progress.waived, "waived");
  count(progress.failed_or_waived, "failed or waived");
  if (progress.left) line += fmt::format(", about {} left", about(*progress.left));
  const auto add = [&](std::string_view what, const std::string& id, nanoseconds time) {
    if (id.empty()) return;
    const std::string head = fmt::format(" | {}", what);
    const std::string end = fmt::format(" {}", seconds(time));
    const std::size_t taken = columns_of(line) + columns_of(head) + columns_of(end);
    // A shorter part of an id is useless.
    constexpr std::size_t least = 24;
    if (taken + std::min(least, columns_of(id)) > width) return;
    line += head + shortened(reports::printable_line(id), width - taken) + end;
  };
  // The running case comes first. The slowest case is shown if there is room and it took noticeable time: most cases
  // take almost none.
  add("", progress.running, progress.running_for);
  if (progress.slowest_time >= std::chrono::seconds(1)) add("slowest ", progress.slowest, progress.slowest_time);
  return shortened(line, width);
}

std::optional<nanoseconds> time_left(nanoseconds spent, std::size_t done, std::size_t total) {
  if (done == 0) return std::nullopt;
  const double share = static_cast<double>(total - std::min(done, total)) / static_cast<double>(done);
  return std::chrono::duration_cast<nanoseconds>(spent * share);
}

const RunProgress& ProgressTracker::update(const protocol::WorldPlan& plan, const control::ControlPlane& page) {
  WorldProgress& world = worlds_[&plan];
  world = WorldProgress{.ended = plan.cases.size()};
  std::int64_t position = -1;
  for (int rank = 0; rank < plan.size; ++rank) {
    const control::Progress seen = page.progress(rank);
    world.ended = std::min(world.ended, seen.cases_ended);
    world.failed = std::max(world.failed, seen.cases_failed);
    if (seen.position >= 0 && (position < 0 || seen.case_started_ns < world.since_ns)) {
      position = seen.position;
      world.since_ns = seen.case_started_ns;
    }
  }
  if (position >= 0 && static_cast<std::size_t>(position) < plan.cases.size())
    world.running = plan.cases[static_cast<std::size_t>(position)];

  progress_.done = done_before_;
  progress_.failed = failed_before_;
  progress_.failed_or_waived = 0;
  progress_.running.clear();
  std::int64_t first = 0;  // the earliest start of a running case
  for (const auto& [of, seen] : worlds_) {
    progress_.done += seen.ended;
    (has_waivers_ ? progress_.failed_or_waived : progress_.failed) += seen.failed;
    if (seen.running.empty() || (!progress_.running.empty() && seen.since_ns >= first)) continue;
    progress_.running = seen.running;
    first = seen.since_ns;
  }
  if (!progress_.running.empty()) {
    progress_.running_for = std::chrono::steady_clock::now().time_since_epoch() - nanoseconds(first);
    if (progress_.running_for > progress_.slowest_time) {
      progress_.slowest = progress_.running;
      progress_.slowest_time = progress_.running_for;
    }
  }
  return progress_;
}

void ProgressTracker::world_ended(const protocol::WorldPlan& plan, std::size_t done, std::size_t failed,
                                  std::size_t waived) {
  worlds_.erase(&plan);
  done_before_ += done;
  failed_before_ += failed;
  progress_.waived += waived;
}

Terminal::Terminal(std::FILE* out, const TerminalOptions& options)
    : out_(out), live_(is_terminal(out) && !options.quiet) {
  style_.color = use_color(options.color, out);
  style_.verbose = options.verbose;
  style_.quiet = options.quiet;
}

Terminal::~Terminal() {
  clear();
  finish();
}

void Terminal::explain(const std::vector<protocol::ClauseInfo>& clauses) {
  for (const protocol::ClauseInfo& clause : clauses) style_.clauses[clause.id] = clause.text;
}

void Terminal::show_files_of(const protocol::RunDirectory& run) { launcher::show_files_of(style_, run); }

std::chrono::milliseconds Terminal::interval() const {
  // No user watches a log grow. A line every half minute shows that the run is alive, and where it is.
  return live_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(30'000);
}

std::optional<LiveView> Terminal::view(ProgressTracker& tracker, const protocol::WorldPlan& plan) {
  if (style_.quiet) return std::nullopt;
  return LiveView{.interval = interval(), .show = [this, &tracker, &plan](const control::ControlPlane& page) {
                    show(tracker.update(plan, page));
                  }};
}

std::optional<LiveView> Terminal::view(std::function<RunProgress()> progress) {
  if (style_.quiet) return std::nullopt;
  return LiveView{.interval = interval(),
                  .show = [this, progress = std::move(progress)](const control::ControlPlane&) { show(progress()); }};
}

void Terminal::show_progress(const RunProgress& progress) {
  if (style_.quiet || (!live_ && std::chrono::steady_clock::now() - shown_ < interval())) return;
  show(progress);
}

void Terminal::show(const RunProgress& progress) {
  shown_ = std::chrono::steady_clock::now();
  if (live_) show_live(progress_line(progress, terminal_width(out_) - 1));
  else print(progress_line(progress, 200));
}

void Terminal::show_live(std::string_view line) {
  if (!live_) return;
  flush();
  if (!waiting_.empty()) return;  // a terminal that is stopped shows nothing
  // Carriage return, the line, and an erase of the rest of a longer line. The last column stays free, so that the
  // terminal does not wrap.
  write(fmt::format("\r{}\x1b[K", shortened(reports::printable_line(line), terminal_width(out_) - 1)));
  is_line_shown_ = true;
}

void Terminal::clear() {
  if (!is_line_shown_) return;
  write("\r\x1b[K");
  is_line_shown_ = false;
}

void Terminal::print(std::string_view text) {
  if (text.empty()) return flush();
  clear();
  std::string whole = reports::screened(filter_ ? filter_(text) : text);
  if (whole.back() != '\n') whole += '\n';
  write(whole);
}

void Terminal::write(std::string_view text) {
  flush();
  if (waiting_.empty()) note_lost(write_ready(out_, text));
  if (waiting_.size() + text.size() > most_waiting) return note_lost(std::make_error_code(std::errc::no_buffer_space));
  waiting_ += text;
}

void Terminal::flush() {
  std::string_view rest = waiting_;
  note_lost(write_ready(out_, rest));
  waiting_.erase(0, waiting_.size() - rest.size());
}

const std::error_code& Terminal::finish() {
  note_lost(write_through(out_, std::exchange(waiting_, {})));
  return lost_;
}

void Terminal::note_lost(const std::error_code& error) {
  // A closed terminal is a reader that has left.
  if (error && !(live_ && error == std::errc::io_error) && !lost_) lost_ = error;
}

}  // namespace shardproof::launcher
