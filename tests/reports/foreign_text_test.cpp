#include "reports/export/foreign_text.hpp"

#include <catch2/catch_test_macros.hpp>

#include "harness/base/utf8.hpp"
#include "tests/reports/hostile_report.hpp"

namespace shardproof::reports {
namespace {

TEST_CASE("visible text keeps ordinary characters, newlines and tabs, and names all others") {
  CHECK(visible_text("größer → 中\n\t\"<&>'") == "größer → 中\n\t\"<&>'");
  CHECK(visible_text("\x1b[31m\r\x7f") == "\\x1b[31m\\x0d\\x7f");
  CHECK(visible_text(std::string_view("\0", 1)) == "\\x00");
  CHECK(visible_text("a\u202eb\ufeff\u0085") == "a\\u{202e}b\\u{feff}\\u{85}");
  CHECK(visible_text("\ufffe\uffff") == "\\u{fffe}\\u{ffff}");
  CHECK(visible_text("\xff \xc0\x80 \xed\xa0\x80 \xe2\x82") == "\\xff \\xc0\\x80 \\xed\\xa0\\x80 \\xe2\\x82");
}

TEST_CASE("visible text is UTF-8, and stays as it is the second time") {
  for (const std::string_view hostile : testing::hostile_texts) {
    const std::string visible = visible_text(hostile);
    CHECK(base::is_utf8(visible));
    CHECK(visible_text(visible) == visible);
  }
}

TEST_CASE("one line has no more bytes than its limit, and is cut between characters") {
  CHECK(one_line("two\nlines\t.", 100) == "two lines .");
  CHECK(one_line("0123456789", 10) == "0123456789");
  CHECK(one_line("01234567890", 10) == "0123456…");
  CHECK(one_line("012345ä7890", 10) == "012345…");
  CHECK(one_line(std::string(300, '\x01')).size() == 1200);
}

TEST_CASE("markup escapes what ends an element or an attribute") {
  CHECK(escaped_markup("]]><a b=\"c\">&amp;") == "]]&gt;&lt;a b=&quot;c&quot;&gt;&amp;amp;");
}

}  // namespace
}  // namespace shardproof::reports
