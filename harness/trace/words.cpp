#include "harness/trace/words.hpp"

#include <fmt/format.h>

#include <string_view>

namespace shardproof::trace {

namespace {

// Exact, without trailing zeros; a unit is a power of ten.
std::string decimal(Nanoseconds time, Nanoseconds unit, std::string_view name) {
  if (time % unit == 0) return fmt::format("{} {}", time / unit, name);
  std::string rest = fmt::format("{}", unit + time % unit);  // with a leading 1 that keeps its zeros
  rest.erase(rest.find_last_not_of('0') + 1);
  return fmt::format("{}.{} {}", time / unit, std::string_view(rest).substr(1), name);
}

}  // namespace

std::string in_time(Nanoseconds time) {
  if (time < 0) return fmt::format("-{}", in_time(-time));
  if (time >= 1'000'000'000) return decimal(time, 1'000'000'000, "s");
  if (time >= 1'000'000 || time == 0) return decimal(time, 1'000'000, "ms");
  if (time >= 1'000) return decimal(time, 1'000, "µs");
  return decimal(time, 1, "ns");
}

std::string Words::name(std::uint32_t stream) const {
  const auto found = streams_.find(stream);
  return found == streams_.end() || found->second.name.empty() ? std::to_string(stream) : found->second.name;
}

std::string Words::access(std::size_t fact) const {
  const std::string on = " on stream " + stream_of(fact);
  return std::visit(
      [&]<class F>(const F& f) -> std::string {
        if constexpr (std::is_same_v<F, fact::Work>) {
          return fmt::format("{} \"{}\"{} ({}..{})", to_string(f.kind), f.label, on, in_time(f.start), in_time(f.end));
        } else if constexpr (std::is_same_v<F, fact::Collective>) {
          return fmt::format("{} \"{}\"{} ({}..{})", to_string(f.kind), f.tag, on, in_time(f.start), in_time(f.end));
        } else if constexpr (std::is_same_v<F, fact::HostAccess>) {
          return fmt::format("the host in \"{}\"", f.label);
        } else if constexpr (std::is_same_v<F, fact::Allocated>) {
          return "allocation" + on;
        } else if constexpr (std::is_same_v<F, fact::Released>) {
          return "release" + on;
        } else {
          return "";
        }
      },
      trace_.facts.at(fact));
}

std::string Words::stream_of(std::size_t fact) const {
  return std::visit(
      [&]<class F>(const F& f) -> std::string {
        if constexpr (requires { f.stream; }) return name(f.stream);
        return "";
      },
      trace_.facts.at(fact));
}

}  // namespace shardproof::trace
