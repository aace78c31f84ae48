// shardproof-nccl-tap FILE…: prints records of NCCL calls, and the first call in which their ranks differ.
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "harness/trace/nccl_listing.hpp"
#include "harness/trace/nccl_matching.hpp"

namespace {

using namespace shardproof;

constexpr char help[] =
    "Prints records of NCCL calls, and the first call in which their ranks differ.\n"
    "usage: shardproof-nccl-tap FILE...\n"
    "\n"
    "FILE: a record of the tap, made with SHARDPROOF_NCCL_TAP (calls/nccl-PID.tap) or `shardproof run --nccl-tap`\n"
    "(RUN/worlds/K/nccl/rank-N.tap). Give the files of the processes of one job, each once. A process may still be\n"
    "writing its file.\n"
    "\n"
    "Exit codes: 0 the ranks agree; 1 they differ; 2 wrong usage, or an unreadable file (the other files are shown).\n";

bool is_option(std::string_view argument) { return argument.starts_with('-'); }

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> given(arguments + 1, arguments + count);
  if (given.size() == 1 && (given[0] == "--help" || given[0] == "-h")) {
    std::fputs(help, stdout);
    return 0;
  }
  for (const std::string& argument : given) {
    if (!is_option(argument)) continue;
    std::fprintf(stderr,
                 "shardproof-nccl-tap: unknown option %s (`shardproof-nccl-tap --help` explains it; a file: ./%s)\n",
                 argument.c_str(), argument.c_str());
    return 2;
  }
  if (given.empty()) {
    std::fputs(
        "shardproof-nccl-tap: no records given: shardproof-nccl-tap FILE... (`shardproof-nccl-tap --help` explains "
        "it)\n",
        stderr);
    return 2;
  }
  std::vector<protocol::TapRecord> records;
  for (const std::string& file : given) {
    try {
      const protocol::TapRecord& record = records.emplace_back(protocol::read_tap(file));
      std::fputs(trace::list(record).c_str(), stdout);
    } catch (const std::exception& error) {
      std::fflush(stdout);  // keeps the order of the files where standard output and standard error go to one place
      std::fprintf(stderr, "shardproof-nccl-tap: %s\n", error.what());
    }
  }
  const auto difference = trace::first_difference(records);
  if (difference) std::printf("%s\n", difference->sentence.c_str());
  return records.size() < given.size() ? 2 : difference ? 1 : 0;
}
