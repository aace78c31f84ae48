#include "harness/protocol/nccl_faults.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>
#include <utility>

namespace shardproof::protocol {

namespace {

using Action = CallFault::Action;

constexpr std::array<std::pair<std::string_view, Action>, 5> actions = {{{"delay", Action::delay},
                                                                         {"stall", Action::stall},
                                                                         {"drop", Action::drop},
                                                                         {"fail", Action::fail},
                                                                         {"swap", Action::swap}}};
constexpr std::array<std::pair<std::string_view, std::int64_t>, 4> units = {
    {{"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}}};
constexpr std::string_view blanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

std::string_view take_word(std::string_view& rest) {
  rest = trimmed(rest);
  const std::size_t end = std::min(rest.find_first_of(blanks), rest.size());
  const std::string_view word = rest.substr(0, end);
  rest = rest.substr(end);
  return word;
}

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// The engine goes on to use the result that such a call returns.
bool hands_something_back(CallKind kind) {
  return kind == CallKind::get_unique_id || makes_communicators(kind) || kind == CallKind::red_op_create_premul_sum ||
         kind == CallKind::comm_register || kind == CallKind::window_register || kind == CallKind::dev_comm_create ||
         kind == CallKind::mem_alloc;
}

class FaultParser {
 public:
  FaultParser(std::string_view text, std::size_t position) : text_(text), rest_(text), position_(position) {}

  CallFault parse() {
    CallFault fault;
    parse_action(fault);
    parse_calls(fault);
    if (fault.action == Action::delay || fault.action == Action::stall) parse_duration(fault);
    if (fault.action == Action::fail) parse_status(fault);
    parse_conditions(fault);
    check(fault);
    return fault;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw std::invalid_argument(fmt::format("fault {} of the list, `{}`: {}", position_, text_, why));
  }

  void parse_action(CallFault& fault) {
    const std::string_view word = take_word(rest_);
    const auto* const found = std::ranges::find(actions, word, &std::pair<std::string_view, Action>::first);
    if (found == actions.end())
      refuse(fmt::format("`{}` is not an action; write delay, stall, drop, fail or swap", word));
    fault.action = found->second;
  }

  void parse_calls(CallFault& fault) {
    const std::string_view word = take_word(rest_);
    if (word.empty()) refuse("it names no calls; write a kind like all_reduce, or one call like all_reduce#3");
    const std::size_t hash = word.find('#');
    const std::string_view name = word.substr(0, hash);
    const std::optional<CallKind> kind = call_kind(name);
    if (!kind) {
      std::string known;
      for (int number = 0; number <= static_cast<int>(last_call_kind); ++number) {
        const auto each = static_cast<CallKind>(number);
        if (each != CallKind::comm_get_async_error)
          known += fmt::format("{}{}", known.empty() ? "" : ", ", to_string(each));
      }
      refuse(fmt::format("`{}` is not a kind of call; write one of {}", name, known));
    }
    fault.kind = *kind;
    if (hash == std::string_view::npos) return;
    fault.number = number_of<std::uint64_t>(word.substr(hash + 1));
    if (!fault.number)
      refuse(fmt::format("`{}` is not a call number; write digits after #, from 0", word.substr(hash + 1)));
  }

  void parse_duration(CallFault& fault) {
    const std::string_view word = take_word(rest_);
    const std::size_t end = std::min(word.find_first_not_of("0123456789"), word.size());
    const auto number = number_of<std::int64_t>(word.substr(0, end));
    const auto* const unit =
        std::ranges::find(units, word.substr(end), &std::pair<std::string_view, std::int64_t>::first);
    constexpr std::int64_t most = 86'400'000'000'000;  // a day
    if (!number || unit == units.end() || *number > most / unit->second) {
      refuse(fmt::format("`{}` is not a duration; write a whole number and ns, us, ms or s, like 20ms, a day at most",
                         word));
    }
    fault.duration = std::chrono::nanoseconds(*number * unit->second);
  }

  void parse_status(CallFault& fault) {
    const std::string_view word = take_word(rest_);
    const std::optional<Result> status = result_of_name(word);
    if (!status || *status == Result::success) {
      std::string known;
      for (int number = 1; number <= static_cast<int>(Result::in_progress); ++number) {
        known += fmt::format("{}{}", known.empty() ? "" : ", ", to_string(static_cast<Result>(number)));
      }
      refuse(fmt::format("a call cannot fail with `{}`; write one of {}", word, known));
    }
    fault.status = *status;
  }

  void parse_conditions(CallFault& fault) {
    while (!trimmed(rest_).empty()) {
      const std::string_view word = take_word(rest_);
      if (word == "on" && take_word(rest_) == "comm") {
        parse_condition(fault.comm, "on comm", "a communicator's number");
      } else if (word == "rank") {
        parse_condition(fault.rank, "rank", "a rank of the world");
      } else {
        refuse(fmt::format("`{}` is not a condition; after a fault, write `on comm K` or `rank R`", word));
      }
    }
  }

  void parse_condition(std::optional<int>& condition, std::string_view name, std::string_view what) {
    const std::string_view word = take_word(rest_);
    if (condition) refuse(fmt::format("it says `{}` twice; write two faults", name));
    condition = number_of<int>(word);
    if (!condition || *condition < 0) refuse(fmt::format("`{}` is not {}; write digits, from 0", word, what));
  }

  void check(const CallFault& fault) const {
    const std::string_view kind = to_string(fault.kind);
    if (fault.kind == CallKind::comm_get_async_error)
      refuse("an engine polls for errors; fail one of its other calls instead");
    if (fault.action == Action::swap && !moves_data(fault.kind)) {
      refuse(fmt::format("{} moves no data, and swap needs calls that do; drop, fail or delay it", kind));
    }
    if (fault.action == Action::stall && !moves_data(fault.kind)) {
      refuse(fmt::format("{} has no stream to stall; delay it", kind));
    }
    if (fault.action == Action::drop && hands_something_back(fault.kind)) {
      refuse(fmt::format("the engine would use a result that {} never returned; fail it instead", kind));
    }
    const bool is_start = fault.kind == CallKind::group_start;
    const bool is_end = fault.kind == CallKind::group_end || fault.kind == CallKind::group_simulate_end;
    if ((is_end && fault.action != Action::delay) || (is_start && fault.action == Action::drop)) {
      refuse(fmt::format("without {}, NCCL's groups would not end where the engine's groups do; {}", kind,
                         is_start ? "fail it instead" : "only a delay is possible"));
    }
  }

  std::string_view text_, rest_;
  std::size_t position_;
};

bool applies(const CallFault& fault, const CallPlace& place) {
  if (fault.kind != place.kind) return false;
  if (fault.comm && *fault.comm != place.comm) return false;
  if (fault.rank && fault.rank != place.rank) return false;
  return !fault.number || *fault.number == (fault.comm ? place.of_kind_on_comm : place.of_kind);
}

}  // namespace

std::vector<CallFault> parse_faults(std::string_view list) {
  std::vector<CallFault> faults;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find_first_of(";\n"), list.size());
    const std::string_view text = trimmed(list.substr(0, end));
    if (!text.empty()) faults.push_back(FaultParser(text, faults.size() + 1).parse());
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return faults;
}

FaultDecision decide(std::span<const CallFault> faults, const CallPlace& place) {
  FaultDecision decision;
  for (const CallFault& fault : faults) {
    if (!applies(fault, place)) continue;
    if (fault.action == Action::delay) {
      decision.delay += fault.duration;
    } else if (fault.action == Action::stall) {
      decision.stall += fault.duration;
    } else if (decision.fault == nullptr) {
      decision.fault = &fault;
    }
  }
  return decision;
}

}  // namespace shardproof::protocol
