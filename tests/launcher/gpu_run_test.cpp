// Runs on GPUs, which the CPU replaces: the GPU that each rank sees, worlds with more ranks than GPUs, and what the
// report and `doctor` say about them.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <set>
#include <sstream>

#include "tests/launcher/command.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A program that keeps the environment of every rank in a directory, and is the troubled one.
class Witness {
 public:
  Witness() {
    // As it is passed on: a shell shows each variable once.
    write_text(program(), "#!/bin/sh\ntr '\\0' '\\n' </proc/$$/environ >\"" + directory_.path().string() +
                              "/of-rank-$SHARDPROOF_RANK\"\nexec \"" + trouble_program().string() + "\" \"$@\"\n");
    std::filesystem::permissions(program(), std::filesystem::perms::owner_all);
  }
  std::filesystem::path program() const { return directory_ / "program"; }
  /// Values of a rank in the last world of that size or a larger one.
  std::vector<std::string> values(int rank, const std::string& name) const {
    std::vector<std::string> found;
    std::istringstream text(text_of(directory_ / ("of-rank-" + std::to_string(rank))));
    for (std::string line; std::getline(text, line);) {
      if (line.starts_with(name + "=")) found.push_back(line.substr(name.size() + 1));
    }
    return found;
  }
  std::string value(int rank, const std::string& name) const {
    const auto found = values(rank, name);
    CHECK(found.size() == 1);
    return found.empty() ? "" : found.front();
  }

 private:
  TemporaryDirectory directory_;
};

Said run_on_gpus(const std::filesystem::path& worker, const std::filesystem::path& out,
                 std::vector<std::string> arguments, const Setting& setting = {}) {
  std::vector<std::string> all{"run",  "--worker",  worker.string(),       "--out", out.string(), "--device",
                               "cuda", "--backend", SHARDPROOF_CPU_BACKEND};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return call(all, setting);
}

std::string uuid(int gpu) { return "GPU-00000000-0000-0000-0000-00000000000" + std::to_string(gpu); }

}  // namespace

TEST_CASE("each rank sees one GPU, its own, whatever the user's environment says, and the report says which") {
  const TemporaryDirectory directory;
  const Witness witness;
  const Said said = run_on_gpus(witness.program(), directory / "run", {"good/meets[W=3]", "--gpus", "3,1,2"},
                                {.environment = {"CUDA_VISIBLE_DEVICES=7,6,5,4", "CUDA_MODULE_LOADING=LAZY"},
                                 .wrapper = {},
                                 .prelude = "",
                                 .meanwhile = {}});
  INFO(said.out << said.err);
  REQUIRE(said.end == code(0));
  CHECK(witness.value(0, "CUDA_VISIBLE_DEVICES") == uuid(4));
  CHECK(witness.value(1, "CUDA_VISIBLE_DEVICES") == uuid(6));
  CHECK(witness.value(2, "CUDA_VISIBLE_DEVICES") == uuid(5));
  CHECK(witness.value(2, "CUDA_MODULE_LOADING") == "LAZY");
  CHECK(witness.value(2, "CUDA_DEVICE_MAX_CONNECTIONS") == "32");

  const auto report = report_of(directory / "run");
  const auto& environment = report.at("worlds").at(0).at("environment");
  REQUIRE(environment.size() == 3);
  CHECK(environment.at(1) == nlohmann::json{{"CUDA_DEVICE_MAX_CONNECTIONS", "32"}, {"CUDA_VISIBLE_DEVICES", uuid(6)}});
  CHECK_FALSE(report.at("worlds").at(0).contains("unfit_for_timing"));
  const auto& machine = report.at("machine");
  CHECK(machine.at("backend") == "CUDA on the CPU");
  CHECK(machine.at("cuda_driver") == "13.0");
  CHECK(machine.contains("nccl"));
  REQUIRE(machine.at("gpus").size() == 3);
  CHECK(machine.at("gpus").at(0).at("uuid") == uuid(4));
  CHECK(machine.at("gpus").at(0).at("memory_bytes") == 1 << 30);
  CHECK_THAT(said.out, ContainsSubstring("on 3 x threads of this process"));
}

