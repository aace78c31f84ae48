// Text that comes from outside: cut between characters, and never a reason to fail.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/protocol/collective.hpp"
#include "harness/protocol/control_page.hpp"
#include "harness/protocol/flight_ring.hpp"
#include "harness/protocol/json_text.hpp"
#include "harness/protocol/utf8.hpp"

using namespace shardproof;
using nlohmann::ordered_json;

namespace {

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

bool is_utf8(const std::string& text) {
  try {
    static_cast<void>(ordered_json(text).dump());  // strict
    return true;
  } catch (const ordered_json::type_error&) {
    return false;
  }
}

}  // namespace

TEST_CASE("text is cut between characters") {
  CHECK(beginning_within("abc", 3) == "abc");
  CHECK(beginning_within("abc", 2) == "ab");
  CHECK(beginning_within("abc", 0).empty());
  CHECK(beginning_within("a\u00e9", 2) == "a");
  CHECK(beginning_within("a\u00e9", 3) == "a\u00e9");
  CHECK(beginning_within("\U0001F600", 3).empty());
  CHECK(beginning_within("x\U0001F600y", 4) == "x");
  CHECK(beginning_within("x\U0001F600y", 5) == "x\U0001F600");
  // What is no UTF-8 anyway loses nothing more.
  CHECK(beginning_within(std::string(9, '\x80'), 8) == std::string(8, '\x80'));
}

TEST_CASE("text that is no UTF-8 is mended in JSON, on a line and in a document") {
  const ordered_json json{{"a", "b\xff"}};
  CHECK(dump_line(json) == "{\"a\":\"b\uFFFD\"}");
  CHECK(dump_document(json) == "{\n  \"a\": \"b\uFFFD\"\n}");
  CHECK(dump_document(json, 1) == "{\n \"a\": \"b\uFFFD\"\n}");
}

TEST_CASE("what ranks say to each other is cut between characters") {
  // An odd number of bytes before two-byte characters, and an even one: one of the two meets every limit in the middle of a character.
  for (const std::string start : {"", "x"}) {
    const std::string text = start + repeated("\u00e9", 1000);
    ControlPage page = ControlPage::anonymous(1);
    page.raise_abort(1, {0, AbortReason::failed, text});
    REQUIRE(page.aborted(1));
    CHECK(page.aborted(1)->text.size() > 500);
    CHECK(is_utf8(page.aborted(1)->text));
    const auto ballots = page.agree(0, {0, text}, std::chrono::steady_clock::now() + std::chrono::minutes(1));
    CHECK(ballots[0].text.size() > 250);
    CHECK(is_utf8(ballots[0].text));

    Descriptor call;
    call.set_tag(text);
    CHECK(call.tag_view().size() > 68);
    CHECK(is_utf8(std::string(call.tag_view())));
    page.flight(0).join_group(1, text, std::array{0});
    page.flight(0).enter_call(1, 1, call);
    CHECK(is_utf8(page.last_call(0)));
  }
}
