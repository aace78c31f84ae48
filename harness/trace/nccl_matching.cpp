#include "harness/trace/nccl_matching.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "harness/trace/nccl_listing.hpp"

namespace shardproof::trace {

using protocol::Call;
using protocol::CallKind;
using protocol::Communicator;
using protocol::describe;

namespace {

/// The calls of one sort that a rank made, by their place.
struct Row {
  std::map<std::int64_t, const Call*> calls;
  std::int64_t begin = 0, end = 0;  ///< places that the record covers; `end` is how many calls there were

  bool is_empty() const { return begin > end; }
};

/// One rank of a communicator.
struct Member {
  std::size_t record = 0;
  const protocol::TapRecord* of = nullptr;
  const Communicator* communicator = nullptr;

  std::string name() const { return name_of(of->process); }

  template <class Belongs>
  Row row(Belongs belongs) const {
    Row row;
    for (const Call& call : of->calls) {
      if (call.comm == communicator->id && call.place >= 0 && belongs(call)) row.calls.insert({call.place, &call});
    }
    const bool is_whole = of->calls.empty() ? of->begun == 0 : of->calls.front().number == 0;
    if (row.calls.empty())
      return {.calls = {}, .begin = is_whole ? 0 : std::numeric_limits<std::int64_t>::max(), .end = 0};
    row.begin = is_whole ? 0 : row.calls.begin()->first;
    row.end = row.calls.rbegin()->first + 1;
    return row;
  }
};

/// The members of each communicator. Communicators with a key come first, then those without one; each group is in the
/// order of first appearance in the records.
std::vector<std::vector<Member>> communicators_of(std::span<const protocol::TapRecord> ranks) {
  std::vector<std::vector<Member>> all;
  std::map<std::uint64_t, std::size_t> by_key;
  std::map<std::pair<int, int>, std::size_t> by_order_and_size;
  const auto place = [&](std::size_t record, const Communicator& communicator) {
    const std::pair order_and_size(communicator.id, communicator.size);
    std::size_t found = all.size();
    if (communicator.key != 0) {
      found = by_key.insert({communicator.key, found}).first->second;
    } else if (const auto at = by_order_and_size.find(order_and_size); at != by_order_and_size.end()) {
      found = at->second;
    }
    if (found == all.size()) all.emplace_back();
    by_order_and_size.insert({order_and_size, found});
    all[found].push_back({.record = record, .of = &ranks[record], .communicator = &communicator});
  };
  // Communicators with a key come first: those without a key join them.
  for (const bool has_key : {true, false}) {
    for (std::size_t record = 0; record < ranks.size(); ++record) {
      for (const Communicator& communicator : ranks[record].communicators) {
        if ((communicator.key != 0) == has_key) place(record, communicator);
      }
    }
  }
  return all;
}

bool same_operation(const Call& a, const Call& b) {
  if (a.op >= protocol::Reduction::first_made && b.op >= protocol::Reduction::first_made) {
    // operators that a rank has made have the rank's own numbers
    return std::bit_cast<std::uint64_t>(a.factor) == std::bit_cast<std::uint64_t>(b.factor);
  }
  return a.op == b.op;
}

bool same_collective(const Call& a, const Call& b) {
  return a.kind == b.kind && a.count == b.count && a.dtype == b.dtype && a.root == b.root && same_operation(a, b);
}

bool same_message(const Call& send, const Call& receive) {
  return send.count == receive.count && send.dtype == receive.dtype;
}

std::string name_of(const Communicator& communicator) {
  std::string name = fmt::format("comm {}", communicator.id);
  if (!communicator.name.empty()) name += fmt::format(" \"{}\"", communicator.name);
  if (communicator.size >= 0) name += fmt::format(" of {} ranks", communicator.size);
  return name;
}

/// A clause that names the last call that a fault kept from NCCL there; or empty.
std::string kept_from_nccl(const Member& member) {
  const auto kept = std::ranges::find_if(member.of->calls.rbegin(), member.of->calls.rend(), [&](const Call& call) {
    return call.comm == member.communicator->id && protocol::moves_data(call.kind) && call.place < 0 &&
           call.fate != protocol::Fate::untouched;
  });
  if (kept == member.of->calls.rend()) return {};
  return fmt::format("; by a fault its {} was {}", describe(*kept),
                     kept->fate == protocol::Fate::failed ? "made to fail" : protocol::to_string(kept->fate));
}

/// The pairs of a sender and a receiver.
std::set<std::pair<const Member*, const Member*>> pairs_of(const std::vector<Member>& members) {
  std::map<int, const Member*> by_rank;
  for (const Member& member : members)
    if (member.communicator->rank >= 0) by_rank.insert({member.communicator->rank, &member});
  std::set<std::pair<const Member*, const Member*>> pairs;
  for (const Member& member : members) {
    for (const Call& call : member.of->calls) {
      if (call.comm != member.communicator->id || (call.kind != CallKind::send && call.kind != CallKind::recv))
        continue;
      const auto peer = by_rank.find(call.root);
      if (peer == by_rank.end() || member.communicator->rank < 0) continue;
      pairs.insert(call.kind == CallKind::send ? std::pair(&member, peer->second) : std::pair(peer->second, &member));
    }
  }
  return pairs;
}

class MatchSearch {
 public:
  void compare(const Member& first, const Row& of_first, const Member& second, const Row& of_second,
               bool (*same)(const Call&, const Call&), std::string_view what) {
    if (of_first.is_empty() || of_second.is_empty()) return;
    for (const auto& [place, call] : of_first.calls) {
      const auto other = of_second.calls.find(place);
      if (other == of_second.calls.end() || same(*call, *other->second)) continue;
      found(OrderDifference::What::differs, first, second, *call,
            fmt::format("{} {} on {} differs: {} made {}, and {} made {}", what, place, name_of(*first.communicator),
                        first.name(), describe(*call), second.name(), describe(*other->second)));
      return;
    }
    if (of_first.end > of_second.end) report_absence(first, of_first, second, of_second, what);
    if (of_second.end > of_first.end) report_absence(second, of_second, first, of_first, what);
  }

