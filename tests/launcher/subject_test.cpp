// `--subject`: which engine a run is about, where it is found, and that reports and what is made of them keep to it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <fstream>

#include "launcher/worker_client/subject.hpp"
#include "tests/launcher/command.hpp"
#include "tests/launcher/refusal.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

const std::string subjects_program = SHARDPROOF_SUBJECTS_PROGRAM;

Said run_about(const std::filesystem::path& out, std::vector<std::string> arguments, const Setting& setting = {}) {
  arguments.insert(arguments.begin(), "run");
  arguments.insert(arguments.end(), {"--out", out.string()});
  return call(arguments, setting);
}

nlohmann::json subject_of(const std::filesystem::path& run_directory) {
  return report_of(run_directory).at("subject").at("name");
}

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
      {{}, "first"}, {{"--subject=second"}, "second"}, {{"--subject", "pytorch"}, "pytorch"}};
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

TEST_CASE("every command answers an unknown subject with the known subjects, and runs nothing") {
  const std::string known = "there are first, second, warm, misspelt, pytorch, and paths of shared objects\n";
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"run"}, {"list"}, {"faults"}, {"play", "x.json"}}) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"--worker", subjects_program, "--subject", "pytroch"});
    const Said said = call(arguments);
    CHECK(said.end == code(2));
    CHECK_THAT(said.err, ContainsSubstring("unknown subject 'pytroch'; closest is 'pytorch'; " + known));
  }
}

TEST_CASE("the name reference means the engine of this name, and no other engine of a worker") {
  const std::vector<std::vector<std::string>> commands{{"run"}, {"list"}, {"faults"}, {"play", "x.json"}};
  for (const std::vector<std::string>& command : commands) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"--worker", subjects_program, "--subject", "reference"});
    const Said said = call(arguments);
    CHECK(said.end == code(2));
    CHECK(said.err ==
          "shardproof: this worker has no engine 'reference'; it has: first, second, pytorch, warm, misspelt\n");
  }
  for (const std::vector<std::string>& command : {std::vector<std::string>{"explore"}, {"play", "x.json"}}) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"--worker", subjects_program, "--subject", "reference,first"});
    CHECK_THAT(call(arguments).err, ContainsSubstring("this worker has no engine 'reference'; it has: first, "));
  }
  const protocol::Listing shipped{.subjects = {{.name = "reference"}, {.name = "other"}}};
  CHECK(subject_name(shipped, "reference") == "reference");
  CHECK_THAT(refusal([&] { subject_name(shipped, "fully_shard"); }),
             StartsWith("unknown subject 'fully_shard'; it is called 'reference' now; there are other, reference, "
                        "pytorch, and paths of shared objects"));
}

TEST_CASE("explore refuses one engine under two names") {
  const TemporaryDirectory directory;
  write_text(directory / "worker", fmt::format("#!/bin/sh\nexec \"{}\" --list-json\n", subjects_program));
  std::filesystem::permissions(directory / "worker", std::filesystem::perms::owner_all);
  write_text(directory / "engine.so", "\177ELF");
  std::filesystem::create_symlink("engine.so", directory / "again.so");
  const std::string one = directory / "engine.so", again = directory / "again.so";
  const auto asked = [&](const std::string& pair) {
    return call({"explore", "--worker", directory / "worker", "--subject", pair}).err;
  };
  CHECK(asked(one + "," + again) ==
        fmt::format("shardproof: --subject {0},{1}: {0} and {1} are the same engine: name "
                    "another engine, or write {0},{0} to see whether two runs of it differ\n",
                    one, again));
  CHECK_THAT(asked(one + "," + one), !ContainsSubstring("same engine"));
  CHECK_THAT(asked(one + "," + again + "+broken"), !ContainsSubstring("same engine"));
  std::filesystem::copy_file(directory / "engine.so", directory / "copy.so");
  CHECK_THAT(asked(one + "," + (directory / "copy.so").string()), !ContainsSubstring("same engine"));
}

