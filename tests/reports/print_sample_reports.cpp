// Writes reports and statements for the schema tests: of each, one in which nearly everything occurs, and the smallest.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "harness/base/json_text.hpp"
#include "reports/statement/statement.hpp"
#include "tests/reports/sample_report.hpp"

namespace {

using namespace shardproof::reports;

bool write(const std::filesystem::path& directory, const char* name, const Report& report) {
  std::ofstream written(directory / "report" / name);
  write_report(written, report);
  std::ofstream stated(directory / "statement" / name);
  stated << shardproof::base::dump_document(to_json(statement_of(report, nullptr))) << "\n";
  return written.flush() && stated.flush();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: print_sample_reports DIRECTORY\n";
    return 2;
  }
  const std::filesystem::path directory = argv[1];
  for (const char* kind : {"report", "statement"}) std::filesystem::create_directories(directory / kind);
  return write(directory, "rich.json", testing::sample_report()) && write(directory, "empty.json", Report{}) ? 0 : 1;
}
