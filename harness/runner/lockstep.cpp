#include "harness/runner/lockstep.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <ranges>
#include <span>
#include <utility>
#include <vector>

#include "harness/base/digest.hpp"
#include "harness/base/no_room.hpp"
#include "harness/cases/ranked_test_case.hpp"
#include "harness/protocol/events.hpp"
#include "harness/protocol/failure_text.hpp"
#include "harness/protocol/run_directory.hpp"
#include "harness/runner/case_end.hpp"
#include "harness/runner/case_output.hpp"
#include "harness/runner/process_state.hpp"
#include "harness/world/event_stream.hpp"

namespace shardproof::runner {

using cases::BoundCase;
using control::AbortReason;
using protocol::Outcome;
using world::World;

namespace {

// Follows one body on this rank. It writes the body's failures to the stream as they happen. It raises the abort word
// when the body is left abnormally. At the end it knows the rank's own outcome. A failure after a released wait does
// not count: another rank caused it.
class Observer final : public BodyListener {
 public:
  Observer(World& world, const BoundCase& bound) : world_(world), bound_(bound) {}

  void failed(protocol::event::AssertionFailed failure) override {
    stay_the_rank();
    if (was_released()) return;
    ++failures_;
    const std::string what = failure.expression.empty()
                                 ? fmt::format("{}: {}", failure.macro, failure.expansion)
                                 : fmt::format("{}({}) failed", failure.macro, failure.expression);
    last_failure_ = fmt::format("{} at {}:{}", what, failure.file, failure.line);
    write(std::move(failure), clauses_here());
  }

  void left_by_assertion() override {
    stay_the_rank();
    if (!was_released()) world_.abort(AbortReason::failed, last_failure_);
  }

  void left_by_exception(const std::exception_ptr& exception, const std::string& text) override {
    stay_the_rank();
    if (was_released()) return;
    const AbortReason reason = reason_of(exception);
    if (reason == AbortReason::no_room) {
      // Not an error of the case. The end of the world follows when the ranks agree on the end of the case.
      return world_.doom(reason, control::no_room_for(world_.rank(), text).text);
    }
    if (reason == AbortReason::disagreed) {
      ++failures_;
      mismatch_ = text;
      return world_.abort(reason, text);
    }
    set_error(text.empty() ? "the body threw an exception without a text" : text);
    world_.abort(reason, error_);
  }

  void exception_reported(protocol::event::AssertionFailed failure) override {
    if (was_released()) return;
    // The ranks' collectives differ. The harness found this, and no assertion of the body reports it.
    if (mismatch_)
      return write(of_harness(protocol::equal_collectives_check, *mismatch_, std::move(failure.messages)),
                   equal_collectives());
    if (failure.file.empty()) {
      failure.file = bound_.info.file;
      failure.line = bound_.info.line;
    }
    write(std::move(failure), cases::clauses_outside_scopes(bound_));
  }

  void released() override { world_.notes().calls.released = true; }

  void skip(std::string reason) override {
    stay_the_rank();
    world_.notes().skip = reason;
    world_.abort(AbortReason::skipped, reason);
  }

  void refused(std::string what) override {
    set_error(
        what +
        ": a ranked case runs its body once, from top to bottom; parameters are cases: use each(\"key\", values…)");
    world_.abort(AbortReason::error, error_);
  }

  /// Exits in a process that a body forked and that came back here. Only one of the two processes is the rank.
  void stay_the_rank() const {
    if (::getpid() == process_) return;
    fmt::print(stderr,
               "shardproof: process {}, forked by rank {} in {}, goes on as if it were the rank: end it by _exit\n",
               ::getpid(), world_.rank(), world_.notes().info->id);
    ::_exit(1);
  }

  /// The number of failures that this rank itself caused.
  std::uint64_t failures() const { return failures_; }

