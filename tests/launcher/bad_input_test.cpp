// Every wrong thing that a user can ask for: a clear message, the right exit code, nothing written where nothing should
// be.
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>

#include "harness/base/file_descriptor.hpp"
#include "tests/launcher/command.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using shardproof::base::FileDescriptor;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

/// `run` of the troubled program; the message of a refusal, which must leave no output behind.
std::string refused(std::vector<std::string> arguments, int expected = 2) {
  TemporaryDirectory directory;
  std::vector<std::string> all{"run", "--worker", trouble_program().string(), "--out", (directory / "run").string()};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const Said said = call(all);
  CHECK(said.end == code(expected));
  CHECK(said.out.empty());
  CHECK_FALSE(std::filesystem::exists(directory / "run"));
  return said.err;
}

std::string refused_worker(const std::string& worker, int expected = 3) {
  const Said said = call({"run", "--worker", worker, "--timeout", "2"});
  CHECK(said.end == code(expected));
  return said.err;
}

}  // namespace

TEST_CASE("unknown names are answered with those that exist") {
  CHECK_THAT(refused({"--subject", "nobody"}), ContainsSubstring("unknown subject 'nobody'"));
  CHECK_THAT(refused({"--device", "abacus"}), ContainsSubstring("unknown device 'abacus'; known: sim"));
  CHECK_THAT(refused({"--fabric", "wool"}), ContainsSubstring("unknown fabric 'wool'; known: shm"));
  CHECK_THAT(refused({"--device", "sin"}), ContainsSubstring("unknown device 'sin'; closest is 'sim'; known: sim"));
  CHECK_THAT(refused({"--order", "randm"}), ContainsSubstring("closest is 'random'; known: "));
  CHECK_THAT(refused({"--fault", "mine"}), ContainsSubstring("unknown fault 'mine'"));
}

TEST_CASE("an error about a requested file names its option") {
  CHECK_THAT(refused({"--junit", "/nowhere/x.xml"}),
             ContainsSubstring("--junit: output unusable: open /nowhere/x.xml: No such file or directory"));
}

TEST_CASE("list counts the cases that run only on request") {
  TemporaryDirectory directory;
  run_trouble(directory / "run", {"good/alone"});
  nlohmann::ordered_json listing = nlohmann::ordered_json::parse(text_of(directory / "run/listing.json"));
  for (nlohmann::ordered_json& one : listing["cases"]) {
    if (one["id"] == "good/alone[W=1]") one["on_request"] = true;
  }
  listing["profiles"] = {{{"name", "whole"},
                          {"text", "everything"},
                          {"least_ranks", 1},
                          {"most_ranks", nullptr},
                          {"tags", nlohmann::ordered_json::array()},
                          {"without_tags", nlohmann::ordered_json::array()},
                          {"required_only", false}}};
  write_text(directory / "listing.json", listing.dump());
  const std::string worker = directory / "worker";
  write_text(worker, "#!/bin/sh\ncat '" + (directory / "listing.json").string() + "'\n");
  std::filesystem::permissions(worker, std::filesystem::perms::owner_all);
  CHECK_THAT(call({"list", "--worker", worker, "good"}).out,
             Catch::Matchers::EndsWith("\n4 cases, 1 of them on request\n"));
  CHECK(call({"list", "--worker", worker, "good", "--profiles"}).out ==
        "whole (default): everything, 4 cases, 1 of them on request\n");
  CHECK_THAT(call({"list", "--worker", worker, "good/meets"}).out, Catch::Matchers::EndsWith("\n2 cases\n"));
}

