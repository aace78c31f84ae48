// The command's messages about a command line that it does not understand, and its help.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sstream>

#include "tests/launcher/command.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

/// The text after `shardproof: ` on standard error.
std::string complaint(const std::vector<std::string>& arguments) {
  const Said said = call(arguments);
  CHECK(said.end == code(2));
  CHECK(said.out.empty());
  CHECK(said.err.starts_with("shardproof: "));
  CHECK(said.err.find('\n') + 1 == said.err.size());
  return said.err.substr(std::min<std::size_t>(said.err.size(), 12));
}

std::string help(const std::vector<std::string>& arguments) {
  const Said said = call(arguments);
  CHECK(said.end == code(0));
  CHECK(said.err.empty());
  return said.out;
}

}  // namespace

TEST_CASE("a command that does not exist is answered with those that do") {
  CHECK(complaint({"rum"}) ==
        "unknown command 'rum'; closest is 'run'; known: run, list, faults, merge, diff, export, statement, doctor, "
        "explain, play, "
        "explore, "
        "stable\n");
  CHECK(complaint({}) ==
        "which command? There are run, list, faults, merge, diff, export, statement, doctor, explain, play, explore, "
        "stable "
        "(`shardproof --help` explains them)\n");
  CHECK_THAT(complaint({"quite different"}), StartsWith("unknown command 'quite different'; known: run, list"));
  CHECK(complaint({"--versoin"}) ==
        "unknown option --versoin, closest is --version (`shardproof --help` lists them)\n");
  CHECK(complaint({"--rum"}) == "unknown option --rum (`shardproof --help` lists them)\n");
}

TEST_CASE("an error for missing or extra arguments shows the command's own usage") {
  CHECK(complaint({"diff", "a"}) == "diff needs both arguments: shardproof diff BEFORE AFTER\n");
  CHECK(complaint({"diff"}) == "diff needs both arguments: shardproof diff BEFORE AFTER\n");
  CHECK(complaint({"diff", "a", "b", "c"}) == "unexpected argument 'c': shardproof diff BEFORE AFTER\n");
  CHECK(complaint({"merge"}) == "merge needs its argument: shardproof merge DIRECTORY\n");
  CHECK(complaint({"stable", "a", "--json"}) == "unknown option --json (`shardproof stable --help` lists them)\n");
  CHECK(complaint({"run", "--sed=3"}) ==
        "unknown option --sed=3, closest is --seed (`shardproof run --help` lists them)\n");
  CHECK(complaint({"run", "--launcher", "mpirun", "-n", "2"}) ==
        "unknown option -n: write the whole command of --launcher as one word, in quotes: --launcher 'mpirun -n …' "
        "(`shardproof run --help` lists them)\n");
  CHECK(complaint({"run", "--launcher", "mpirun -n 2", "--worker", "x", "-n"}) ==
        "unknown option -n (`shardproof run --help` lists them)\n");
  CHECK(complaint({"run", "--seed"}) == "--seed needs one value (`shardproof run --help` explains it)\n");
  CHECK(complaint({"run", "-q", "-v"}) == "--quiet excludes --verbose (`shardproof run --help` lists the options)\n");
}

TEST_CASE("after --, every word is an argument") {
  const std::string worker = trouble_program().string();
  const auto listed = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all{"list", "--worker", worker, "--json"};
    all.insert(all.end(), words.begin(), words.end());
    return nlohmann::json::parse(call(all).out).size();
  };
  CHECK(listed({"--", "good/alone"}) == 1);
  CHECK(listed({"--", "[quick]"}) == 2);
  CHECK(listed({"good/alone", "--", "good/stays"}) == 2);
  CHECK(listed({"--"}) == listed({}));
  CHECK_THAT(complaint({"list", "--worker", worker, "--", "--json"}),
             ContainsSubstring("no case matches the filter '--json'"));
  CHECK_THAT(complaint({"list", "--worker", worker, "--", "list"}),
             ContainsSubstring("no case matches the filter 'list'"));
  CHECK_THAT(complaint({"list", "--worker", worker, "--", "--"}), ContainsSubstring("no case matches the filter '--'"));
  CHECK_THAT(complaint({"run", "--worker", worker, "--", "good/none"}),
             ContainsSubstring("no case matches the filter 'good/none'"));
  CHECK_THAT(complaint({"faults", "--worker", SHARDPROOF_FAULTY_PROGRAM, "--", "--json"}),
             ContainsSubstring("no case matches the filter '--json'"));

  CHECK_THAT(complaint({"diff", "--", "-a", "-b"}), ContainsSubstring("/here/-a: No such file"));
  CHECK_THAT(complaint({"diff", "-a", "b"}), ContainsSubstring("unknown option -a"));
  CHECK(complaint({"diff", "a", "--", "b", "c"}) == "unexpected argument 'c': shardproof diff BEFORE AFTER\n");
  CHECK(complaint({"explain", "--", "-d"}) == "-d: no such directory; name the directory that a run wrote\n");
  CHECK_THAT(complaint({"stable", "--", "--help"}), ContainsSubstring("/here/--help: No such file"));
  CHECK_THAT(complaint({"play", "--", "-s"}), ContainsSubstring("/here/-s: No such file"));
}

