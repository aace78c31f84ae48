// `--subject`: which engine a run is about, where it is found, and that reports and what is made of them keep to it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <fstream>

#include "tests/launcher/command.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string subjects_program = SHARDPROOF_SUBJECTS_PROGRAM;

Said run_about(const std::filesystem::path& out, std::vector<std::string> arguments, const Setting& setting = {}) {
  arguments.insert(arguments.begin(), "run");
  arguments.insert(arguments.end(), {"--out", out.string()});
  return call(arguments, setting);
}

nlohmann::json subject_of(const std::filesystem::path& run_directory) { return report_of(run_directory).at("subject").at("name"); }

/// A folder like the private environment, and in it a program for PyTorch's worker.
Setting pytorch_in(const TemporaryDirectory& directory) {
  std::filesystem::create_directory(directory / "bin");
  std::filesystem::create_symlink(subjects_program, directory / "bin/shardproof-pytorch-worker");
  return {.environment = {"SHARDPROOF_PYTORCH=" + directory.path().string()}};
}

}  // namespace

TEST_CASE("a run is about the subject that it was asked for, and says so") {
  const TemporaryDirectory directory;
  const std::pair<std::vector<std::string>, const char*> asked[] = {
      {{}, "first"}, {{"--subject", "reference"}, "first"}, {{"--subject=second"}, "second"}, {{"--subject", "pytorch"}, "pytorch"}};
  for (const auto& [words, name] : asked) {
    std::vector<std::string> arguments{"subject/works", "--worker", subjects_program};
    arguments.insert(arguments.end(), words.begin(), words.end());
    const auto out = directory / fmt::format("{}", fmt::join(words, " "));
    const Said said = run_about(out / "run", arguments);
    INFO(said.out << said.err);
    CHECK(said.end == code(0));
    CHECK(subject_of(out / "run") == name);
    CHECK_THAT(said.out, ContainsSubstring(fmt::format(", subject {}\n", name)));
  }
}

TEST_CASE("a subject that there is not is answered with those that there are, by every command") {
  const std::string known = "known: first, second, pytorch, warm; reference for the first of them, pytorch, or the path of a shared object";
  for (const std::vector<std::string>& command : {std::vector<std::string>{"run"}, {"list"}, {"faults"}, {"play", "x.json"}}) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"--worker", subjects_program, "--subject", "pytroch"});
    const Said said = call(arguments);
    CHECK(said.end == code(2));
    CHECK_THAT(said.err, ContainsSubstring("unknown subject 'pytroch'; closest is 'pytorch', " + known));
  }
}

TEST_CASE("PyTorch is looked for where the environment says, and brings its own worker") {
  const TemporaryDirectory directory, out;
  const Setting setting = pytorch_in(directory);
  const Said said = run_about(out / "run", {"subject/works", "--subject", "pytorch"}, setting);
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK(subject_of(out / "run") == "pytorch");
  const std::string library = report_of(out / "run").at("run").at("environment").at("SHARDPROOF_WORKER_LIBRARY");
  CHECK(library == (std::filesystem::path(SHARDPROOF_LAUNCHER).parent_path().parent_path() / "lib/libshardproof-worker.so").string());

  Setting own = setting;
  own.environment.emplace_back("SHARDPROOF_WORKER_LIBRARY=/mine.so");
  CHECK(run_about(out / "own", {"subject/works", "--subject", "pytorch"}, own).end == code(0));
  CHECK(report_of(out / "own").at("run").at("environment").at("SHARDPROOF_WORKER_LIBRARY") == "/mine.so");
}

TEST_CASE("what of Python is elsewhere is not for the private environment of PyTorch, and is for a program of somebody's own") {
  const TemporaryDirectory directory, out;
  std::filesystem::create_directory(directory / "bin");
  const auto program = directory / "bin/shardproof-pytorch-worker";
  std::ofstream(program) << "#!/bin/sh\necho path:$PYTHONPATH home:$PYTHONHOME >>" << (out / "seen").string() << "\nexec "
                         << subjects_program << " \"$@\"\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const Setting setting{.environment = {"SHARDPROOF_PYTORCH=" + directory.path().string(), "PYTHONPATH=/elsewhere", "PYTHONHOME=/there"}};
  CHECK(call({"list", "--subject", "pytorch"}, setting).end == code(0));
  CHECK(text_of(out / "seen") == "path: home:\n");
  CHECK(call({"list", "--worker", program.string()}, setting).end == code(0));
  CHECK(text_of(out / "seen") == "path: home:\npath:/elsewhere home:/there\n");
}