TEST_CASE("a single subject takes its fault from a separate option") {
  const TemporaryDirectory directory;
  write_text(directory / "engine.so", "\177ELF");
  const std::string library = directory / "engine.so";
  for (const std::string& subject : {std::string("second"), std::string("pytorch"), library}) {
    for (const std::vector<std::string>& command : {std::vector<std::string>{"run"}, {"list"}, {"play", "x.json"}}) {
      std::vector<std::string> arguments = command;
      arguments.insert(arguments.end(), {"--worker", subjects_program, "--subject", subject + "+broken"});
      const Said said = call(arguments);
      CHECK(said.end == code(2));
      CHECK(said.err == fmt::format("shardproof: --subject {0}+broken: name the fault of a single subject with "
                                    "--fault: `--subject {0} --fault broken`\n",
                                    subject));
    }
  }
  const auto refused = [&](const std::string& subject) {
    return call({"run", "--worker", subjects_program, "--subject", subject}).err;
  };
  CHECK_THAT(refused("third+broken"), ContainsSubstring("unknown subject 'third+broken'; "));
  CHECK_THAT(refused((directory / "none.so+broken").string()), ContainsSubstring("cannot find the shared object "));
}

TEST_CASE("a subject whose claims name no known engine kind does not end green") {
  const TemporaryDirectory directory;
  const Said said = run_about(directory / "run", {"kind/plays", "--worker", subjects_program, "--subject", "misspelt"});
  INFO(said.out << said.err);
  CHECK(said.end == code(6));
  const std::string reason = "subject misspelt does not claim the engine kind fully_shard; it claims fully_shrad";
  CHECK_THAT(
      unwrapped(said.out),
      ContainsSubstring("SKIP 1 case: " + reason + " ") &&
          ContainsSubstring("FINDING the only case was skipped, because " + reason + ": this run proves nothing; ") &&
          ContainsSubstring(
              "FINDING subject misspelt claims the engine kind fully_shrad, which this worker does not know "
              "(closest is fully_shard): correct its claims\n"));
  CHECK(call({"merge", directory / "run"}).end == code(6));
  CHECK(run_about(directory / "some",
                  {"kind/plays", "subject/works", "--worker", subjects_program, "--subject", "misspelt"})
            .end == code(6));
  CHECK(run_about(directory / "none", {"kind/plays", "--worker", subjects_program, "--subject", "second"}).end ==
        code(6));
  CHECK(run_about(directory / "other",
                  {"kind/plays", "subject/works", "--worker", subjects_program, "--subject", "second"})
            .end == code(0));
}

TEST_CASE("PyTorch is looked for where the environment says, and brings its own worker") {
  const TemporaryDirectory directory, out;
  const Setting setting = pytorch_in(directory);
  const Said said = run_about(out / "run", {"subject/works", "--subject", "pytorch"}, setting);
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK(subject_of(out / "run") == "pytorch");
  const std::string library = report_of(out / "run").at("run").at("environment").at("SHARDPROOF_WORKER_LIBRARY");
  CHECK(library ==
        (std::filesystem::path(SHARDPROOF_LAUNCHER).parent_path().parent_path() / "lib/libshardproof-worker.so")
            .string());

  const auto cache_of = [](const Said& ended) {
    return ended.out.substr(std::min(ended.out.find("cache "), ended.out.size()));
  };
  CHECK_THAT(cache_of(run_about(out / "caching", {"subject/works", "--subject", "pytorch", "--output", "0"}, setting)),
             StartsWith("cache " + (out / "caching/cache").string() + "\n"));

  Setting own = setting;
  own.environment.emplace_back("SHARDPROOF_WORKER_LIBRARY=/mine.so");
  own.environment.emplace_back("TORCHINDUCTOR_CACHE_DIR=/kept");
  CHECK_THAT(cache_of(run_about(out / "kept", {"subject/works", "--subject", "pytorch", "--output", "0"}, own)),
             StartsWith("cache /kept\n"));
  CHECK(run_about(out / "own", {"subject/works", "--subject", "pytorch"}, own).end == code(0));
  CHECK(report_of(out / "own").at("run").at("environment").at("SHARDPROOF_WORKER_LIBRARY") == "/mine.so");
}

