// A case as README.md describes it in words, in a program outside this tree.
#include <shardproof.hpp>

RANKED_TEST_CASE("mine/in_words", ranks(2), each("dtype", "f32", "bf16"), tags("slow"), timeout(5s), clauses("MY-1")) {
  const auto dtype = rank.param<std::string>("dtype");
  rank.measure("letters", static_cast<double>(dtype.size()), "");
  if (dtype == "bf16") rank.skip("only an example");
  CHECK(dtype == "f32");
}