TEST_CASE("worlds that are larger than there are GPUs are skipped and counted, now and in a later merge") {
  const TemporaryDirectory directory;
  const Said said = run_on_gpus(trouble_program(), directory / "run", {"good", "--gpus", "2"});
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  const Verdicts seen = verdicts(directory / "run");
  CHECK(seen.at("good/meets[W=2]") == "passed");
  CHECK(seen.at("good/meets[W=3]") == "skipped");
  CHECK_THAT(said.out, ContainsSubstring("needs 3 GPUs, one for each, and may use 2"));
  CHECK_THAT(said.out, ContainsSubstring("ranks 1, 2, seed"));
  const auto report = report_of(directory / "run");
  CHECK(report.at("summary").at("skipped") == 1);
  CHECK(report.at("skips").at(0).at("by").is_null());
  CHECK(report.at("worlds").at(2).at("endings").empty());
  CHECK_FALSE(std::filesystem::exists(directory / "run/worlds/2"));

  const std::string before = text_of(directory / "run/report.json");
  CHECK(call({"merge", (directory / "run").string()}).end == code(0));
  CHECK(text_of(directory / "run/report.json") == before);
  CHECK(run_on_gpus(trouble_program(), directory / "budget", {"good", "--gpus", "2", "--max-skips", "0"}).end ==
        code(6));
}

TEST_CASE(
    "a world size that was asked for and has too few GPUs is a mistake, and so is a selection that none is enough "
    "for") {
  const TemporaryDirectory directory;
  const Said asked = run_on_gpus(trouble_program(), directory / "asked", {"good", "--gpus", "2", "--ranks", "2,3"});
  CHECK(asked.end == code(2));
  CHECK(asked.err ==
        "shardproof: --ranks 3: a world of 3 ranks needs 3 GPUs, one for each, and may use 2 (--share-gpus puts "
        "several ranks on one)\n");
  const Said none = run_on_gpus(trouble_program(), directory / "none", {"good/meets[W=3]", "--gpus", "2"});
  CHECK(none.end == code(2));
  CHECK_THAT(none.err, ContainsSubstring("no selected case can run"));
}

TEST_CASE("ranks share GPUs where that is asked for, and their world is unfit for timing") {
  const TemporaryDirectory directory;
  const Witness witness;
  const Said said = run_on_gpus(witness.program(), directory / "run", {"good", "--gpus", "2,", "--share-gpus"});
  INFO(said.out << said.err);
  REQUIRE(said.end == code(0));
  std::set<std::string> hosts;
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(witness.value(rank, "CUDA_VISIBLE_DEVICES") == uuid(2));
    hosts.insert(witness.value(rank, "NCCL_HOSTID"));
  }
  CHECK(hosts.size() == 3);
  const auto report = report_of(directory / "run");
  CHECK_FALSE(report.at("worlds").at(0).contains("unfit_for_timing"));
  CHECK(report.at("worlds").at(2).at("unfit_for_timing") == "3 ranks share 1 GPU");
  CHECK_THAT(said.out, ContainsSubstring("unfit for timing: 3 ranks share 1 GPU"));
}

TEST_CASE("a world reports which of its GPUs slow it, and the report shows how they are connected") {
  const TemporaryDirectory directory;
  const Said said = run_on_gpus(trouble_program(), directory / "run", {"good/meets[W=2]", "--gpus", "7,1"});
  INFO(said.out << said.err);
  REQUIRE(said.end == code(0));
  CHECK_THAT(unwrapped(said.out), ContainsSubstring("; GPUs that cannot reach each other's memory: of ranks 0 and 1; "
                                                    "when the run began, rank 0 had a GPU slowed by heat (software)"));
  const auto gpus = report_of(directory / "run").at("machine").at("gpus");
  CHECK(gpus.at(0).at("slowed_by") == nlohmann::json{"heat (software)"});
  CHECK(gpus.at(0).at("peers") ==
        nlohmann::json::array(
            {{{"uuid", uuid(1)}, {"can_access", false}, {"performance_rank", 1}, {"native_atomics", false}}}));
  CHECK_FALSE(gpus.at(0).contains("numa_node"));
}