TEST_CASE("a missing GPU backend or NCCL tap is answered with the commands that build it") {
  TemporaryDirectory directory;
  std::filesystem::create_directories(directory / "bin");
  const std::string alone = directory / "bin/shardproof", home = directory.path().string();
  std::filesystem::copy_file(SHARDPROOF_LAUNCHER, alone);
  const auto answer = [&](const std::vector<std::string>& arguments) {
    std::vector<std::string> all{"run", "good/alone", "--worker", trouble_program().string()};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Said said = call(
        all, {.environment = {}, .wrapper = {}, .prelude = "shift; set -- '" + alone + "' \"$@\";", .meanwhile = {}});
    CHECK(said.end == code(3));
    return said.err;
  };
  CHECK_THAT(answer({"--device", "cuda"}),
             StartsWith("shardproof: --device cuda: the GPU backend is not installed: there is no " + home +
                        "/lib/shardproof/libshardproof_cuda.so\n") &&
                 ContainsSubstring("cmake --install build --prefix " + home + "\n"));
  write_text(directory / "CMakeCache.txt", "CMAKE_HOME_DIRECTORY:INTERNAL=/sources\n");
  CHECK_THAT(answer({"--device", "cuda"}), ContainsSubstring("cmake --build " + home + " --target shardproof_cuda\n"));
  CHECK_THAT(answer({"--nccl-tap"}),
             StartsWith("shardproof: --nccl-tap: the NCCL tap is not built: there is no ") &&
                 ContainsSubstring("cmake --build " + home + " --target shardproof_nccl_tap_library\n"));
}

TEST_CASE("a filter that selects nothing is an error that helps") {
  CHECK_THAT(refused({"god/stays"}),
             ContainsSubstring("no case matches the filter 'god/stays'; closest is 'good/stays'"));
  CHECK_THAT(refused({"good", "[nothing]"}), ContainsSubstring("no case matches the filter '[nothing]'"));
}

TEST_CASE("tags and brackets in ids reach the filter as they are") {
  TemporaryDirectory directory;
  const std::string worker = trouble_program().string();
  Said said = call({"run", "--worker", worker, "--out", (directory / "tag").string(), "[quick]"});
  CHECK(said.end == code(0));
  CHECK(verdicts(directory / "tag").size() == 2);
  said = call({"run", "many/rounds[W=2,n=3]", "--worker", worker, "--out", (directory / "id").string()});
  CHECK(said.end == code(0));
  CHECK(verdicts(directory / "id").size() == 1);
}

TEST_CASE("impossible world sizes are refused, with the possible sizes") {
  CHECK_THAT(refused({"--ranks", "0"}), ContainsSubstring("a world has 1 to 1024 ranks"));
  CHECK_THAT(refused({"--ranks", "-1"}), ContainsSubstring("a world has 1 to 1024 ranks"));
  CHECK_THAT(refused({"--ranks", "10000"}), ContainsSubstring("a world has 1 to 1024 ranks"));
  CHECK_THAT(refused({"--ranks", "7"}),
             ContainsSubstring("no selected case runs on 7 ranks; there are cases for 1, 2, 3"));
  refused({"--ranks", "two"});
  CHECK_THAT(refused({"good", "--ranks", "2,9"}), ContainsSubstring("on 9 ranks"));
}

TEST_CASE("sizes are given together or one by one, before or after filters") {
  TemporaryDirectory directory;
  const std::string worker = trouble_program().string();
  CHECK(call({"run", "--ranks", "2,3", "good", "--worker", worker, "--out", (directory / "a").string()}).end ==
        code(0));
  CHECK(verdicts(directory / "a").size() == 3);
  CHECK(call({"run", "good", "--ranks", "1", "--ranks", "3", "--worker", worker, "--out", (directory / "b").string()})
            .end == code(0));
  CHECK(verdicts(directory / "b").size() == 2);
}

TEST_CASE("an invalid or empty shard is refused") {
  CHECK_THAT(refused({"--shard", "3/2"}), ContainsSubstring("expected i/n"));
  CHECK_THAT(refused({"--shard", "x"}), ContainsSubstring("expected i/n"));
  CHECK_THAT(refused({"good/stays", "--shard", "2/2"}), ContainsSubstring("is empty"));
}

