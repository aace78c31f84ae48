#include "harness/trace/marks.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <variant>

namespace shardproof::trace {

std::size_t index_of_mark(const Trace& trace, std::string_view mark, std::size_t begin) {
  for (std::size_t index = begin; index < trace.facts.size(); ++index) {
    if (const auto* set = std::get_if<fact::Mark>(&trace.facts[index]); set != nullptr && set->text == mark)
      return index;
  }
  throw std::out_of_range(fmt::format("no mark \"{}\" in the trace of rank {}", mark, trace.rank));
}

}  // namespace shardproof::trace
