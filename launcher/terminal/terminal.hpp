// The text that a command shows its user. While worlds run, a terminal shows one live line, and other outputs get plain
// lines. By default, only a terminal gets colour.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "harness/control/control_plane.hpp"
#include "harness/protocol/case_info.hpp"
#include "harness/protocol/run_directory.hpp"
#include "harness/protocol/world_plan.hpp"
#include "launcher/terminal/live_view.hpp"
#include "reports/export/summary.hpp"

namespace shardproof::launcher {

enum class ColorWhen : std::uint8_t { automatic, always, never };

/// The form of what a command prints on standard output.
enum class MessageFormat : std::uint8_t {
  text,  ///< for people
  json,  ///< an event per line, for programs
};

struct TerminalOptions {
  ColorWhen color = ColorWhen::automatic;
  bool quiet = false;
  bool verbose = false;
};

/// How far a run has come, or a command with several runs.
struct RunProgress {
  std::string_view what = "cases";  ///< what `done` and `total` count
  std::size_t done = 0, total = 0;
  std::optional<std::chrono::nanoseconds> left;  ///< an estimate of the remaining time; nullopt: unknown
  std::size_t failed = 0, waived = 0;
  /// of running worlds; which failures waivers excuse is known when a world has ended
  std::size_t failed_or_waived = 0;
  std::string running;  ///< id of the running case, or name of the running fault; empty between them
  std::chrono::nanoseconds running_for{0};
  std::string slowest;  ///< of the cases that were seen running
  std::chrono::nanoseconds slowest_time{0};
};

/// `12/64 cases, 1 failed | overlap/training_overlap[W=2] 0.3 s | slowest overlap/post_optim_event[W=2,event=true] 1.2
/// s`
///
/// With an estimate: `12/64 faults, about 40 s left | copy_out_before_gather 0.3 s`
///
/// Never longer than `width`. Ids are cut in the middle. A part that would be unreadable is left out. The slowest case
/// is shown if it takes one second or longer.
std::string progress_line(const RunProgress& progress, std::size_t width);

/// The remaining time, if all work takes as long as the work that is `done`. Nullopt: none is done.
std::optional<std::chrono::nanoseconds> time_left(std::chrono::nanoseconds spent, std::size_t done, std::size_t total);

/// Follows a run over its worlds by looking at their control pages.
class ProgressTracker {
 public:
  explicit ProgressTracker(std::size_t total, bool has_waivers = false) : has_waivers_(has_waivers) {
    progress_.total = total;
  }
  const RunProgress& update(const protocol::WorldPlan& plan, const control::ControlPlane& page);
  void world_ended(const protocol::WorldPlan& plan, std::size_t done, std::size_t failed, std::size_t waived);

 private:
  /// The state of a running world.
  struct WorldProgress {
    std::uint64_t ended = 0, failed = 0;
    std::string running;  ///< empty: no case
    std::int64_t since_ns = 0;
  };

  const bool has_waivers_;
  RunProgress progress_;
  std::size_t done_before_ = 0, failed_before_ = 0;
  std::map<const protocol::WorldPlan*, WorldProgress> worlds_;
};

class Terminal {
 public:
  /// `out` is borrowed.
  Terminal(std::FILE* out, const TerminalOptions& options);
  /// Clears the live line, and finishes.
  ~Terminal();
  Terminal(const Terminal&) = delete;

  bool color() const { return style_.color; }
  /// From here on, failures explain the clauses that they break.
  void explain(const std::vector<protocol::ClauseInfo>& clauses);
  /// From here on, failures name files in the run's directory by their whole path: the scenarios of their cases, and
  /// stacks.
  void show_files_of(const protocol::RunDirectory& run);
  /// From here on, failures name no file of the run: the command deletes the run's directory when it ends.
  void keep_nothing() { style_.is_kept = false; }
  const reports::TextStyle& style() const { return style_; }

  /// How a world shows its progress. Empty: quiet was asked for.
  std::optional<LiveView> view(ProgressTracker& tracker, const protocol::WorldPlan& plan);

  /// How a world shows the progress of a command that has several runs. Empty: quiet was asked for.
  std::optional<LiveView> view(std::function<RunProgress()> progress);
  /// The same between two worlds: a terminal shows it at once, and other outputs get a line every half minute.
  void show_progress(const RunProgress& progress);

  /// From here on, `filter` changes all printed text, for example so that it holds no command of a CI system. Nullptr:
  /// no change.
  void filter_by(std::string (*filter)(std::string_view)) { filter_ = filter; }

  /// Prints whole lines above the live line. Text that still waits is written first.
  void print(std::string_view text);
  /// Like `print`, unless quiet was asked for.
  void note(std::string_view text) {
    if (!style_.quiet) print(text);
  }

  /// Like `note`, but not on a terminal: the live line shows as much there.
  void log(std::string_view text) {
    if (!live_) note(text);
  }

  /// On a terminal, shows `line` until the next live line or printed text replaces it.
  void show_live(std::string_view line);

  /// Waits until the reader has taken all text, however slow the reader is. No other function here waits. A signal that
  /// ends processes also ends a process that waits here.
  ///
  /// Returns why text was lost, if it was. A run does not end because of lost text.
  const std::error_code& finish();

 private:
  std::chrono::milliseconds interval() const;
  void show(const RunProgress& progress);
  void clear();
  void write(std::string_view text);
  /// Writes as much waiting text as the output takes without blocking.
  void flush();
  void note_lost(const std::error_code& error);

  /// The limit, in bytes, for text that no reader takes.
  static constexpr std::size_t most_waiting = std::size_t{64} << 20;

  std::FILE* out_;
  std::string (*filter_)(std::string_view) = nullptr;
  bool live_ = false;
  bool is_line_shown_ = false;
  std::chrono::steady_clock::time_point shown_ = std::chrono::steady_clock::now();  ///< last line about progress
  std::error_code lost_;
  std::string waiting_;  ///< printed, but not taken by the reader yet
  reports::TextStyle style_;
};

/// Whether to use colour. Depends on `requested`. If that is `automatic`, `out` has to be a terminal, and NO_COLOR
/// (no-color.org) must not be set.
bool use_color(ColorWhen requested, std::FILE* out);

}  // namespace shardproof::launcher
