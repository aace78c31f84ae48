#include "tests/sums/orders.hpp"

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace shardproof::sums {

namespace {

Choice read_choice() {
  const char* const given = std::getenv("SHARDPROOF_SUMS");
  std::string_view word = given == nullptr ? "" : given;
  Choice choice;
  constexpr std::string_view fused = "_fused";
  if (word.ends_with(fused)) {
    choice.fused = true;
    word.remove_suffix(fused.size());
  }
  if (word == "descending") choice.order = Order::descending;
  else if (word == "pairwise") choice.order = Order::pairwise;
  else if (word != "ascending") {
    std::fprintf(stderr,
                 "SHARDPROOF_SUMS is \"%s\": ascending, descending or pairwise is expected, or one of them with _fused "
                 "at its end\n",
                 given == nullptr ? "" : given);
    std::abort();
  }
  return choice;
}

}  // namespace

const Choice& choice() {
  static const Choice chosen = read_choice();
  return chosen;
}

}  // namespace shardproof::sums