TEST_CASE("without a GPU there is no run, and the reason is one line") {
  const TemporaryDirectory directory;
  const Said blind =
      run_on_gpus(trouble_program(), directory / "blind", {"good"},
                  {.environment = {"CUDA_VISIBLE_DEVICES="}, .wrapper = {}, .prelude = "", .meanwhile = {}});
  CHECK(blind.end == code(3));
  CHECK(blind.err ==
        "shardproof: --device cuda: no GPUs: cudaGetDeviceCount: cudaErrorNoDevice (100), cudaErrorNoDevice\n");
  const Said none =
      call({"run", "--worker", trouble_program().string(), "--device", "cuda", "--backend", "/etc/hostname"});
  CHECK(none.end == code(3));
  CHECK_THAT(none.err, ContainsSubstring("no GPUs: backend /etc/hostname: "));
  CHECK(none.err.find('\n') + 1 == none.err.size());
}

TEST_CASE("a driver that crashes the search for GPUs ends the run before it begins, in one line") {
  const TemporaryDirectory directory;
  const auto worker = directory / "worker";
  write_text(worker, "#!/bin/sh\n[ \"$1\" = --list-gpus ] && kill -SEGV $$\nexec \"" + trouble_program().string() +
                         "\" \"$@\"\n");
  std::filesystem::permissions(worker, std::filesystem::perms::owner_all);
  const Said said = run_on_gpus(worker, directory / "run", {"good"});
  CHECK(said.end == code(3));
  CHECK_THAT(said.err, ContainsSubstring("asked with --list-gpus, ended with signal 11 (SIGSEGV)"));
  CHECK(said.err.find('\n') + 1 == said.err.size());
  CHECK_FALSE(std::filesystem::exists(directory / "run"));
}

TEST_CASE("GPU options are refused where ranks run without GPUs") {
  for (const char* option : {"--gpus=2", "--backend=x", "--share-gpus", "--times=cupti", "--times=events"}) {
    const Said said = call({"run", "--worker", "/nowhere", option});
    CHECK(said.end == code(2));
    CHECK_THAT(said.err, ContainsSubstring("only with --device cuda"));
  }
}

TEST_CASE("what failed on GPUs is run again on the same GPUs, unless the command line says where") {
  const TemporaryDirectory directory;
  run_on_gpus(trouble_program(), directory / "run", {"bad/check", "--gpus=5,", "--share-gpus"});
  const auto again = [&](const std::string& name, const std::string& failed, std::vector<std::string> arguments) {
    std::vector<std::string> all{
        "run",   "--worker",      trouble_program().string(), "--rerun-failed", (directory / failed).string(),
        "--out", directory / name};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Said said = call(all);
    INFO(said.out << said.err);
    CHECK(said.end == code(1));
    CHECK(verdicts(directory / name) == Verdicts{{"bad/check[W=2]", "failed"}});
    return report_of(directory / name);
  };
  // The second time what failed the first time.
  for (const auto& [name, failed] : {std::pair("again", "run"), std::pair("and again", "again")}) {
    const auto report = again(name, failed, {});
    CHECK(report.at("worlds").at(0).at("device") == "cuda");
    CHECK(report.at("worlds").at(0).at("unfit_for_timing") == "2 ranks share 1 GPU");
    REQUIRE(report.at("machine").at("gpus").size() == 1);
    CHECK(report.at("machine").at("gpus").at(0).at("uuid") == uuid(5));
  }
  CHECK(again("simulated", "run", {"--device", "sim"}).at("worlds").at(0).at("device") == "sim");
  const auto threads = again("threads", "run", {"--fabric", "thread", "--scheduler", "free"});
  CHECK(threads.at("worlds").at(0).at("fabric") == "thread");
  CHECK(again("threads again", "threads", {}).at("worlds").at(0).at("fabric") == "thread");
}

