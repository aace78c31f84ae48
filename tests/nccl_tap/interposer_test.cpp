// The tap under engines of all kinds: linked to NCCL, loading it, in Python. Some use the real NCCL, which answers a
// null communicator with ncclInvalidArgument. Where a GPU would be necessary, they use a fake NCCL.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "harness/protocol/nccl_record.hpp"
#include "harness/trace/nccl_matching.hpp"
#include "tests/nccl_tap/temporary.hpp"

using namespace shardproof;
using namespace shardproof::nccl_tap;
using namespace shardproof::nccl_tap::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

/// The output of a command, with its errors.
std::string output_of(const std::string& command) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(("exec 2>&1; " + command).c_str(), "r"), ::pclose);
  REQUIRE(pipe != nullptr);
  std::string output;
  std::array<char, 4096> part;
  while (const std::size_t got = std::fread(part.data(), 1, part.size(), pipe.get())) output.append(part.data(), got);
  return output;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// Where records go, and the environment for them.
struct Place {
  TemporaryDirectory directory;
  std::string records() const { return "SHARDPROOF_NCCL_TAP=" + directory.path().string() + " "; }
  std::string preloaded() const { return records() + "LD_PRELOAD=" TAP_LIBRARY " "; }

  std::vector<protocol::TapRecord> all() const {
    std::vector<protocol::TapRecord> read;
    for (const auto& entry : std::filesystem::directory_iterator(directory.path()))
      read.push_back(protocol::read_tap(entry.path()));
    std::ranges::sort(read, {}, [](const protocol::TapRecord& record) { return record.process.started_ns; });
    return read;
  }
  protocol::TapRecord only() const {
    const std::vector<protocol::TapRecord> records = all();
    REQUIRE(records.size() == 1);
    return records[0];
  }
};

std::vector<std::string> described(const protocol::TapRecord& record) {
  std::vector<std::string> calls;
  calls.reserve(record.calls.size());
  for (const protocol::Call& call : record.calls)
    calls.push_back(protocol::describe(call) + protocol::describe_outcome(call));
  return calls;
}

/// The results that the engine printed, of the calls that are recorded as they are made.
std::vector<std::pair<std::string, int>> answers_in(const std::string& output) {
  std::vector<std::pair<std::string, int>> answers;
  for (const std::string& line : lines_of(output)) {
    const std::size_t space = line.find(' ');
    const std::string name = line.substr(0, space);
    if (name == "comm_get_async_error" || !protocol::call_kind(name == "bcast" ? "broadcast" : name)) continue;
    answers.emplace_back(name == "bcast" ? "broadcast" : name, std::stoi(line.substr(space + 1)));
  }
  return answers;
}

std::vector<std::pair<std::string, int>> answers_in(const protocol::TapRecord& record) {
  std::vector<std::pair<std::string, int>> answers;
  answers.reserve(record.calls.size());
  for (const protocol::Call& call : record.calls)
    answers.emplace_back(protocol::to_string(call.kind), static_cast<int>(call.result));
  return answers;
}

/// The first calls of an engine, whatever NCCL answers.
const std::vector<std::string> first_calls = {
    "all_gather #0 of 276 f32 on no communicator, stream 0",
    "reduce_scatter #0 of 10 bf16 (avg) on no communicator, stream 1",
    "all_reduce #0 of 4 f64 (max) on no communicator, stream 2",
    "broadcast #0 of 7 i32 from root 2 on no communicator, stream 0",
    "broadcast #1 of 8 u8 from root 1 on no communicator, stream 0",
    "reduce #0 of 9 f16 (prod) to root 3 on no communicator, stream 3",
    "all_to_all #0 of 11 u64 on no communicator, stream 3",
    "gather #0 of 12 i8 to root 4 on no communicator, stream 3",
    "scatter #0 of 13 f8e4m3 from root 5 on no communicator, stream 3",
    "group_start #0",
    "send #0 of 14 i64 to 6 on no communicator, stream 3",
    "recv #0 of 15 u32 from 7 on no communicator, stream 3",
    "group_end #0",
    "get_unique_id #0",
    "comm_init_rank #0 as rank 0 of 1 into comm 0",
};