  std::optional<OrderDifference> result() && { return std::move(best_); }

 private:
  void report_absence(const Member& present, const Row& of_present, const Member& absent, const Row& of_absent,
                      std::string_view what) {
    const auto call = of_present.calls.find(of_absent.end);
    if (call == of_present.calls.end()) return;
    const auto last = of_absent.calls.find(of_absent.end - 1);
    const std::string before = of_absent.end == 0 ? "it made none there"
                               : last == of_absent.calls.end()
                                   ? fmt::format("it made {} there", of_absent.end)
                                   : fmt::format("its last one there is {}", describe(*last->second));
    found(OrderDifference::What::absent, present, absent, *call->second,
          fmt::format("{} has not reached {} {} on {}: {} made {}, and of {} {}{}", absent.name(), what, of_absent.end,
                      name_of(*present.communicator), present.name(), describe(*call->second), absent.name(), before,
                      kept_from_nccl(absent)));
  }

  /// Keeps the first difference. Calls that differ go before missing calls; then the call that its rank made first.
  void found(OrderDifference::What what, const Member& first, const Member& second, const Call& call,
             std::string sentence) {
    const std::pair rank(what, call.number);
    if (best_ && rank_ <= rank) return;
    rank_ = rank;
    best_ =
        OrderDifference{.what = what, .first = first.record, .second = second.record, .sentence = std::move(sentence)};
  }

  std::optional<OrderDifference> best_;
  std::pair<OrderDifference::What, std::uint64_t> rank_;
};

}  // namespace

std::optional<OrderDifference> first_difference(std::span<const protocol::TapRecord> ranks) {
  MatchSearch search;
  for (const std::vector<Member>& members : communicators_of(ranks)) {
    const auto collective = [](const Call& call) { return protocol::is_collective(call.kind); };
    const Member& first = members.front();
    const Row of_first = first.row(collective);
    for (std::size_t other = 1; other < members.size(); ++other) {
      search.compare(first, of_first, members[other], members[other].row(collective), same_collective, "collective");
    }
    for (const auto& [from, to] : pairs_of(members)) {
      search.compare(*from, from->row([peer = to->communicator->rank](const Call& call) {
        return call.kind == CallKind::send && call.root == peer;
      }),
                     *to, to->row([peer = from->communicator->rank](const Call& call) {
                       return call.kind == CallKind::recv && call.root == peer;
                     }),
                     same_message, "message");
    }
  }
  return std::move(search).result();
}

}  // namespace shardproof::trace