TEST_CASE("GPU options of a rerun replace the GPU options of the reported run") {
  const TemporaryDirectory directory;
  CHECK(
      run_on_gpus(trouble_program(), directory / "run", {"bad/check", "--gpus=5,", "--share-gpus", "--times", "cupti"})
          .end == code(1));
  const auto again = [&](const std::string& name, const std::string& failed, std::vector<std::string> arguments) {
    std::vector<std::string> all{
        "run",   "--worker",      trouble_program().string(), "--rerun-failed", (directory / failed).string(),
        "--out", directory / name};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return call(all);
  };
  CHECK(again("same", "run", {}).end == code(1));
  CHECK(report_of(directory / "same").at("worlds").at(0).at("times") == "cupti");
  CHECK(again("other", "same", {"--gpus", "2,3", "--times=events"}).end == code(1));
  const auto other = report_of(directory / "other");
  CHECK_FALSE(other.at("worlds").at(0).contains("times"));
  CHECK_FALSE(other.at("worlds").at(0).contains("unfit_for_timing"));
  CHECK(other.at("machine").at("gpus").at(0).at("uuid") == uuid(2));
  const Said named = again("named", "run", {"--backend", "/nowhere.so"});
  CHECK(named.end == code(2));
  CHECK_THAT(named.err, ContainsSubstring("--backend /nowhere.so: no regular file"));
  // They are as wrong for a run without GPUs.
  call({"run", "bad/check", "--worker", trouble_program().string(), "--out", directory / "simulated"});
  CHECK_THAT(again("none", "simulated", {"--gpus", "2"}).err, ContainsSubstring("--gpus 2: only with --device cuda"));
  CHECK_THAT(again("none", "run", {"--gpus", "2", "--device", "sim"}).err,
             ContainsSubstring("--gpus 2: only with --device cuda"));
  call({"run", "bad/check", "--worker", trouble_program().string(), "--fabric", "thread", "--out",
        directory / "threads"});
  CHECK(again("free", "threads", {"--scheduler", "free"}).end == code(1));
  CHECK_THAT(again("none", "simulated", {"--scheduler", "free"}).err, ContainsSubstring("with --fabric thread only"));
}

TEST_CASE("times come from CUPTI where that is asked for, and the report says so") {
  const TemporaryDirectory directory;
  const Said said = run_on_gpus(trouble_program(), directory / "run", {"good", "--gpus", "1", "--times", "cupti"});
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK(report_of(directory / "run").at("worlds").at(0).at("times") == "cupti");
  CHECK_THAT(said.out, ContainsSubstring("; times from cupti"));
  const Said usual = run_on_gpus(trouble_program(), directory / "usual", {"good", "--gpus", "1", "--times", "events"});
  CHECK(usual.end == code(0));
  CHECK_FALSE(report_of(directory / "usual").at("worlds").at(0).contains("times"));
  const Said unknown = run_on_gpus(trouble_program(), directory / "none", {"good", "--times", "sundial"});
  CHECK(unknown.end == code(2));
  CHECK_THAT(unknown.err, ContainsSubstring("sundial") && ContainsSubstring("events, cupti"));
}

TEST_CASE("times from a CUPTI that is not there are refused with the reason, and other runs go on without it") {
  const TemporaryDirectory directory;
  const auto worker = directory / "worker";
  write_text(worker, "#!/bin/sh\n[ \"$1\" = --list-gpus ] || exec \"" + trouble_program().string() + "\" \"$@\"\n\"" +
                         trouble_program().string() +
                         "\" \"$@\" | sed 's/}$/,\"why_no_records\":\"there is no CUPTI here\"}/'\n");
  std::filesystem::permissions(worker, std::filesystem::perms::owner_all);
  const Said refused = run_on_gpus(worker, directory / "run", {"good", "--gpus", "1", "--times", "cupti"});
  CHECK(refused.end == code(3));
  CHECK(refused.err == "shardproof: --times cupti: there is no CUPTI here\n");
  CHECK_FALSE(std::filesystem::exists(directory / "run"));
  CHECK(run_on_gpus(worker, directory / "run", {"good", "--gpus", "1"}).end == code(0));
}