void check_engine(const std::string& output, const std::string& untapped, const Place& place) {
  INFO(output);
  const protocol::TapRecord record = place.only();
  // The engine sees what it would without a tap, its own NCCL included.
  CHECK(output == untapped);
  CHECK(answers_in(output).size() > 25);
  CHECK(answers_in(record) == answers_in(output));
  REQUIRE(record.calls.size() > first_calls.size());
  for (std::size_t i = 0; i < first_calls.size(); ++i) {
    CHECK(protocol::describe(record.calls[i]) == first_calls[i]);
    CHECK(record.calls[i].left_ns >= record.calls[i].entered_ns);
    CHECK(record.calls[i].group_depth == (i >= 10 && i <= 12 ? 1 : 0));
  }
  CHECK(record.calls[0].stream == record.calls[1].stream + 1);
  CHECK(record.calls[2].stream == 0);
  CHECK(record.calls[0].result == protocol::Result::invalid_argument);
  CHECK(record.library.version > 20000);
  CHECK(std::ranges::count(lines_of(output), "mapped " + std::filesystem::canonical(record.library.path).string()) ==
        1);
  CHECK(std::ranges::count_if(lines_of(output), [](const std::string& line) { return line.starts_with("mapped"); }) ==
        1);
}

}  // namespace

TEST_CASE("every call of an engine that is linked to NCCL is recorded as it was made") {
  const Place place;
  check_engine(output_of(place.preloaded() + LINKED_PROGRAM), output_of(LINKED_PROGRAM), place);
}

TEST_CASE("every call of an engine that is loaded for itself is recorded") {
  const std::string host = HOST_PROGRAM, engine = " " LINKED_ENGINE;
  const Place preloaded, loaded;
  check_engine(output_of(preloaded.preloaded() + host + engine), output_of(host + engine), preloaded);
  check_engine(output_of(loaded.records() + host + " " TAP_LIBRARY + engine), output_of(host + engine), loaded);
}

TEST_CASE(
    "every call of an engine that loads NCCL for itself is recorded, and its other look-ups find what they would") {
  const std::string command = HOST_PROGRAM " " LOADING_ENGINE;
  const Place place;
  const std::string output = output_of(place.preloaded() + command);
  CHECK_THAT(output, ContainsSubstring("look-ups right"));
  check_engine(output, output_of(command), place);
}

TEST_CASE("calls from Python are recorded, of NCCL loaded there and of an engine") {
  const std::string library = PYTHON " " ENGINE_SCRIPT " library " NCCL,
                    engine = PYTHON " " ENGINE_SCRIPT " engine " LINKED_ENGINE;
  const Place of_library, of_engine;
  CHECK(output_of(of_library.preloaded() + library) == output_of(library));
  const protocol::TapRecord record = of_library.only();
  CHECK(described(record) ==
        std::vector<std::string>{
            "all_reduce #0 of 77 f32 (avg) on no communicator, stream 0, returned ncclInvalidArgument",
            "all_gather #0 of 78 f64 on no communicator, stream 1, returned ncclInvalidArgument", "get_unique_id #0"});
  check_engine(output_of(of_engine.preloaded() + engine), output_of(engine), of_engine);
}

TEST_CASE("calls of a second copy of NCCL stay with that copy, unrecorded, which is said") {
  const std::string both = PYTHON " " ENGINE_SCRIPT " library " NCCL " " STAND_IN_NCCL;
  const Place place;
  const std::string output = output_of(place.preloaded() + both);
  INFO(output);
  CHECK_THAT(output, ContainsSubstring("all_reduce 4\n") && ContainsSubstring("all_reduce 0\n"));
  CHECK_THAT(output, ContainsSubstring("shardproof: this process has a second copy of NCCL, " STAND_IN_NCCL
                                       "; the tap does not record calls looked up in it"));
  CHECK(place.only().calls.size() == 3);
}

