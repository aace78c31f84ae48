// Programs that are no workers, asked for their cases.
#include <signal.h>
#include <stdlib.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "launcher/launcher.hpp"
#include "launcher/worker_client/worker.hpp"
#include "tests/launcher/temporary.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

constexpr std::chrono::milliseconds ample{60'000};

std::string worker_refusal(const std::filesystem::path& program, std::chrono::milliseconds time_limit = ample,
                           ExitCode code = infrastructure) {
  SignalWatch signals;
  try {
    ask_worker(program, signals, time_limit);
  } catch (const CommandError& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return "accepted";
}

std::filesystem::path script(const TemporaryDirectory& directory, const std::string& text) {
  const std::filesystem::path file = directory / "script";
  write_text(file, "#!/bin/sh\n" + text + "\n");
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  return file;
}

protocol::Listing small_listing() {
  protocol::Listing listing;
  listing.suite_version = "1";
  listing.build = "abc";
  listing.cases.push_back(
      {.id = "a/b[W=2]", .suite = "a", .params = {{"W", "2"}}, .world_size = 2, .file = "a.cpp", .line = 3});
  return listing;
}

std::string listing_error(const std::string& text) {
  try {
    parse_listing(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("the launcher distinguishes workers from other programs") {
  CHECK_THAT(worker_refusal("/bin/true"),
             ContainsSubstring("/bin/true is not a shardproof worker") && ContainsSubstring("its answer is empty"));
  CHECK_THAT(worker_refusal("/bin/cat"),
             ContainsSubstring("ended with exit code 1") && ContainsSubstring("standard error: "));
  CHECK_THAT(worker_refusal("/bin/echo"), ContainsSubstring("its answer is not JSON: '--list-json'"));
  CHECK_THAT(worker_refusal("/nowhere/at/all", ample, usage),
             ContainsSubstring("/nowhere/at/all") && ContainsSubstring("No such file"));
  CHECK_THAT(worker_refusal("/etc/passwd"), ContainsSubstring("Permission denied"));
  CHECK_THAT(worker_refusal("/bin", ample, usage), ContainsSubstring("is a directory"));
}

TEST_CASE("a worker that does not answer is not waited for") {
  TemporaryDirectory directory;
  CHECK_THAT(worker_refusal(script(directory, "exec sleep 1000"), std::chrono::milliseconds(50)),
             ContainsSubstring("cannot list its cases") && ContainsSubstring("did not answer within 0.05 s"));
}

TEST_CASE("a signal ends the asking, and the worker with it") {
  TemporaryDirectory directory;
  SignalWatch signals;
  ::raise(SIGQUIT);
  try {
    ask_worker(script(directory, "exec sleep 1000"), signals, ample);
    FAIL("it was asked");
  } catch (const CommandError& error) {
    CHECK(error.code() == 128 + SIGQUIT);
  }
  CHECK_FALSE(signals.take());
}

TEST_CASE("a worker that never stops talking is cut off") {
  TemporaryDirectory directory;
  CHECK_THAT(worker_refusal(script(directory, "head -c 3000000 /dev/zero >&2; exit 1")),
             ContainsSubstring("ended with exit code 1"));
}

TEST_CASE("a worker whose declarations are wrong is one, and what is wrong comes first") {
  TemporaryDirectory directory;
  CHECK_THAT(
      worker_refusal(script(
          directory, R"(echo '{"protocol":2,"problems":["mine.cpp:7: bad \u001b[31m","mine.cpp:9: worse"]}'; exit 2)")),
      StartsWith("mine.cpp:7: bad \\x1b[31m\nmine.cpp:9: worse\n(no case of ") &&
          !ContainsSubstring("not a shardproof worker"));
  CHECK_THAT(worker_refusal(script(directory, R"(echo '{"protocol":2,"problems":[]}'; exit 2)")),
             ContainsSubstring("is not a shardproof worker"));
  CHECK_THAT(worker_refusal(script(directory, "echo usage >&2; exit 2")),
             ContainsSubstring("is not a shardproof worker"));
}

TEST_CASE("a worker that crashes is said to have") {
  TemporaryDirectory directory;
  CHECK_THAT(worker_refusal(script(directory, "kill -SEGV $$")), ContainsSubstring("signal 11 (SIGSEGV)"));
}

TEST_CASE("an answer of another protocol says so before all else") {
  CHECK_THAT(listing_error(R"({"protocol": 99})"),
             ContainsSubstring("it speaks protocol 99, but this launcher speaks 2"));
  CHECK_THAT(listing_error("[]"), ContainsSubstring("has no protocol version"));
  CHECK_THAT(listing_error(R"({"protocol": "2"})"), ContainsSubstring("has no protocol version"));
  CHECK_THAT(listing_error(R"({"protocol": 2})"), ContainsSubstring("malformed"));
}

TEST_CASE("a listing comes back as it was, and the worker sees no other launcher's ranks") {
  TemporaryDirectory directory;
  write_text(directory / "listing", nlohmann::ordered_json(small_listing()).dump());
  setenv("SHARDPROOF_RANK", "3", 1);
  setenv("OMPI_COMM_WORLD_RANK", "3", 1);
  setenv("UNRELATED", "kept", 1);
  SignalWatch signals;
  const Worker worker = ask_worker(script(directory,
                                          "[ -z \"$SHARDPROOF_RANK$OMPI_COMM_WORLD_RANK\" ] && [ \"$UNRELATED\" = kept "
                                          "] && [ \"$*\" = --list-json ] && cat " +
                                              (directory / "listing").string()),
                                   signals, ample);
  unsetenv("SHARDPROOF_RANK");
  unsetenv("OMPI_COMM_WORLD_RANK");
  unsetenv("UNRELATED");
  CHECK(worker.listing.cases == small_listing().cases);
  CHECK(worker.listing.build == "abc");
  CHECK(worker.program.is_absolute());
  CHECK(worker.listing_text == text_of(directory / "listing"));
}

TEST_CASE("a worker that does not say how many ranks play a document is not believed") {
  const TemporaryDirectory directory;
  SignalWatch signals;
  const auto checked = [&](const std::string& text, ExitCode code) {
    try {
      check_scenario(find_worker(script(directory, text)), "a.json", std::nullopt, signals);
    } catch (const CommandError& error) {
      CHECK(error.code() == code);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK(checked("[ $# = 2 ] && echo '{\"ranks\": 3}'", all_passed) == "accepted");
  CHECK_THAT(checked("echo '{}'", infrastructure),
             ContainsSubstring("cannot check whether it can play a.json: its answer is malformed: "));
  CHECK_THAT(checked("true", infrastructure), ContainsSubstring("its answer is malformed: "));
  CHECK_THAT(checked("kill -SEGV $$", infrastructure), ContainsSubstring("it prints no error"));
}
