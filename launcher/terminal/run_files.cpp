#include "launcher/terminal/run_files.hpp"

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "launcher/files/claimed_directory.hpp"
#include "launcher/files/small_file.hpp"

namespace shardproof::launcher {

void show_files_of(reports::TextStyle& style, const protocol::RunDirectory& run) {
  style.run_directory = (relative_to_current(run.root) / "").string();
  style.scenarios = [run](const reports::CaseResult& result, int world) {
    std::vector<std::string> files;
    for (int play = 1;; ++play) {
      const auto file = run.world(world).scenario(result.info.id, play);
      std::error_code ignored;  // an error means that it does not exist
      if (!std::filesystem::exists(file, ignored)) return files;
      files.push_back(relative_to_current(file).string());
    }
  };
  style.stacks = [run](int world, int rank) {
    const auto file = run.world(world).stacks(rank);
    std::error_code ignored;  // an error means that it does not exist
    if (!std::filesystem::is_regular_file(std::filesystem::symlink_status(file, ignored))) return std::string();
    const std::string line = first_line(file);
    if (line.starts_with("no stacks: ")) return line;
    return "stacks: " + relative_to_current(file).string();
  };
  style.printed = [run](const reports::CaseResult& result, int number, int rank) {
    const protocol::WorldDirectory world = run.world(number);
    std::vector<reports::PrintedText> printed;
    const auto add = [&](const std::filesystem::path& kept, const std::filesystem::path& log) {
      if (std::string text = last_words(kept, 1); !text.empty())
        printed.push_back({.text = std::move(text), .log = relative_to_current(log).string()});
    };
    add(world.case_output(result.info.id, rank), world.standard_output(rank));
    add(world.case_errors(result.info.id, rank), world.standard_error(rank));
    return printed;
  };
  style.crash = [run](int world, int rank) { return evidence_text(run.world(world).crash(rank)); };
}

}  // namespace shardproof::launcher
