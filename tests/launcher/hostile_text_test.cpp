// Text of ranks, workers and files with each trick that forges output: every command shows it as text, in its own line.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/utf8.hpp"
#include "tests/launcher/command.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;

namespace {

/// A new line of its own, a carriage return, an erased line, and characters that hide or turn the text.
constexpr char hostile[] =
    "x\nFORGED 1\rFORGED 2\x1b[2K\u0085FORGED 3\u2028FORGED 4\u2029\u009b2K\u202e\u2066\u200f\u061c\u200b\u2060\ufeff"
    "\u00ad\U000E0041\x7f";

/// The first trick that works in this text.
std::string trick_in(std::string_view text) {
  std::string line;
  for (std::string_view rest = text; !rest.empty();) {
    const std::optional<char32_t> character = base::take_character(rest);
    if (!character) return "a byte that is not UTF-8 after: " + line;
    if (*character == U'\n') {
      line.clear();
      continue;
    }
    if (*character != U'\t' && !base::shows(*character))
      return "character " + std::to_string(static_cast<unsigned>(*character)) + " after: " + line;
    line += static_cast<char>(*character < 0x80 ? *character : U'?');
    if (line == "FORGED") return "a line of its own";
  }
  return {};
}

std::string replaced(std::string text, const std::string& old, const std::string& fresh) {
  for (std::size_t at = text.find(old); at != std::string::npos; at = text.find(old, at + fresh.size()))
    text.replace(at, old.size(), fresh);
  return text;
}

/// The text inside a JSON string.
std::string in_json(const std::string& text) {
  const std::string whole = nlohmann::json(text).dump();
  return whole.substr(1, whole.size() - 2);
}

/// Adds the hostile text to these words in all documents of the run.
void spoil(const std::filesystem::path& run, const std::vector<std::string>& words) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(run)) {
    const auto name = entry.path().extension();
    if (!entry.is_regular_file() || (name != ".json" && name != ".jsonl")) continue;
    std::string text = text_of(entry.path());
    for (const std::string& word : words) text = replaced(text, in_json(word), in_json(word + hostile));
    write_text(entry.path(), text);
  }
}

void check(const std::vector<std::string>& arguments) {
  const Said said = call(arguments);
  std::string command;
  for (const std::string& word : arguments) command += word + " ";
  INFO(command << ": " << said.out << said.err);
  CHECK(!(said.out + said.err).empty());
  CHECK(trick_in(said.out) == "");
  CHECK(trick_in(said.err) == "");
}

}  // namespace

TEST_CASE("no command prints foreign text that forges its output") {
  const TemporaryDirectory directory;
  const std::string run = (directory / "run").string();
  run_trouble(directory / "run", {"bad/check", "bad/killed", "fails/throws", "good/stays", "skip", "--ranks", "2"});
  // The name of a case, an assertion, a subject, a host, a reason, a clause, a measurement.
  spoil(directory / "run",
        {"bad/check", "rank.index() == 0", "SIGKILL", "answer", "TRB-1", "no paper", "out of paper", "\"none\""});
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"merge", run},
           {"merge", run, "--verbose"},
           {"explain", run},
           {"export", run, "--markdown", "-"},
           {"export", run, "--junit", "-"},
           {"export", run, "--ctrf", "-"},
           {"export", run, "--annotations", "github"},
           {"export", run, "--annotations", "azure"},
           {"statement", run},
           {"statement", run, "--json"},
           {"stable", run},
           {"diff", run, run},
           {"diff", run, run, "--json"},
       })
    check(arguments);
  CHECK(trick_in(text_of(directory / "run/report.json")) == "");

  // Each case is new, and damage names the damaged text.
  run_trouble(directory / "other", {"good/alone"});
  const std::string other = (directory / "other").string();
  check({"diff", other, run});
  check({"diff", run, other});
  check({"diff", other, run, "--fail-on", "new_failure"});
  const std::string report = text_of(directory / "run/report.json");
  write_text(directory / "bad.json",
             replaced(report, "\"verdict\":\"failed\"", "\"verdict\":\"" + in_json(hostile) + "\""));
  check({"stable", (directory / "bad.json").string()});
  write_text(
      directory / "bad.json",
      replaced(report, "\"verdict\":", "\"" + in_json(hostile) + "\":1,\"" + in_json(hostile) + "\":2,\"verdict\":"));
  check({"stable", (directory / "bad.json").string()});
}

TEST_CASE("no worker's listing and no name of a file forges the output of a command") {
  const TemporaryDirectory directory;
  run_trouble(directory / "run", {"good"});
  spoil(directory / "run", {"good/alone", "quick", "TRB-1"});
  const auto worker = directory / "worker";
  write_text(worker, "#!/bin/sh\ncat '" + (directory / "run/listing.json").string() + "'\n");
  std::filesystem::permissions(worker, std::filesystem::perms::owner_all);
  check({"list", "--worker", worker.string()});
  check({"list", "--worker", worker.string(), "--json"});
  check({"list", "--worker", worker.string(), "--clauses"});
  check({"run", "--worker", worker.string(), "good/alon"});

  // The user's own words may have lines. All their other characters are shown.
  const std::string odd = (directory / replaced(std::string("odd") + hostile, "\n", "")).string();
  check({"stable", odd});
  check({"merge", odd});
  check({"explain", odd});
  check({"diff", odd, odd});
  check({"run", "--worker", odd});
  check({"run", "--worker", trouble_program().string(), "--waivers", odd});
  check({"run", "--worker", trouble_program().string(), odd});
  std::filesystem::rename(directory / "run", odd);
  check({"merge", odd});
  check({"explain", odd});
  check({"play", odd});
}