TEST_CASE("an option before the command is refused, not dropped") {
  CHECK(complaint({"--seed", "3", "run"}) == "unknown option --seed (`shardproof --help` lists them)\n");
  CHECK_THAT(complaint({"--", "run"}), ContainsSubstring("which command?"));
}

TEST_CASE("values are refused before a worker is asked") {
  CHECK(complaint({"run", "--worker", "/nowhere", "--seed", "-1"}) ==
        "--seed -1: a whole number from 0 to 18446744073709551615\n");
  CHECK(complaint({"run", "--worker", "/nowhere", "--max-skips", "-1"}) ==
        "--max-skips -1: a whole number from 0 to 18446744073709551615\n");
  CHECK(complaint({"run", "--worker", "/nowhere", "--ranks", "2,,3"}) ==
        "--ranks 2,,3: a world has 1 to 1024 ranks; several sizes are given as 2,4\n");
  CHECK(complaint({"merge", "x", "--max-skips", "many"}) ==
        "--max-skips many: a whole number from 0 to 18446744073709551615\n");
}

TEST_CASE("an empty option value is refused and is not a missing option") {
  const std::pair<std::vector<std::string>, const char*> wrong[] = {
      {{"run", "--rerun-failed", ""}, "REPORT"}, {{"run", "--waivers", ""}, "FILE"},
      {{"run", "--fault", ""}, "NAME"},          {{"run", "--worker", ""}, "PROGRAM"},
      {{"run", "--subject", ""}, "NAME"},        {{"run", "--profile", ""}, "NAME"},
      {{"run", "--out", ""}, "DIRECTORY"},       {{"run", "--nccl-faults", ""}, "LIST"},
      {{"play", "x", "--trace", ""}, "FILE"},    {{"merge", "x", "--worker", ""}, "PROGRAM"},
      {{"faults", "--out", ""}, "DIRECTORY"}};
  for (const auto& [words, value] : wrong) {
    CHECK(complaint(words) == *(words.end() - 2) + " '': " + value + " cannot be empty (`shardproof " + words.front() +
                                  " --help` explains it)\n");
  }
}

TEST_CASE("each command's help has examples, its own arguments and its exit codes, in lines that fit on a page") {
  const std::string whole = help({"--help"});
  for (const char* command : {"run", "list", "faults", "merge", "diff", "export", "statement", "doctor", "explain",
                              "play", "explore", "stable"}) {
    const std::string text = help({command, "--help"});
    INFO(text);
    CHECK_THAT(whole, ContainsSubstring("\n    " + std::string(command) + " "));
    CHECK_THAT(text, ContainsSubstring("\n\nExamples:\n    shardproof " + std::string(command)) &&
                         ContainsSubstring("\n\nUsage: shardproof " + std::string(command) + " [OPTIONS]") &&
                         ContainsSubstring("\n\nExit codes") && !ContainsSubstring("\n\n\n"));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
  }
  for (const char* command : {"run", "list", "faults"})
    CHECK_THAT(help({command, "--help"}),
               ContainsSubstring("or a [tag]") && ContainsSubstring("[OPTIONS] [FILTER...]\n"));
  for (const char* command : {"merge", "diff", "stable"})
    CHECK_THAT(help({command, "--help"}), !ContainsSubstring("[tag]"));
  CHECK_THAT(help({"diff", "--help"}), ContainsSubstring("diff [OPTIONS] BEFORE AFTER\n\nArguments:\n    BEFORE  ") &&
                                           ContainsSubstring("1  A result got worse.") && !ContainsSubstring("skips"));
  CHECK_THAT(help({"run", "--help"}), ContainsSubstring("    6      Too many cases were skipped or waived") &&
                                          ContainsSubstring("    --ranks N[,N...]  ") &&
                                          ContainsSubstring("    --timeout SECONDS  "));
  CHECK(help({"--help", "run"}) == help({"run", "-h"}));
}
