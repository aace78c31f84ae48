// One iteration of a played script: its times, its collectives and its memory. A case checks every iteration, because
// an engine may be right once and wrong later.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/trace.hpp"
#include "harness/scenario/scenario.hpp"
#include "harness/trace/memory.hpp"

namespace shardproof {

/// The marks that a player sets around each call (harness/protocol/call_mark.hpp). Forwards that the script makes fail
/// have their own count: `iter 0 failing forward`.
std::string mark(int iteration, std::string_view call, bool end = false, int occurrence = 1);
std::string mark(int iteration, ActionKind action, bool end = false, int occurrence = 1);

/// A view of the facts of one iteration. Times are nanoseconds of the compute stream. A question about a call that the
/// iteration does not make throws std::out_of_range with the missing mark.
class Iteration {
 public:
  /// `facts` are the iteration's facts in `trace`, which must outlive the view.
  Iteration(const Trace& trace, int index, std::span<const Fact> facts)
      : trace_(&trace), index_(index), facts_(facts) {}

  int index() const { return index_; }
  /// From the mark of its first call to the mark that ends its last call.
  std::span<const Fact> facts() const { return facts_; }

  /// From the beginning of its first call to the end of its last call.
  Nanoseconds time() const;
  /// The time of its first forward.
  Nanoseconds forward() const;
  /// From the beginning of its first forward to the end of its first backward.
  Nanoseconds forward_backward() const;
  /// The part of `forward_backward` in which the compute stream does not compute.
  Nanoseconds exposed() const;

  /// In the order in which the host issued them.
  std::vector<fact::Collective> collectives() const;
  std::vector<fact::Collective> collectives(ActionKind call) const;  ///< of its first such call
  std::size_t count(CollectiveKind kind) const;
  std::size_t count(CollectiveKind kind, ActionKind call) const;

  trace::Live live_before(MemoryClass memory, ActionKind call) const;
  trace::Live live_after(MemoryClass memory, ActionKind call) const;
  /// Includes memory that is alive when the iteration begins.
  trace::Live peak(MemoryClass memory) const;

 private:
  std::string_view first_mark() const;
  std::string_view last_mark() const;

  const Trace* trace_;
  int index_;
  std::span<const Fact> facts_;
};

/// All iterations of a script that was played. An iteration whose calls left no mark has no facts.
std::vector<Iteration> iterations(const Trace& trace, const Script& script);

}  // namespace shardproof