TEST_CASE("faults do to the real NCCL's calls what they say") {
  const Place place;
  const std::string output =
      output_of(place.preloaded() +
                "SHARDPROOF_NCCL_FAULTS='fail all_gather ncclRemoteError; drop broadcast#1; "
                "delay get_unique_id 30ms; fail comm_init_rank#0 ncclSystemError' " LINKED_PROGRAM);
  CHECK_THAT(output, ContainsSubstring("all_gather 6\n") && ContainsSubstring("broadcast 4\n") &&
                         ContainsSubstring("bcast 0\n") && ContainsSubstring("comm_init_rank 2\n") &&
                         ContainsSubstring("get_unique_id 0\n"));
  const protocol::TapRecord record = place.only();
  CHECK(described(record)[0].ends_with(", made to fail, returned ncclRemoteError"));
  CHECK(described(record)[4].ends_with(", dropped"));
  CHECK(described(record)[13] == "get_unique_id #0, delayed by 30 ms");
  CHECK(record.calls[13].left_ns - record.calls[13].entered_ns >= 30'000'000);
  CHECK(record.find(0)->state == protocol::Communicator::State::failed);
}

TEST_CASE("the tap records nothing without a directory for its records, and passes calls on") {
  const std::string untapped = output_of(LINKED_PROGRAM);
  const std::string tapped = "LD_PRELOAD=" TAP_LIBRARY " " LINKED_PROGRAM;
  CHECK(output_of(tapped) == untapped);
  const auto said_once = [&](const std::string& environment, const std::string& what) {
    const std::string output = output_of(environment + tapped);
    INFO(output);
    const std::size_t place = output.find("shardproof: ");
    REQUIRE(place != std::string::npos);
    CHECK(output.find("shardproof: ", place + 1) == std::string::npos);
    CHECK_THAT(output,
               ContainsSubstring(what) && ContainsSubstring("the tap records no NCCL calls and applies no faults"));
    CHECK(answers_in(output) == answers_in(untapped));
  };
  said_once("SHARDPROOF_NCCL_TAP=/proc/none/file ", "creating /proc/none/file: No such file or directory");
  said_once("SHARDPROOF_NCCL_FAULTS='drop all_gather' ", "faults need a record");
  const Place place;
  said_once(place.records() + "SHARDPROOF_NCCL_FAULTS='drop everything' ", "`everything` is not a kind of call");
}

TEST_CASE("the tap exports only dlsym and NCCL's names, and intercepts every call of the installed NCCL") {
  const auto names = [](const std::string& library) {
    std::set<std::string> found;
    for (const std::string& line : lines_of(output_of("nm -D --defined-only " + library))) {
      std::istringstream fields(line);
      std::string address, type, name;
      if (fields >> address >> type >> name) found.insert(name.substr(0, name.find('@')));
    }
    return found;
  };
  const std::set<std::string> tapped = names(TAP_LIBRARY);
  CHECK(tapped.size() > 30);
  for (const std::string& name : tapped) CHECK((name.starts_with("nccl") || name == "dlsym"));
  CHECK_THAT(output_of("readelf -d " TAP_LIBRARY),
             !ContainsSubstring("libnccl") && !ContainsSubstring("libcuda") && !ContainsSubstring("libstdc++"));

  // Functions that only return information.
  const std::set<std::string> left_alone = {"ncclGetVersion",
                                            "ncclGetErrorString",
                                            "ncclGetLastError",
                                            "ncclResetDebugInit",
                                            "ncclResetDebugInitInternal",
                                            "ncclCommCount",
                                            "ncclCommCuDevice",
                                            "ncclCommUserRank",
                                            "ncclTeamWorld",
                                            "ncclTeamLsa",
                                            "ncclTeamRail",
                                            "ncclTeamRankToWorld",
                                            "ncclTeamRankToLsa",
                                            "ncclLsaBarrierCreateRequirement",
                                            "ncclGinBarrierCreateRequirement",
                                            "ncclLLA2ACalcSlots",
                                            "ncclLLA2ACreateRequirement"};
  for (const std::string& name : names(NCCL)) {
    if (name.starts_with("nccl")) CHECK((tapped.contains(name) || left_alone.contains(name)));
  }
}