TEST_CASE(
    "what of Python is elsewhere is not for the private environment of PyTorch, and is for a program of somebody's "
    "own") {
  const TemporaryDirectory directory, out;
  std::filesystem::create_directory(directory / "bin");
  const auto program = directory / "bin/shardproof-pytorch-worker";
  std::ofstream(program) << "#!/bin/sh\necho path:$PYTHONPATH home:$PYTHONHOME >>" << (out / "seen").string()
                         << "\nexec " << subjects_program << " \"$@\"\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const Setting setting{
      .environment = {"SHARDPROOF_PYTORCH=" + directory.path().string(), "PYTHONPATH=/elsewhere", "PYTHONHOME=/there"}};
  CHECK(call({"list", "--subject", "pytorch"}, setting).end == code(0));
  CHECK(text_of(out / "seen") == "path: home:\n");
  CHECK(call({"list", "--worker", program.string()}, setting).end == code(0));
  CHECK(text_of(out / "seen") == "path: home:\npath:/elsewhere home:/there\n");
}

TEST_CASE("where PyTorch is not installed, what to do is said") {
  const TemporaryDirectory empty;
  const Said said = run_about(empty / "run", {"--subject", "pytorch"},
                              {.environment = {"SHARDPROOF_PYTORCH=" + empty.path().string()}});
  CHECK(said.end == code(3));
  CHECK_THAT(said.err, ContainsSubstring((empty / "bin/shardproof-pytorch-worker").string() + " does not exist") &&
                           ContainsSubstring("SHARDPROOF_PYTORCH names that folder. Without this variable, `./run "
                                             "--subject pytorch` installs PyTorch"));
}

TEST_CASE("the doctor says which PyTorch there is") {
  const TemporaryDirectory directory;
  const Setting setting{.environment = {"SHARDPROOF_PYTORCH=" + directory.path().string()}};
  CHECK_THAT(call({"doctor"}, setting).out,
             ContainsSubstring("hurts     PyTorch: none in " + directory.path().string() + "\n"));
  pytorch_in(directory);
  CHECK_THAT(call({"doctor"}, setting).out, ContainsSubstring("torch is not"));
  std::filesystem::create_directories(directory / "lib/python3.11/site-packages/torch-2.15.0+cpu.dist-info");
  CHECK_THAT(call({"doctor"}, setting).out,
             ContainsSubstring("fine      PyTorch: 2.15.0+cpu in " + directory.path().string() + "\n"));
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
  write_text(directory / "engine.so", "\177ELF");
  const Said said = call({"list", "--worker", directory / "worker", "--subject",
                          directory / "../" / directory.path().filename() / "engine.so"});
  INFO(said.err);
  CHECK(said.end == code(0));
  CHECK(text_of(directory / "asked") == fmt::format("--list-json --subject {}\n", (directory / "engine.so").string()));

  std::filesystem::create_directories(directory / "elsewhere/deep");
  std::filesystem::create_directory_symlink("elsewhere/deep", directory / "link");
  write_text(directory / "elsewhere/engine.so", "\177ELF");
  CHECK(call({"list", "--worker", directory / "worker", "--subject", directory / "link/../engine.so"}).end == code(0));
  CHECK(text_of(directory / "asked") ==
        fmt::format("--list-json --subject {}\n", (directory / "elsewhere/engine.so").string()));
}