TEST_CASE("where PyTorch is not installed, what to do is said") {
  const TemporaryDirectory empty;
  const Said said = run_about(empty / "run", {"--subject", "pytorch"}, {.environment = {"SHARDPROOF_PYTORCH=" + empty.path().string()}});
  CHECK(said.end == code(3));
  CHECK_THAT(said.err,
             ContainsSubstring("there is no " + (empty / "bin/shardproof-pytorch-worker").string()) &&
                 ContainsSubstring("SHARDPROOF_PYTORCH names that folder; without it `./run --subject pytorch` installs PyTorch"));
}

TEST_CASE("the doctor says which PyTorch there is") {
  const TemporaryDirectory directory;
  const Setting setting{.environment = {"SHARDPROOF_PYTORCH=" + directory.path().string()}};
  CHECK_THAT(call({"doctor"}, setting).out, ContainsSubstring("hurts     PyTorch: none in " + directory.path().string() + "\n"));
  pytorch_in(directory);
  CHECK_THAT(call({"doctor"}, setting).out, ContainsSubstring("torch is not"));
  std::filesystem::create_directories(directory / "lib/python3.11/site-packages/torch-2.15.0+cpu.dist-info");
  CHECK_THAT(call({"doctor"}, setting).out, ContainsSubstring("fine      PyTorch: 2.15.0+cpu in " + directory.path().string() + "\n"));
}

TEST_CASE("a shared object is named to the worker in full, and has to be there") {
  const TemporaryDirectory directory;
  // Says of itself what a worker with that subject would say, and with what it was asked.
  write_text(directory / "worker", fmt::format(R"SH(#!/bin/sh
echo "$@" >"{0}/asked"
exec "{1}" --list-json
)SH",
                                               directory.path().string(), subjects_program));
  std::filesystem::permissions(directory / "worker", std::filesystem::perms::owner_all);
  write_text(directory / "engine.so", "");
  const Said said =
      call({"list", "--worker", directory / "worker", "--subject", directory / "../" / directory.path().filename() / "engine.so"});
  INFO(said.err);
  CHECK(said.end == code(0));
  CHECK(text_of(directory / "asked") == fmt::format("--list-json --subject {}\n", (directory / "engine.so").string()));

  std::filesystem::create_directories(directory / "elsewhere/deep");
  std::filesystem::create_directory_symlink("elsewhere/deep", directory / "link");
  write_text(directory / "elsewhere/engine.so", "");
  CHECK(call({"list", "--worker", directory / "worker", "--subject", directory / "link/../engine.so"}).end == code(0));
  CHECK(text_of(directory / "asked") == fmt::format("--list-json --subject {}\n", (directory / "elsewhere/engine.so").string()));

  for (const std::string& wrong : {(directory / "none.so").string(), std::string("none.so"), directory.path().string()}) {
    const Said refused = call({"list", "--worker", directory / "worker", "--subject", wrong});
    CHECK(refused.end == code(2));
    CHECK_THAT(refused.err, ContainsSubstring(fmt::format("--subject {}: there is no shared object /", wrong)));
  }
}

TEST_CASE("what is done again, merged or compared is about the subject of its report") {
  const TemporaryDirectory directory;
  const Said said = run_about(directory / "run", {"--worker", subjects_program, "--subject", "second"});
  CHECK(said.end == code(1));
  CHECK_THAT(said.out, ContainsSubstring(fmt::format("again: {} run 'subject/fails[W=1]' --seed 0 --worker {} --subject second\n",
                                                     SHARDPROOF_LAUNCHER, subjects_program)));
  const std::string report = text_of(directory / "run/report.json");
  CHECK(call({"merge", directory / "run"}).end == code(1));
  CHECK(text_of(directory / "run/report.json") == report);

  CHECK(run_about(directory / "again", {"--worker", subjects_program, "--rerun-failed", directory / "run"}).end == code(1));
  CHECK(subject_of(directory / "again") == "second");
  CHECK(run_about(directory / "other", {"--worker", subjects_program, "--rerun-failed", directory / "run", "--subject", "first"}).end ==
        code(1));
  CHECK(subject_of(directory / "other") == "first");
  CHECK_THAT(call({"diff", directory / "again", directory / "other"}).out, ContainsSubstring("subject: second -> first"));
}

TEST_CASE("faults are tried on the subject that was asked for") {
  const TemporaryDirectory directory;
  const Said said =
      call({"faults", "subject/works", "--worker", subjects_program, "--subject", "second", "--out", (directory / "out").string()});
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK(subject_of(directory / "out/clean") == "second");
  CHECK(subject_of(directory / "out/broken") == "second");
}
