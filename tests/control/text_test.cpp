// Text that comes from outside: cut between characters, and never a reason to fail.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/base/json_text.hpp"
#include "harness/base/utf8.hpp"
#include "harness/control/control_page.hpp"
#include "harness/control/flight_ring.hpp"
#include "harness/protocol/collective.hpp"
#include "harness/protocol/subject_name.hpp"

using namespace shardproof;
using nlohmann::ordered_json;

namespace {

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

bool json_takes(const std::string& text) {
  try {
    static_cast<void>(ordered_json(text).dump());  // strict
    return true;
  } catch (const ordered_json::type_error&) {
    return false;
  }
}

}  // namespace

TEST_CASE("text is cut between characters") {
  CHECK(base::beginning_within("abc", 3) == "abc");
  CHECK(base::beginning_within("abc", 2) == "ab");
  CHECK(base::beginning_within("abc", 0).empty());
  CHECK(base::beginning_within("a\u00e9", 2) == "a");
  CHECK(base::beginning_within("a\u00e9", 3) == "a\u00e9");
  CHECK(base::beginning_within("\U0001F600", 3).empty());
  CHECK(base::beginning_within("x\U0001F600y", 4) == "x");
  CHECK(base::beginning_within("x\U0001F600y", 5) == "x\U0001F600");
  // Text that is not UTF-8 loses nothing more.
  CHECK(base::beginning_within(std::string(9, '\x80'), 8) == std::string(8, '\x80'));
}

TEST_CASE("is_utf8 agrees with the JSON library") {
  const auto is_taken = [](const std::string& text) {
    CAPTURE(text);
    CHECK(base::is_utf8(text) == json_takes(text));
    return base::is_utf8(text);
  };
  for (const std::string text :
       {"", "abc", "\u00e9", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "a\u00e9z"})
    CHECK(is_taken(text));
  // Invalid UTF-8: half a character, an overlong one, a surrogate, one after the last code point, a continuation alone,
  // a byte that begins no character.
  for (const std::string text : {"\xc3", "a\xe2\x82", "\xc0\x80", "\xe0\x80\x80", "\xf0\x80\x80\x80", "\xed\xa0\x80",
                                 "\xf4\x90\x80\x80", "\x80", "\xff", "\xc3(", "\xf5\x80\x80\x80"})
    CHECK_FALSE(is_taken(text));
}

TEST_CASE("a subject's texts print safely, and its name can be given on the command line") {
  for (const std::string name :
       {"my_engine", "FSDP 2", "m\u00fchle", "\u7d0d\u8c46", "reference2", "pytorch_nightly", "2.15.0"}) {
    CAPTURE(name);
    CHECK(protocol::objection_to_subject_name(name, "").empty());
  }
  CHECK(protocol::objection_to_subject_text(std::string(64, 'x')).empty());
  CHECK(protocol::objection_to_subject_text(std::string(65, 'x')) == "it has 65 bytes, and may have 64");
  CHECK(protocol::objection_to_subject_text("") == "it is empty");
  CHECK(protocol::objection_to_subject_text(" x") == "it begins or ends with a blank");
  CHECK(protocol::objection_to_subject_text("x ") == "it begins or ends with a blank");
  CHECK(protocol::objection_to_subject_text("x\xff") == "it is not UTF-8");
  CHECK(protocol::objection_to_subject_text("my\nengine") == "it has an invisible character, U+000A");
  CHECK(protocol::objection_to_subject_text("x\x7f") == "it has an invisible character, U+007F");
  CHECK(protocol::objection_to_subject_text("x\u009b") == "it has an invisible character, U+009B");
  CHECK(protocol::objection_to_subject_text("x\u202ey") == "it has an invisible character, U+202E");
  CHECK(protocol::objection_to_subject_text("2+cpu,x/y.so").empty());
  for (const std::string name : {"mine,yours", "mine+fast", "my/engine", "engine.so"}) {
    CAPTURE(name);
    CHECK(protocol::objection_to_subject_name(name, "") ==
          "without a comma, a plus and a slash, and not ending in .so, --subject can ask for it");
  }
  CHECK(protocol::objection_to_subject_name("reference", "") ==
        "so --subject calls the engine that ships with shardproof: it takes a name of its own");
  CHECK(protocol::objection_to_subject_name("pytorch", "") ==
        "so --subject calls PyTorch as shardproof brings it: it takes a name of its own");
  CHECK(protocol::objection_to_subject_name("pytorch", "pytorch").empty());
}

TEST_CASE("JSON output replaces bytes that are not UTF-8, on a line and in a document") {
  const ordered_json json{{"a", "b\xff"}};
  CHECK(base::dump_line(json) == "{\"a\":\"b\uFFFD\"}");
  CHECK(base::dump_document(json) == "{\n  \"a\": \"b\uFFFD\"\n}");
  CHECK(base::dump_document(json, 1) == "{\n \"a\": \"b\uFFFD\"\n}");
}

TEST_CASE("texts between ranks are cut between characters") {
  // An odd number of bytes before two-byte characters, and an even one: one of the two meets every limit in the middle
  // of a character.
  for (const std::string start : {"", "x"}) {
    const std::string text = start + repeated("\u00e9", 1000);
    control::ControlPage page = control::ControlPage::anonymous(1);
    page.raise_abort(1, {0, control::AbortReason::failed, text});
    REQUIRE(page.aborted(1));
    CHECK(page.aborted(1)->text.size() > 500);
    CHECK(json_takes(page.aborted(1)->text));
    const auto ballots = page.agree(0, {0, text}, std::chrono::steady_clock::now() + std::chrono::minutes(1));
    CHECK(ballots[0].text.size() > 250);
    CHECK(json_takes(ballots[0].text));

    Descriptor call;
    call.set_tag(text);
    CHECK(call.tag_view().size() > 68);
    CHECK(json_takes(std::string(call.tag_view())));
    page.flight(0).join_group(1, text, std::array{0});
    page.flight(0).enter_call(1, 1, call);
    CHECK(json_takes(page.last_call(0)));
  }
}
