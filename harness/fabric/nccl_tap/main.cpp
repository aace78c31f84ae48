// shardproof-nccl-tap FILE…: prints records of NCCL calls, and where their ranks differ first. Ends with 1 where they differ, with 2 where nothing
// can be said.
#include <cstdio>
#include <exception>
#include <vector>

#include "harness/trace/nccl_listing.hpp"
#include "harness/trace/nccl_matching.hpp"

int main(int count, char** arguments) {
  using namespace shardproof::nccl_tap;
  if (count < 2) {
    std::fputs("usage: shardproof-nccl-tap FILE…, the records that SHARDPROOF_NCCL_TAP named\n", stderr);
    return 2;
  }
  try {
    std::vector<TapRecord> records;
    for (int index = 1; index < count; ++index) records.push_back(read_tap(arguments[index]));
    for (const TapRecord& record : records) std::fputs(list(record).c_str(), stdout);
    const auto difference = first_difference(records);
    if (difference) std::printf("%s\n", difference->sentence.c_str());
    return difference ? 1 : 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "shardproof-nccl-tap: %s\n", error.what());
    return 2;
  }
}
