// Writes reports for the schema test: one in which nearly everything occurs, and the smallest.
#include <filesystem>
#include <fstream>
#include <iostream>

#include "tests/reports/sample_report.hpp"

int main(int argc, char** argv) {
  using namespace shardproof::reports;
  if (argc != 2) {
    std::cerr << "usage: print_sample_reports DIRECTORY\n";
    return 2;
  }
  const std::filesystem::path directory = argv[1];
  std::filesystem::create_directories(directory);
  std::ofstream rich(directory / "rich.json");
  write_report(rich, testing::sample_report());
  std::ofstream empty(directory / "empty.json");
  write_report(empty, Report{});
  return rich.flush() && empty.flush() ? 0 : 1;
}
