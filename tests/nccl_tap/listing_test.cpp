#include "harness/trace/nccl_listing.hpp"

#include <sys/wait.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/nccl_tap/calls.hpp"
#include "tests/nccl_tap/temporary.hpp"

using namespace shardproof;
using namespace shardproof::nccl_tap;
using namespace shardproof::nccl_tap::testing;

namespace {

/// How the command ends for these files, and what it prints.
std::pair<int, std::string> read_by_command(const TemporaryDirectory& directory, const std::string& files) {
  const std::filesystem::path output = directory.path() / "output";
  const int status =
      std::system(("cd " + directory.path().string() + " && " READER " " + files + " > output 2>&1").c_str());
  std::ostringstream text;
  text << std::ifstream(output).rdbuf();
  return {WEXITSTATUS(status), text.str()};
}

void write_record(const std::filesystem::path& file, int rank, const std::vector<protocol::CallKind>& kinds) {
  protocol::TapWriter writer(file, {.pid = 100 + rank, .rank = rank, .started_ns = 1, .faults = {}});
  writer.write(record_of(rank, {}).communicators[0]);
  std::int64_t place = 0;
  for (const protocol::CallKind kind : kinds) {
    protocol::Call call = collective(kind, 0, place++);
    writer.enter(call);
  }
}

}  // namespace

TEST_CASE("a record is listed with its process, its communicators and its calls") {
  protocol::TapRecord record = record_of(1, {collective(protocol::CallKind::all_gather, 0, 17, 276)});
  record.library = {.version = 22809, .path = "/lib/libnccl.so.2"};
  record.process.faults = "drop send#1";
  record.communicators[0].name = "mesh";
  protocol::Communicator part = record.communicators[0];
  part.id = 1;
  part.origin = protocol::CallKind::comm_split;
  part.parent = 0;
  part.name.clear();
  part.state = protocol::Communicator::State::ended;
  record.communicators.push_back(part);
  protocol::Call grouped = collective(protocol::CallKind::reduce_scatter, 1, 0);
  grouped.group_depth = 1;
  grouped.left_ns = 0;
  record.calls.push_back(grouped);
  record.begun = 30;
  record.missing = 1;
  CHECK(trace::list(record) ==
        "rank 1: process 101, 30 calls of NCCL 2.28.9 (/lib/libnccl.so.2)\n"
        "  with faults: drop send#1\n"
        "  comm 0 \"mesh\" of 2 ranks, rank 1, by comm_init_rank, alive\n"
        "  comm 1 of 2 ranks, rank 1, by comm_split of comm 0, ended\n"
        "  … 27 earlier calls\n"
        "  all_gather #17 of 276 f32 on comm 0, stream 0\n"
        "    reduce_scatter #0 of 4 f32 on comm 1, stream 0, had not returned\n"
        "  and 1 that the process was still writing\n");
  record = {};
  record.process.pid = 7;
  record.communicators.emplace_back();
  CHECK(trace::list(record) ==
        "process 7: process 7, 0 calls of an NCCL that was not found\n  comm 0, there before the tap, coming\n");
}

TEST_CASE("the command prints records and where they differ, and says so by how it ends") {
  const TemporaryDirectory directory;
  write_record(directory.path() / "a", 0, {protocol::CallKind::all_gather, protocol::CallKind::all_reduce});
  write_record(directory.path() / "b", 1, {protocol::CallKind::all_gather, protocol::CallKind::all_reduce});
  write_record(directory.path() / "c", 1, {protocol::CallKind::all_gather, protocol::CallKind::broadcast});
  const auto [same, both] = read_by_command(directory, "a b");
  CHECK(same == 0);
  CHECK(both == trace::list(protocol::read_tap(directory.path() / "a")) +
                    trace::list(protocol::read_tap(directory.path() / "b")));
  const auto [differ, other] = read_by_command(directory, "a c");
  CHECK(differ == 1);
  CHECK(other.find("\ncollective 1 on comm 0 of 2 ranks differs: rank 0 made all_reduce #1") != std::string::npos);
}

TEST_CASE("the command reads the other records when one cannot be read") {
  const TemporaryDirectory directory;
  write_record(directory.path() / "a", 0, {protocol::CallKind::all_gather});
  write_record(directory.path() / "c", 1, {protocol::CallKind::broadcast});
  std::ofstream(directory.path() / "text") << "no record";
  const auto [end, text] = read_by_command(directory, "a none text c");
  CHECK(end == 2);
  const std::size_t none =
      text.find("\nshardproof-nccl-tap: opening the record of NCCL calls none: No such file or directory\n");
  const std::size_t no_record =
      text.find("\nshardproof-nccl-tap: reading the record of NCCL calls text: it has 9 bytes");
  const std::size_t second = text.find("\nrank 1: process 101"),
                    difference = text.find("\ncollective 0 on comm 0 of 2 ranks differs");
  INFO(text);
  CHECK(text.starts_with("rank 0: process 100"));
  CHECK(none < no_record);
  CHECK(no_record < second);
  CHECK(second < difference);
  CHECK(difference != std::string::npos);
}

TEST_CASE("the command explains itself, and says what it does not understand") {
  const TemporaryDirectory directory;
  const auto [helped, help] = read_by_command(directory, "--help");
  CHECK(helped == 0);
  CHECK(help.find("usage: shardproof-nccl-tap FILE...\n") != std::string::npos);
  CHECK(help.find("Exit codes: 0 the ranks agree; 1 they differ; 2 wrong usage") != std::string::npos);
  CHECK(read_by_command(directory, "-h") == std::pair(0, help));
  const auto [nothing, which] = read_by_command(directory, "");
  CHECK(nothing == 2);
  CHECK(which.starts_with("shardproof-nccl-tap: no records given"));
  const auto [unknown, option] = read_by_command(directory, "--json a");
  CHECK(unknown == 2);
  CHECK(option.starts_with("shardproof-nccl-tap: unknown option --json"));
}