// -- With an NCCL that goes on ----------------------------------------------------------------------------------------

TEST_CASE("communicators are known by creation, size, rank, parent, key and name, also those that come later") {
  const Place place;
  const std::string output = output_of(place.preloaded() + SCENARIO_PROGRAM " communicators");
  INFO(output);
  const protocol::TapRecord record = place.only();
  CHECK(record.library.path == STAND_IN_NCCL);  // the one that the engine has, and no other
  CHECK(record.library.version == 22801);
  REQUIRE(record.communicators.size() == 8);
  const auto is = [&](int id, protocol::CallKind origin, int size, int rank, int parent, const char* name) {
    const protocol::Communicator& communicator = record.communicators[static_cast<std::size_t>(id)];
    INFO("communicator " << id);
    CHECK((communicator.id == id && communicator.origin == origin));
    CHECK((communicator.size == size && communicator.rank == rank && communicator.parent == parent &&
           communicator.name == name));
    CHECK(communicator.state ==
          (id == 3 ? protocol::Communicator::State::ended : protocol::Communicator::State::alive));
    CHECK(communicator.key != 0);
  };
  is(0, protocol::CallKind::comm_init_rank, 4, 2, -1, "");
  is(1, protocol::CallKind::comm_init_rank, 13, 0, -1, "");
  is(2, protocol::CallKind::comm_init_rank_config, 3, 1, -1, "grouped");
  is(3, protocol::CallKind::comm_split, 2, 1, 0, "");
  is(4, protocol::CallKind::comm_init_rank_config, 5, 3, -1, "background");
  is(5, protocol::CallKind::comm_init_all, 2, 0, -1, "");
  is(6, protocol::CallKind::comm_init_all, 2, 1, -1, "");
  is(7, protocol::CallKind::comm_init_rank, 2, 1, -1, "");
  CHECK(record.communicators[5].key == record.communicators[6].key);
  CHECK(record.communicators[0].key == record.communicators[1].key);  // one unique id, as no engine should
  CHECK(record.communicators[0].key != record.communicators[7].key);

  std::vector<std::string> reductions;
  for (const protocol::Call& call : record.calls) {
    if (call.kind == protocol::CallKind::all_reduce || call.kind == protocol::CallKind::broadcast ||
        call.kind == protocol::CallKind::comm_get_async_error) {
      reductions.push_back(protocol::describe(call) + protocol::describe_outcome(call));
    }
  }
  CHECK(reductions == std::vector<std::string>{
                          "comm_get_async_error #0 on comm 1, returned ncclRemoteError",  // though asked four times
                          "all_reduce #0 of 10 f32 (sum) on comm 0, stream 0",
                          "all_reduce #1 of 11 f32 (sum) on comm 3, stream 0",
                          "all_reduce #2 of 12 f32 (sum) on comm 2, stream 0",
                          "all_reduce #3 of 13 f32 (sum) on comm 4, stream 0",
                          "all_reduce #4 of 14 f32 (sum) on comm 5, stream 0",
                          "all_reduce #5 of 15 f32 (sum) on comm 6, stream 0",
                          "all_reduce #6 of 16 f32 (sum) on comm 7, stream 0",
                          "all_reduce #7 of 20 f32 (premul_sum, factor 0.25) on comm 0, stream 0",
                          "all_reduce #8 of 21 f32 (premul_sum, factor unknown) on comm 0, stream 0",
                          // once, though NCCL called another of its functions for it
                          "broadcast #0 of 22 f32 from root 1 on comm 0, stream 0",
                      });
  CHECK(std::ranges::count(lines_of(output), "broadcast 22 on 0") == 1);
}