TEST_CASE("a failure on GPUs is reproduced on GPUs") {
  const TemporaryDirectory directory;
  const Said said = run_on_gpus(trouble_program(), directory / "run", {"bad/check", "--gpus", "1", "--share-gpus"});
  CHECK(said.end == code(1));
  CHECK_THAT(said.out,
             ContainsSubstring("again: ") && ContainsSubstring(std::string("--device cuda --backend ") +
                                                               SHARDPROOF_CPU_BACKEND + " --gpus 1 --share-gpus"));
}

TEST_CASE("a wrong backend on the command line is a usage error") {
  for (const char* command : {"run", "doctor"}) {
    std::vector<std::string> words{command, "--worker", trouble_program().string()};
    if (words.front() == "run") words.insert(words.end(), {"--device", "cuda"});
    for (const auto& [backend, why] :
         {std::pair("", "--backend '': the shared object that reaches CUDA, a file"),
          std::pair("/nowhere.so", "--backend /nowhere.so: no regular file is at this path"),
          std::pair("/dev/null", "--backend /dev/null: no regular file is at this path")}) {
      std::vector<std::string> all = words;
      all.insert(all.end(), {"--backend", backend});
      const Said said = call(all);
      CHECK(said.end == code(2));
      CHECK(said.err == std::string("shardproof: ") + why + "\n");
    }
  }
}

TEST_CASE("the doctor ends badly where the backend that was named cannot be used, and only there") {
  const auto end = [](const char* backend, const Setting& setting = {}) {
    return call({"doctor", "--worker", trouble_program().string(), "--backend", backend}, setting).end;
  };
  CHECK(end(SHARDPROOF_CPU_BACKEND) == code(0));
  CHECK(end("/etc/hostname") == code(3));
  CHECK(end(SHARDPROOF_CPU_BACKEND,
            {.environment = {"CUDA_VISIBLE_DEVICES="}, .wrapper = {}, .prelude = "", .meanwhile = {}}) == code(3));
  CHECK(call({"doctor", "--worker", trouble_program().string()}).end == code(0));
}

TEST_CASE("the doctor asks for GPUs as a run does") {
  const auto examine = [](std::vector<std::string> arguments, const Setting& setting = {}) {
    std::vector<std::string> all{"doctor", "--worker", trouble_program().string()};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return call(all, setting).out;
  };
  CHECK_THAT(
      examine({"--backend", SHARDPROOF_CPU_BACKEND}),
      ContainsSubstring(
          "GPUs: 8 x threads of this process, backend CUDA on the CPU, cuda_driver 13.0, cuda_runtime 13.0, nccl "));
  CHECK_THAT(examine({"--backend", SHARDPROOF_CPU_BACKEND}),
             ContainsSubstring(
                 "hurts     GPUs that cannot reach each other's memory: 0 and 7, 1 and 7, 2 and 7, and 4 more") &&
                 ContainsSubstring("hurts     GPU 7: slowed by heat (software)"));
  CHECK_THAT(examine({"--backend", SHARDPROOF_CPU_BACKEND},
                     {.environment = {"CUDA_VISIBLE_DEVICES="}, .wrapper = {}, .prelude = "", .meanwhile = {}}),
             ContainsSubstring("prevents  GPUs: none") && ContainsSubstring("cudaErrorNoDevice"));
  CHECK_THAT(examine({"--backend", "/etc/hostname"}),
             ContainsSubstring("prevents  GPUs: none") && ContainsSubstring("/etc/hostname"));
}
