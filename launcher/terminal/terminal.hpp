// What a person sees: one line that lives while worlds run, plain lines where nobody looks at them live, colour only on a terminal.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "harness/control/control_page.hpp"
#include "harness/protocol/case_info.hpp"
#include "harness/protocol/run_directory.hpp"
#include "harness/protocol/world_plan.hpp"
#include "launcher/commands/options.hpp"
#include "launcher/run/world.hpp"
#include "reports/export/summary.hpp"

namespace shardproof::launcher {

/// How far a run has come.
struct RunProgress {
  std::size_t done = 0, total = 0;
  std::size_t failed = 0, waived = 0;
  std::size_t failed_or_waived = 0;  ///< of worlds that still run: what waivers excuse is known when a world has ended
  std::string running;  ///< id of the case that runs now; empty between cases
  std::chrono::nanoseconds running_for{0};
  std::string slowest;  ///< of those that were seen running
  std::chrono::nanoseconds slowest_time{0};
};

/// `12/64 cases, 1 failed | overlap/training_overlap[W=2] 0.3 s | slowest overlap/post_optim_event[W=2,event=true] 1.2 s`, never longer than
/// `width`: ids are cut in the middle, and what would not be readable is left out. The slowest case is told from one second on.
std::string progress_line(const RunProgress& progress, std::size_t width);

/// Follows a run over its worlds by looking at their control pages.
class ProgressTracker {
 public:
  explicit ProgressTracker(std::size_t total, bool has_waivers = false) : has_waivers_(has_waivers) { progress_.total = total; }
  const RunProgress& look(const WorldPlan& plan, const ControlPage& page);
  void world_ended(const WorldPlan& plan, std::size_t done, std::size_t failed, std::size_t waived);

 private:
  /// Of a world that runs.
  struct Seen {
    std::uint64_t ended = 0, failed = 0;
    std::string running;  ///< empty: no case
    std::int64_t since_ns = 0;
  };

  const bool has_waivers_;
  RunProgress progress_;
  std::size_t done_before_ = 0, failed_before_ = 0;
  std::map<const WorldPlan*, Seen> worlds_;
};

class Terminal {
 public:
  /// `out` is borrowed.
  Terminal(std::FILE* out, const TerminalOptions& options);
  /// Wipes the live line, and finishes.
  ~Terminal();
  Terminal(const Terminal&) = delete;

  bool color() const { return style_.color; }
  /// From here on, failures explain the clauses that they break.
  void explain(const std::vector<ClauseInfo>& clauses);
  /// From here on, failures name whole the files in the run's directory: the scenarios that their cases have left there, and stacks.
  void look_in(const RunDirectory& run);
  /// From here on, failures name no file of the run: the command deletes the run's directory when it ends.
  void keep_nothing() { style_.is_kept = false; }
  const reports::TextStyle& style() const { return style_; }

  /// How the run is to be shown while it lasts, if at all.
  std::optional<LiveView> view(ProgressTracker& tracker, const WorldPlan& plan);

  /// Whole lines, above the live one, and before them what still waits to be taken.
  void print(std::string_view text);
  /// The same, unless quiet was asked for.
  void note(std::string_view text) {
    if (!style_.quiet) print(text);
  }

  /// The same, where no live line tells as much.
  void log(std::string_view text) {
    if (!live_) note(text);
  }

  /// Where somebody watches: a line that stands until the next one, or something printed, takes its place.
  void show_live(std::string_view line);

  /// Waits until all of it has been taken, by a reader who need not be quick; until then nothing here waits for anybody. A signal that ends
  /// processes ends this one meanwhile. Why not all arrived, if it did not: a run is not ended for it.
  const std::error_code& finish();

 private:
  void show(const RunProgress& progress);
  void clear();
  void write(std::string_view text);
  /// Writes of what waits as much as is taken without waiting.
  void flush();
  void note_lost(const std::error_code& error);

  /// What nobody reads is not kept for ever.
  static constexpr std::size_t most_waiting = std::size_t{64} << 20;

  std::FILE* out_;
  bool live_ = false;
  bool line_stands_ = false;
  std::error_code lost_;
  std::string waiting_;  ///< said, and not taken yet
  reports::TextStyle style_;
};

/// As `asked`, by whether `out` is a terminal, and by NO_COLOR (no-color.org).
bool use_color(ColorWhen asked, std::FILE* out);

}  // namespace shardproof::launcher