TEST_CASE("a file that is not a shared object is refused with what it is") {
  const TemporaryDirectory directory;
  const auto refused = [&](const std::string& subject) {
    const Said said = call({"list", "--worker", subjects_program, "--subject", subject});
    CHECK(said.end == code(2));
    return said.err;
  };
  const auto named = [&](const std::string& name) { return (directory / name).string(); };
  CHECK(refused(named("none.so")) ==
        fmt::format("shardproof: --subject {0}: cannot find the shared object {0}: No such file or directory\n",
                    named("none.so")));
  CHECK_THAT(refused("none.so"), ContainsSubstring("--subject none.so: cannot find the shared object /"));
  CHECK_THAT(refused("/etc/passwd/none.so"),
             ContainsSubstring("cannot find the shared object /etc/passwd/none.so: Not a directory"));
  std::filesystem::create_directory(directory / "dir.so");
  CHECK_THAT(refused(named("dir.so")), ContainsSubstring("dir.so is a directory, not a shared object\n"));
  REQUIRE(mkfifo(named("pipe.so").c_str(), 0600) == 0);
  CHECK_THAT(refused(named("pipe.so")),
             ContainsSubstring("pipe.so cannot be loaded: it is a pipe, a socket or a device\n"));
  write_text(directory / "text.so", "INPUT(engine.so.1)\n");
  CHECK_THAT(refused(named("text.so")), ContainsSubstring("text.so is not a shared object: it has no ELF header\n"));
  write_text(directory / "engine.py", "import torch\n");
  const std::string hint = "; an engine in Python brings its own worker: --worker ";
  CHECK_THAT(refused(named("engine.py")),
             ContainsSubstring("engine.py is not a shared object") && ContainsSubstring(hint + named("engine.py")));
  CHECK_THAT(refused("engine.py"),
             ContainsSubstring("unknown subject 'engine.py'") && ContainsSubstring(hint + "engine.py\n"));
}

TEST_CASE("a crash while a shared object loads is blamed on it, where the worker lists its cases without it") {
  const TemporaryDirectory directory;
  write_text(directory / "engine.so", "\177ELF");
  const auto refused = [&](const std::string& with, const std::string& alone) {
    write_text(directory / "worker", "#!/bin/sh\nif [ $# = 1 ]; then " + alone + "; fi\n" + with + "\n");
    std::filesystem::permissions(directory / "worker", std::filesystem::perms::owner_all);
    const Said said = call({"list", "--worker", directory / "worker", "--subject", directory / "engine.so"});
    CHECK(said.end == code(3));
    return said.err;
  };
  const std::string lists = fmt::format("exec '{}' --list-json", subjects_program);
  const std::string begins =
      fmt::format("shardproof: --subject {}: worker {} cannot list its cases with this shared object: ",
                  (directory / "engine.so").string(), (directory / "worker").string());
  CHECK(refused("kill -SEGV $$", lists) == begins + "it ended with signal 11 (SIGSEGV)\n");
  CHECK(refused("echo loaded; " + lists, lists) == begins + "its answer is not JSON: 'loaded'\n");
  CHECK(refused("echo help >&2; exit 9", lists) == begins + "it ended with exit code 9 (standard error: help)\n");
  CHECK_THAT(refused("echo loaded", "echo loaded; exit"),
             ContainsSubstring("worker is not a shardproof worker: asked with --list-json and"));
}

TEST_CASE("a rerun, merge or diff is about the subject of its report") {
  const TemporaryDirectory directory;
  const Said said = run_about(directory / "run", {"--worker", subjects_program, "--subject", "second"});
  CHECK(said.end == code(1));
  CHECK_THAT(said.out,
             ContainsSubstring(fmt::format("again: {} run 'subject/fails[W=1]' --seed 0 --worker {} --subject second\n",
                                           SHARDPROOF_LAUNCHER, subjects_program)));
  const std::string report = text_of(directory / "run/report.json");
  CHECK(call({"merge", directory / "run"}).end == code(1));
  CHECK(text_of(directory / "run/report.json") == report);

  CHECK(run_about(directory / "again", {"--worker", subjects_program, "--rerun-failed", directory / "run"}).end ==
        code(1));
  CHECK(subject_of(directory / "again") == "second");
  CHECK(run_about(directory / "other",
                  {"--worker", subjects_program, "--rerun-failed", directory / "run", "--subject", "first"})
            .end == code(1));
  CHECK(subject_of(directory / "other") == "first");
  CHECK_THAT(call({"diff", directory / "again", directory / "other"}).out,
             ContainsSubstring("subject: second -> first"));
}

TEST_CASE("faults are tried on the subject that was asked for") {
  const TemporaryDirectory directory;
  const Said said = call({"faults", "subject/works", "--worker", subjects_program, "--subject", "second", "--out",
                          (directory / "out").string()});
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK(subject_of(directory / "out/clean") == "second");
  CHECK(subject_of(directory / "out/broken") == "second");
}