TEST_CASE("the launcher gives a different error for each kind of file that is not a worker") {
  CHECK_THAT(refused_worker("/bin/true"), ContainsSubstring("/bin/true is not a shardproof worker"));
  CHECK_THAT(refused_worker("/bin/cat"), ContainsSubstring("is not a shardproof worker"));
  CHECK_THAT(refused_worker("/bin/sleep"), ContainsSubstring("is not a shardproof worker"));
  CHECK_THAT(refused_worker("/nowhere", 2), ContainsSubstring("cannot find the worker /nowhere: No such file"));
  CHECK_THAT(refused_worker("/etc", 2), ContainsSubstring("worker /etc is a directory"));
  CHECK_THAT(refused_worker("/etc/passwd"), ContainsSubstring("Permission denied"));
}

TEST_CASE("what a program says is shown as text, whatever it does to terminals") {
  TemporaryDirectory directory;
  const auto answer_of = [&](const std::string& script) {
    write_text(directory / "worker", "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(directory / "worker", std::filesystem::perms::owner_all);
    return refused_worker((directory / "worker").string());
  };
  CHECK_THAT(answer_of("printf '\\033[2Jboo\\000hoo'"),
             ContainsSubstring("its answer is not JSON: '\\x1b[2Jboo\\x00hoo'"));
  CHECK_THAT(answer_of("printf '\\007ring\\n' >&2; exit 1"), ContainsSubstring("(standard error: \\x07ring)"));
}

TEST_CASE("output that cannot be written is refused before a rank starts") {
  TemporaryDirectory directory;
  const std::string worker = trouble_program().string();
  std::filesystem::create_directories(directory / "full");
  write_text(directory / "full/report.json", "precious");
  Said said = call({"run", "good/stays", "--worker", worker, "--out", (directory / "full").string()});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("is not empty"));
  CHECK(text_of(directory / "full/report.json") == "precious");

  said = call({"run", "good/stays", "--worker", worker, "--out", "/proc/shardproof"});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("output unusable"));
}

TEST_CASE("the launcher refuses a path that is not UTF-8, and replaces bad bytes in other text") {
  TemporaryDirectory directory;
  const std::string worker = directory / "worker\xff";
  std::filesystem::create_symlink(trouble_program(), worker);
  Said said = call({"run", "good/stays", "--worker", worker, "--out", (directory / "run").string()},
                   {.environment = {"OMP_X=\xff"}});
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK(report_of(directory / "run").at("run").at("environment").at("OMP_X") == "\uFFFD");
  CHECK(call({"merge", (directory / "run").string()}).end == code(0));

  const std::string latin = directory / "pr\xe9sent";
  said = call({"run", "good/stays", "--worker", worker, "--out", latin});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("pr\uFFFDsent: this path is not UTF-8: name another directory"));
  CHECK_FALSE(std::filesystem::exists(latin));
  std::filesystem::rename(directory / "run", latin);
  CHECK(call({"merge", latin}).end == code(0));
}

TEST_CASE("a disk that fills up during a run ends with 2, and the known results are still reported") {
  const std::vector<std::string> wrapper{"/usr/bin/unshare", "--map-root-user", "--mount"};
  if (std::system("/usr/bin/unshare --map-root-user --mount true 2>/dev/null") != 0)
    SKIP("no mounts in a namespace of one's own here");
  TemporaryDirectory directory;
  Setting setting;
  setting.wrapper = wrapper;
  setting.prelude = "mount -t tmpfs -o size=300k none " + directory.path().string() + " &&";
  const Said said = call(
      {"run", "many", "--repeat", "300", "--worker", trouble_program().string(), "--out", (directory / "run").string()},
      setting);
  INFO(said.out << said.err);
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("output unusable") && ContainsSubstring("No space left on device"));
  CHECK_THAT(said.out, ContainsSubstring("3000 cases in 1 world:") && ContainsSubstring(" passed"));
}

