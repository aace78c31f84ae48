#include "reports/export/columns.hpp"

#include <catch2/catch_test_macros.hpp>
#include <random>
#include <sstream>
#include <string>

#include "harness/base/utf8.hpp"

namespace shardproof::reports {

TEST_CASE("columns: characters count, bytes and colour codes do not") {
  CHECK(columns_of("") == 0);
  CHECK(columns_of("größe …") == 7);
  CHECK(columns_of("\x1b[31;1mFAIL\x1b[0m x") == 6);
  CHECK(columns_of("\xff\xfe") == 2);
}

TEST_CASE("columns: a long id keeps its beginning and its end") {
  CHECK(shortened("overlap/values[W=2]", 19) == "overlap/values[W=2]");
  CHECK(shortened("overlap/values[W=2]", 11) == "overl…[W=2]");
  CHECK(shortened("überlänge", 4) == "ü…ge");
  CHECK(shortened("abc", 1) == "…");
  CHECK(shortened("abc", 0).empty());
}

TEST_CASE("columns: a line is wrapped at blanks, under its indentation") {
  CHECK(fitted("short\n  lines stay\n", 20) == "short\n  lines stay\n");
  CHECK(fitted("one two three four five six", 12) == "one two\n  three four\n  five six");
  CHECK(fitted("  one two three\nnext\n", 10) == "  one two\n    three\nnext\n");
  CHECK(fitted("id  a_word_that_is_too_long b\n", 12) == "id\n  a_wo…_long\n  b\n");
  CHECK(fitted("no newline", 120) == "no newline");
}

TEST_CASE("columns: a command to copy stays whole") {
  const std::string again = "  again: shardproof run 'overlap/values_exact[W=2]' --seed 0 --worker build/bin/worker\n";
  CHECK(fitted(again, 40) == again);
}

TEST_CASE("columns: any text fits, and loses only blanks") {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (int i = 0; i < 200; ++i) {
      constexpr const char* parts[] = {"a", "bc", " ", "  ", "\n", "é", "[W=2]", "\x1b[31m", "\xff"};
      text += parts[random() % std::size(parts)];
    }
    for (const std::size_t columns : {20U, 40U, 120U}) {
      std::istringstream lines(fitted(text, columns));
      for (std::string line; std::getline(lines, line);) CHECK(columns_of(line) <= columns);
    }
    const auto without_blanks = [](std::string whole) {
      std::erase_if(whole, [](char c) { return c == ' ' || c == '\n'; });
      return whole;
    };
    if (fitted(text, 60).find("…") == std::string::npos)
      CHECK(without_blanks(fitted(text, 60)) == without_blanks(text));
  }
}

}  // namespace shardproof::reports