TEST_CASE("faults change what reaches NCCL, and the record says how") {
  const auto with = [](const std::string& faults, const Place& place) {
    std::vector<std::string> lines =
        lines_of(output_of("RANK=1 WORLD_SIZE=2 " + place.preloaded() + "SHARDPROOF_NCCL_FAULTS='" + faults +
                           "' " SCENARIO_PROGRAM " order"));
    return lines;
  };
  const auto reached = [](std::vector<std::string> lines) {
    std::erase_if(lines, [](const std::string& line) { return line.starts_with("told"); });
    return lines;
  };
  using Lines = std::vector<std::string>;
  const Lines untouched = {"all_gather 0 on 0",          "all_gather 1 on 0",          "all_gather 2 on 0",
                           "all_gather 3 on 1",          "in group all_reduce 4 on 0", "in group all_reduce 5 on 1",
                           "in group all_reduce 6 on 0", "in group group_end 0 on -1", "all_gather 7 on 0",
                           "comm_abort 0 on 0"};
  const auto moved = [&](std::size_t from, std::size_t to) {
    Lines lines = untouched;
    lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(to), lines[from]);
    lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(from));
    return lines;
  };
  CHECK(reached(with("", Place())) == untouched);
  CHECK(reached(with("drop all_gather rank 0", Place())) == untouched);

  const Place dropped;
  Lines without = untouched;
  without.erase(without.begin() + 1);
  CHECK(reached(with("drop all_gather#1 rank 1", dropped)) == without);
  const protocol::TapRecord record = dropped.only();
  CHECK(record.process.rank == 1);
  CHECK((record.calls[3].fate == protocol::Fate::dropped && record.calls[3].place == -1 && record.calls[4].place == 1));
  const auto difference = trace::first_difference(std::vector{record, [&] {
                                                                const Place other;
                                                                with("", other);
                                                                protocol::TapRecord whole = other.only();
                                                                whole.process.rank = 0;
                                                                return whole;
                                                              }()});
  REQUIRE(difference);
  CHECK(difference->sentence ==
        "collective 1 on comm 0 of 2 ranks differs: rank 1 made all_gather #2 of 2 f32 on comm 0, stream 0, and "
        "rank 0 made all_gather #1 of 1 f32 on comm 0, stream 0");

  // Behind the next one of its communicator, however far that is.
  const Place swapped;
  CHECK(reached(with("swap all_gather#0", swapped)) == moved(0, 2));
  CHECK((swapped.only().calls[2].fate == protocol::Fate::swapped && swapped.only().calls[2].place == 1 &&
         swapped.only().calls[3].place == 0));
  CHECK(reached(with("swap all_gather", Place())) ==
        Lines{"all_gather 1 on 0", "all_gather 0 on 0", "in group all_reduce 4 on 0", "in group all_gather 2 on 0",
              "in group all_reduce 5 on 1", "in group all_gather 3 on 1", "in group all_reduce 6 on 0",
              "in group group_end 0 on -1", "all_gather 7 on 0", "comm_abort 0 on 0"});
  CHECK(reached(with("swap all_reduce#0 on comm 0", Place())) == moved(4, 7));
  // Before the end of its group, and before its communicator ends, if none comes.
  CHECK(reached(with("swap all_reduce#1 on comm 0", Place())) == untouched);
  CHECK(reached(with("swap all_reduce#0 on comm 1", Place())) == moved(5, 7));
  CHECK(reached(with("swap all_gather#4", Place())) == untouched);

  const Place never;
  const Lines held = with("swap all_gather#0 on comm 1; fail all_reduce#1 ncclInternalError", never);
  CHECK(std::ranges::count(held, "all_gather 3 on 1") == 0);
  CHECK(std::ranges::count(held, "told 3") == 1);
  CHECK(described(never.only())[5].ends_with(", held back and never passed on"));
}