TEST_CASE("a merge refuses a directory that is not a run") {
  TemporaryDirectory directory;
  Said said = call({"merge", directory.path().string()});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("no world to merge") &&
                           ContainsSubstring("name the directory of a run, which --out or --run-dir made"));
  CHECK(call({"merge", "/nowhere"}).end == code(2));

  std::filesystem::create_directories(directory / "worlds/0");
  write_text(directory / "worlds/0/plan.json", "{");
  said = call({"merge", directory.path().string()});
  CHECK(said.end == code(5));
  CHECK_THAT(said.err, ContainsSubstring("worlds/0"));
}

TEST_CASE("a rank stream that is corrupt or cut costs what it held, and is said") {
  TemporaryDirectory directory;
  const auto out = directory / "run";
  REQUIRE(call({"run", "good", "--ranks", "2", "--worker", trouble_program().string(), "--out", out.string()}).end ==
          code(0));
  const auto stream = out / "worlds/0/ranks/rank-1.jsonl";
  const std::string whole = text_of(stream);
  for (const std::string& broken :
       {whole.substr(0, whole.size() / 2), whole.substr(0, whole.size() / 2) + "\n{]\n", std::string()}) {
    write_text(stream, broken);
    const Said said = call({"merge", out.string()});
    INFO(said.out << said.err);
    CHECK(said.end == code(5));
    CHECK_FALSE(report_of(out).at("worlds").at(0).at("defects").empty());
  }
  std::filesystem::remove(stream);
  CHECK(call({"merge", out.string()}).end == code(5));
  write_text(stream, whole);
  CHECK(call({"merge", out.string()}).end == code(0));
}

TEST_CASE("a diff refuses a file that is not a report") {
  TemporaryDirectory directory;
  write_text(directory / "report.json", "{}");
  CHECK(call({"diff", "/nowhere", "/nowhere"}).end == code(2));
  const Said said = call({"diff", directory.path().string(), directory.path().string()});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("report.json is not a report"));
  CHECK(call({"diff", directory.path().string()}).end == code(2));
}

TEST_CASE("a pipe without a writer blocks no command") {
  TemporaryDirectory directory;
  const std::string pipe = directory / "pipe", out = directory / "run";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const std::string why = "cannot read " + pipe + ": the pipe is empty and has no writer\n";
  CHECK(refused({"--waivers", pipe}) == "shardproof: --waivers: " + why);
  CHECK(refused({"--rerun-failed", pipe}) == "shardproof: " + why);
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"diff", pipe, pipe},
                                             {"stable", pipe},
                                             {"faults", "--waivers", pipe, "--worker", SHARDPROOF_FAULTY_PROGRAM}}) {
    const Said said = call(arguments);
    CHECK(said.end == code(2));
    CHECK_THAT(said.err, ContainsSubstring(why));
  }
  const Said played = call({"play", pipe});
  CHECK(played.end == code(2));
  CHECK_THAT(played.err, ContainsSubstring("cannot read the scenario " + pipe));

  REQUIRE(call({"run", "good/stays", "--worker", trouble_program().string(), "--out", out}).end == code(0));
  for (const std::string name :
       {"run.json", "plan.json", "worlds/0/plan.json", "worlds/0/endings.json", "worlds/0/ranks/rank-1.jsonl"}) {
    INFO(name);
    const std::filesystem::path file = std::filesystem::path(out) / name;
    const std::string whole = text_of(file);
    std::filesystem::remove(file);
    REQUIRE(mkfifo(file.c_str(), 0600) == 0);
    CHECK(call({"merge", out}).end == code(5));
    call({"explain", out});
    std::filesystem::remove(file);
    write_text(file, whole);
  }
  CHECK(call({"merge", out}).end == code(0));
}

TEST_CASE("a path that is neither a file nor a pipe is not read, and the error has the whole path") {
  CHECK_THAT(refused({"--waivers", "../"}),
             ContainsSubstring("--waivers: cannot read /") && ContainsSubstring("it is a directory"));
  CHECK(call({"stable", "/dev/zero"}).err == "shardproof: cannot read /dev/zero: it is neither a file nor a pipe\n");
  const Said said = call({"diff", "none.json", "none.json"});
  CHECK_THAT(said.err,
             ContainsSubstring("cannot read /") && ContainsSubstring("/here/none.json: No such file or directory"));
}