  /// `process`: as it was before the body.
  BodyEnd end(ProcessState& process) {
    const world::CaseNotes& notes = world_.notes();
    BodyEnd end{.own = Outcome::passed,
                .reason = {},
                .world_calls = notes.calls.world_calls,
                .defect = world_.service().defect(),
                .left_call = notes.calls.left_call};
    // A rank that was not reached by a deadline is out of reach of the next case, too.
    const auto aborted = world_.aborted();
    if (end.defect.empty() && aborted && aborted->reason == AbortReason::deadline)
      end.defect = notes.calls.out_of_reach;
    // Take them in any case, so that the next case does not get them.
    const world::CaseLeftovers left = world_.service().take_leftovers();
    const auto went_well = [&] { return error_.empty() && failures_ == 0; };
    // A failed call of the subject is reported before the memory that it left.
    if (went_well() && !was_released() && !left.engine_failure.empty())
      set_error("not quiet at its end: the subject's " + left.engine_failure);
    if (went_well() && !left.live_memory.empty()) {
      ++failures_;
      write(of_harness(protocol::freed_memory_check, "not quiet at its end: " + left.live_memory), freed_memory());
    }
    if (went_well() && !was_released() && !left.device_failure.empty())
      set_error("not quiet at its end: " + left.device_failure);
    if (const std::string changes = changes_of(process); !changes.empty()) {
      const std::string finding = "not quiet at its end: " + changes;
      if (!was_released()) {
        ++failures_;
        write(of_harness(protocol::unchanged_process_check, finding), {});
      }
      end.has_changed_process = end.defect.empty();
      if (end.defect.empty())
        end.defect = was_released() ? finding : bound_.info.id + " has changed the process that it ran in";
    }
    if (!error_.empty()) {
      end.own = Outcome::error;
      end.reason = error_;
    } else if (failures_ > 0) {
      end.own = Outcome::failed;
    } else if (notes.skip) {
      end.own = Outcome::skipped;
      end.reason = *notes.skip;
    }
    return end;
  }

 private:
  /// The changes that the body has left in the process, as one text. Empty: none.
  std::string changes_of(ProcessState& process) const {
    const world::CaseService& service = world_.service();
    const auto& tags = bound_.info.tags;
    const ProcessState::Allowed allowed{
        .threads = std::ranges::find(tags, protocol::keeps_threads_tag) != tags.end(),
        .signal_handlers = service.has_runtime(),
        .is_of_runtime = [&service](pid_t thread) { return service.is_of_runtime(thread); }};
    return fmt::format("{}", fmt::join(process.changes(allowed), "; "));
  }

  bool was_released() const { return world_.notes().calls.released; }

  // The first error counts.
  void set_error(std::string text) {
    if (error_.empty()) error_ = std::move(text);
  }

  /// The clauses that an assertion at this place of the body breaks.
  std::vector<std::string> clauses_here() const {
    for (const std::vector<std::string>& scope : world_.notes().scopes | std::views::reverse) {
      if (!scope.empty()) return scope;
    }
    return cases::clauses_outside_scopes(bound_);
  }
  std::vector<std::string> equal_collectives() const {
    return bound_.engine_clauses != nullptr ? std::vector{bound_.engine_clauses->equal_collectives}
                                            : bound_.info.clauses;
  }
  std::vector<std::string> freed_memory() const {
    return bound_.engine_clauses != nullptr ? std::vector{bound_.engine_clauses->freed_memory} : bound_.info.clauses;
  }

  /// A failure that the harness has found in the case.
  protocol::event::AssertionFailed of_harness(std::string_view check, std::string text,
                                              std::vector<std::string> messages = {}) const {
    return {.file = bound_.info.file,
            .line = bound_.info.line,
            .macro = std::string(check),
            .expression = {},
            .expansion = std::move(text),
            .messages = std::move(messages),
            .clauses = {},
            .monotonic_ns = world::monotonic_ns()};
  }

  void write(protocol::event::AssertionFailed failure, std::vector<std::string> clauses) {
    failure.clauses = std::move(clauses);
    if (world_.notes().seed_used) failure.messages.push_back(fmt::format("rank.seed() = {}", world_.notes().seed));
    world_.stream().write(failure);
  }

  static AbortReason reason_of(const std::exception_ptr& exception) {
    try {
      std::rethrow_exception(exception);
    } catch (const Mismatch&) {
      return AbortReason::disagreed;
    } catch (const control::DeadlineExceeded&) {
      return AbortReason::deadline;
    } catch (const base::NoRoom&) {
      return AbortReason::no_room;
    } catch (...) {
      return AbortReason::error;
    }
  }

  World& world_;
  const BoundCase& bound_;
  const pid_t process_ = ::getpid();
  std::uint64_t failures_ = 0;
  std::string last_failure_;
  std::string error_;
  std::optional<std::string> mismatch_;
};

class Lockstep {
 public:
  Lockstep(World& world, std::span<const BoundCase* const> cases, BodyRunner& runner)
      : world_(world), runner_(runner), process_(world.plan().fabric == protocol::thread_fabric), cases_(cases) {}

  LockstepEnd run() {
    for (std::uint64_t position = 0; position < cases_.size(); ++position) {
      run(*cases_[position], position);
      if (!end_.cut_short.empty()) break;
    }
    return end_;
  }

