// Writes reports with their exports for tests by other programs: ordinary, retried, empty and hostile ones.
#include <filesystem>
#include <fstream>
#include <iostream>

#include "reports/export/exporter.hpp"
#include "tests/reports/hostile_report.hpp"

namespace {

using namespace shardproof::reports;

bool print(const std::filesystem::path& directory, const Report& report) {
  std::filesystem::create_directories(directory);
  std::ofstream json(directory / "report.json");
  write_report(json, report);
  bool is_good = json.flush().good();
  for (const Exporter& exporter : exporters()) {
    std::ofstream out(directory / exporter.example, std::ios::binary);
    out << exporter.text(report, {});
    is_good = is_good && out.flush().good();
  }
  return is_good;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: print_sample_exports DIRECTORY\n";
    return 2;
  }
  const std::filesystem::path directory = argv[1];
  bool is_good = print(directory / "sample", testing::sample_report()) &&
                 print(directory / "retried", testing::retried_report()) && print(directory / "empty", Report{}) &&
                 print(directory / "many", testing::failures_report(1000));
  for (int seed = 0; seed < 100; ++seed)
    is_good = is_good && print(directory / ("hostile-" + std::to_string(seed)), testing::hostile_report(seed));
  return is_good ? 0 : 1;
}