TEST_CASE("a report may come through a slow pipe, and a signal ends the wait for it") {
  TemporaryDirectory directory;
  const std::string out = directory / "run", pipe = directory / "pipe";
  REQUIRE(call({"run", "good/stays", "--worker", trouble_program().string(), "--out", out}).end == code(0));
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const std::string report = out + "/report.json", whole = text_of(report);
  const Said file = call({"stable", report});
  CHECK(call({"stable", "/dev/stdin"}, {.prelude = "cat '" + report + "' |"}).out == file.out);

  const base::FileDescriptor reader(::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  base::FileDescriptor writer(::open(pipe.c_str(), O_WRONLY | O_CLOEXEC));
  const auto hand_over = [&](std::string_view part) {
    return ::write(writer.get(), part.data(), part.size()) == static_cast<ssize_t>(part.size()) && eventually([&] {
             int left = 0;
             return ioctl(reader.get(), FIONREAD, &left) == 0 && left == 0;
           });
  };
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"stable", pipe}, {"run", "--worker", trouble_program().string(), "--rerun-failed", pipe}}) {
    const Said ended = call(command, {.meanwhile = [&](Process& process, const auto&) {
                              CHECK(hand_over(whole.substr(0, 100)));
                              process.signal_group(SIGTERM);
                            }});
    CHECK(ended.end == Exit{.signalled = true, .code = SIGTERM});
  }
  const Said slow = call({"stable", pipe}, {.meanwhile = [&](Process&, const auto&) {
                           CHECK(hand_over(whole.substr(0, 100)));
                           CHECK(hand_over(whole.substr(100)));
                           writer = base::FileDescriptor();
                         }});
  CHECK(slow.out == file.out);
}

TEST_CASE("a list is JSON when asked for, else a table") {
  const std::string worker = trouble_program().string();
  const Said table = call({"list", "--worker", worker, "good"});
  CHECK(table.end == code(0));
  CHECK_THAT(table.out,
             ContainsSubstring("good/stays[W=2]") && ContainsSubstring("4 cases") && ContainsSubstring("[quick]"));
  const auto json = nlohmann::json::parse(call({"list", "--worker", worker, "many/rounds[W=2,n=3]", "--json"}).out);
  REQUIRE(json.size() == 1);
  CHECK(json[0].at("id") == "many/rounds[W=2,n=3]");
  CHECK(json[0].at("suite") == "many");
  CHECK(json[0].at("params").at("n") == "3");
  CHECK(json[0].at("world_size") == 2);
  for (const char* key : {"clauses", "tags", "file", "line"}) CHECK(json[0].contains(key));
  const Said sized = call({"list", "--worker", worker, "good", "--ranks", "1,3"});
  CHECK_THAT(sized.out,
             ContainsSubstring("good/alone[W=1]") && ContainsSubstring("2 cases") && !ContainsSubstring("W=2"));
  CHECK_THAT(call({"list", "--worker", worker, "good", "--ranks", "9"}).err,
             ContainsSubstring("no selected case runs on 9 ranks"));
  CHECK_THAT(call({"list", "--worker", worker, "--ranks", "x"}).err,
             ContainsSubstring("--ranks x: a world has 1 to 1024 ranks"));
  CHECK(call({"list", "--worker", worker, "nothing"}).end == code(2));
  CHECK(call({"list", "--worker", worker, "--seeds"}).out == "no case restates a seed test\n");
  CHECK(call({"list", "--worker", worker, "--clauses"}).out == "the worker describes no clause\n");
  CHECK(call({"list", "--worker", worker, "--seeds", "--json"}).out == "[]\n");
  CHECK(call({"list", "--worker", worker, "--clauses", "--json"}).out == "[]\n");
}

TEST_CASE("a worker without faults has no kill matrix") {
  const Said said = call({"faults", "--worker", trouble_program().string()});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("the worker has no faults"));
}