 private:
  void run(const BoundCase& bound, std::uint64_t position) {
    const std::string skip = agree_to_start(bound.info, position);
    world_.begin(bound.info, position);
    world_.stream().write(
        protocol::event::CaseStarted{.id = bound.info.id, .position = position, .monotonic_ns = world::monotonic_ns()});
    protocol::event::CaseEnded ended{.id = bound.info.id, .position = position};
    const auto started = std::chrono::steady_clock::now();
    const auto write_end = [&](const CaseEnd& end) {
      ended.outcome = end.outcome;
      ended.reason = end.reason;
      ended.culprit = end.culprit;
      ended.duration_ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - started).count();
      world_.stream().write(ended);
    };
    if (!skip.empty()) {
      ended.unclaimed = world_.unsuitable_for(bound.info).empty();
      write_end({.outcome = Outcome::skipped, .reason = skip});
      world_.body_ended();
      return;
    }
    const CaseOutput output(directory_, world_.rank());
    try {
      const CaseEnd end = run_body(bound, ended.assertions);
      ended.combined = world_.notes().combined;
      write_end(end);
      if (end.outcome == Outcome::failed || end.outcome == Outcome::error) {
        world_.service().keep_evidence();
        output.keep(bound.info.id);
        world_.case_failed();
      }
    } catch (const control::Released& released) {
      // An agreement throws Released only when the world ends.
      write_end({.outcome = Outcome::released, .reason = released.abort().text, .culprit = released.abort().culprit});
      throw;
    }
  }

  // Why the case is not run. Empty: run it.
  std::string agree_to_start(const protocol::CaseInfo& info, std::uint64_t position) {
    const control::Ballot mine{.value = base::digest(info.id) + position, .text = world_.missing(info)};
    const auto ballots = world_.agree(mine);
    std::string skip;
    for (std::size_t rank = 0; rank < ballots.size(); ++rank) {
      if (ballots[rank].value != mine.value) {
        throw world::WorldMismatch(
            fmt::format("rank {} is about to start {} as case {}; rank {} is about to start another", world_.rank(),
                        info.id, position, rank));
      }
      if (skip.empty()) skip = ballots[rank].text;
    }
    return skip;
  }

  CaseEnd run_body(const BoundCase& bound, std::uint64_t& assertions) {
    Observer observer(world_, bound);
    process_.begin_case();
    const std::uint64_t passed = runner_.run([&] { bound.body(world_.self()); }, observer);
    observer.stay_the_rank();
    BodyEnd mine = observer.end(process_);
    assertions = passed + observer.failures();
    mine.checked_nothing = assertions == 0;
    world_.body_ended();
    std::vector<BodyEnd> all;
    for (const auto& ballot : world_.agree(to_ballot(mine))) all.push_back(from_ballot(ballot));
    const auto aborted = world_.aborted();
    end_.cut_short = reason_to_end_world(all);
    end_.is_defective = !end_.cut_short.empty();
    end_.is_by_case = end_.is_defective && is_end_by_case(all);
    if (!end_.is_defective && world_.plan().fail_fast)
      end_.cut_short = reason_to_fail_fast(bound.info.id, all, aborted);
    if (end_.cut_short.empty() && aborted && needs_fresh_processes(all)) {
      end_.cut_short = fmt::format("{}: a call ended early, and after that the fabric {} needs fresh processes",
                                   bound.info.id, world_.plan().fabric);
      end_.is_by_case = true;
    }
    return conclude(world_.rank(), mine, all, aborted);
  }

  // True if no other case can follow the aborted one in this world.
  bool needs_fresh_processes(std::span<const BodyEnd> all) const {
    return may_have_left_messages(all) && !world_.group()->capabilities().survives_abort &&
           world_.position() + 1 < world_.plan().cases.size();
  }

  // Why this case ends the world. Empty: it did not fail, or a waiver excuses it.
  std::string reason_to_fail_fast(const std::string& id, std::span<const BodyEnd> all,
                                  const std::optional<control::Abort>& aborted) const {
    const std::optional<Outcome> failure = failure_of(all, aborted);
    if (!failure) return {};
    const protocol::FailFast& fail_fast = *world_.plan().fail_fast;
    const auto& excused = *failure == Outcome::failed ? fail_fast.may_fail : fail_fast.may_have_error;
    return std::ranges::find(excused, id) != excused.end() ? std::string() : protocol::fail_fast_reason(id);
  }

  World& world_;
  const protocol::WorldDirectory directory_{world_.plan().directory};
  BodyRunner& runner_;
  ProcessState process_;
  std::span<const BoundCase* const> cases_;  ///< by position
  LockstepEnd end_;
};

}  // namespace

LockstepEnd run_in_lockstep(World& world, std::span<const BoundCase* const> cases, BodyRunner& runner) {
  return Lockstep(world, cases, runner).run();
}

}  // namespace shardproof::runner