TEST_CASE("a stall is on the stream before its call, and the tap reports once where it cannot stall") {
  using Lines = std::vector<std::string>;
  const std::string faults =
      "SHARDPROOF_NCCL_FAULTS='stall all_gather 3ms; stall all_reduce#0 1ms; stall all_reduce 2ms; stall broadcast "
      "1us' ";
  const Place stalled;
  const std::string preloaded = stalled.records() + "LD_PRELOAD=" TAP_LIBRARY ":" STAND_IN_CUDA " ";
  CHECK(lines_of(output_of(preloaded + faults + SCENARIO_PROGRAM " streams 2>&1")) ==
        Lines{"shardproof: SHARDPROOF_NCCL_FAULTS: cannot stall a stream: cuLaunchHostFunc answered 201; the tap "
              "passes the call on unchanged",
              "host function on stream 0, 3 ms at least: yes", "all_gather 1 on 0", "told 0",
              "host function on stream 1000, 3 ms at least: yes", "all_reduce 2 on 0", "told 0", "broadcast 3 on 0",
              "told 0"});
  const Lines calls = described(stalled.only());
  CHECK(calls == Lines{"comm_init_rank #0 as rank 1 of 2 into comm 0",
                       "all_gather #0 of 1 f32 on comm 0, stream 0, its stream stalled for 3 ms",
                       "all_reduce #0 of 2 f32 (sum) on comm 0, stream 1, its stream stalled for 3 ms",
                       "broadcast #0 of 3 f32 from root 0 on comm 0, stream 2"});

  const Place without;
  const Lines lines = lines_of(output_of(without.preloaded() + faults + SCENARIO_PROGRAM " streams 2>&1"));
  CHECK(std::ranges::count(
            lines,
            "shardproof: SHARDPROOF_NCCL_FAULTS: cannot stall a stream: this process has loaded no CUDA driver "
            "(libcuda.so.1) with cuLaunchHostFunc; the tap passes the call on unchanged") == 1);
  CHECK(lines.size() == 7);
  CHECK(described(without.only()).at(1) == "all_gather #0 of 1 f32 on comm 0, stream 0");
}

TEST_CASE("a forked child writes its own record") {
  const Place place;
  output_of(place.preloaded() + SCENARIO_PROGRAM " fork");
  const std::vector<protocol::TapRecord> records = place.all();
  REQUIRE(records.size() == 2);
  CHECK(records[0].process.pid != records[1].process.pid);
  CHECK((records[0].calls.size() == 3 && records[0].calls[2].count == 2));
  CHECK((records[1].calls.size() == 1 && records[1].calls[0].count == 100));
}

TEST_CASE("calls from several threads are all there") {
  const Place place;
  output_of(place.preloaded() + SCENARIO_PROGRAM " threads");
  const protocol::TapRecord record = place.only();
  CHECK(record.begun == 1 + 4 * 501);
  REQUIRE(record.calls.size() == record.begun);
  std::set<std::uint32_t> threads;
  std::array<std::uint64_t, 4> next{};
  for (const protocol::Call& call : record.calls) {
    threads.insert(call.thread);
    if (call.kind == protocol::CallKind::all_gather) CHECK(call.count == next[static_cast<std::size_t>(call.comm)]++);
  }
  CHECK(next == std::array<std::uint64_t, 4>{500, 500, 500, 500});
  CHECK(threads.size() == 5);
}

TEST_CASE("an engine that is killed leaves its last calls") {
  const Place place;
  const std::string output =
      output_of("sh -c 'echo $$; exec env " + place.preloaded() +
                SCENARIO_PROGRAM " endless' | { read pid; read word; echo $word; kill -9 $pid; }");
  INFO(output);
  const protocol::TapRecord record = place.only();
  CHECK(record.begun > 10'000);
  CHECK(record.calls.size() + record.missing == 4096);
  CHECK(record.missing <= 1);
  CHECK(record.calls.back().count == record.calls.front().count + record.calls.size() - 1);
}

TEST_CASE("what one recorded call costs", "[.][cost]") {
  const Place place;
  std::printf("without the tap      %s", output_of(SCENARIO_PROGRAM " cost").c_str());
  std::printf("with, recording none %s", output_of("LD_PRELOAD=" TAP_LIBRARY " " SCENARIO_PROGRAM " cost").c_str());
  std::printf("recording            %s", output_of(place.preloaded() + SCENARIO_PROGRAM " cost").c_str());
  SUCCEED("printed, not judged");
}
