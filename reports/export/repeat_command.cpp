#include "reports/export/repeat_command.hpp"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/export/command_line_words.hpp"
#include "reports/export/terminal.hpp"

namespace shardproof::reports {

namespace {

/// The subject as the user named it, by a path or a name. Without --subject, the worker's own name.
std::string subject_of(const Report& report) {
  const std::vector<std::string> words =
      words_given(report.head.argv, std::array<std::string_view, 1>{"--subject"}, {});
  if (words.empty()) return report.head.subject;
  const std::string_view last = words.back();
  return std::string(last.starts_with("--subject=") ? last.substr(last.find('=') + 1) : last);
}

/// The same command plays a scenario again. It does not need another output directory.
std::string play_again(const std::vector<std::string>& argv) {
  std::string command;
  bool is_option = true;
  for (std::size_t i = 0; i < argv.size(); ++i) {
    const std::string& word = argv[i];
    is_option = is_option && word != end_of_options;
    if (is_option && word == "--out") ++i;
    else if (!is_option || (word != "--overwrite" && !word.starts_with("--out=")))
      command += fmt::format("{}{}", command.empty() ? "" : " ", shell_word(word));
  }
  return printable_line(command);
}

/// Adds the given words of `options`, `flags` and the device's options to `command`, as the user wrote them.
std::string with_options(std::string command, const std::vector<std::string>& argv,
                         std::vector<std::string_view> options, std::vector<std::string_view> flags = {}) {
  options.emplace_back("--device");
  options.insert(options.end(), std::begin(gpu_options), std::end(gpu_options));
  flags.push_back(share_gpus_flag);
  for (const std::string& word : words_given(argv, options, flags)) command += fmt::format(" {}", shell_word(word));
  return printable_line(command);
}

std::string program(const std::vector<std::string>& argv) {
  return argv.empty() ? "shardproof" : shell_word(argv.front());
}

}  // namespace

std::string repeat_command(const CaseResult& result, const Report& report, bool with_waivers) {
  const auto& argv = report.head.argv;
  if (argv.size() > 1 && argv[1] == "play") return play_again(argv);
  std::vector<std::string_view> options{"--worker",     "--subject",     "--fabric",       "--fault",
                                        "--timeout",    "--nccl-faults", "--scenario",     "--rank-wrapper",
                                        "--wrap-ranks", "--launcher",    "--join-timeout", "--host-silence"};
  if (with_waivers) options.emplace_back("--waivers");
  // A command for one size.
  const auto launcher = words_given(argv, std::array<std::string_view, 1>{"--launcher"}, {});
  if (!launcher.empty() && launcher.back().find("{ranks}") == std::string::npos) options.emplace_back("--ranks");
  // The option may be meant for other cases of the run.
  if (report.worlds.at(static_cast<std::size_t>(result.world)).fabric == protocol::thread_fabric)
    options.emplace_back("--scheduler");
  return with_options(fmt::format("{} run {} --seed {}", program(argv), shell_word(result.info.id), report.head.seed),
                      argv, std::move(options), {"--nccl-tap"});
}

std::string scenario_command(const std::string& file, const CaseResult& result, const Report& report) {
  const auto& argv = report.head.argv;
  const std::string play =
      fmt::format("{} play {} --ranks {}", program(argv), shell_word(file), result.info.world_size);
  return with_options(play, argv, {"--worker", "--subject", "--fault", "--timeout"});
}

std::string waived_failure_command(const CaseResult& result, const Report& report) {
  const auto& shown_by = report.head.waivers.at(static_cast<std::size_t>(result.waiver)).shown_by;
  if (!shown_by) return repeat_command(result, report, false);
  const auto& argv = report.head.argv;
  std::string command = fmt::format("{} play {}", program(argv), shell_word(shown_by->scenario));
  if (shown_by->ranks) command += fmt::format(" --ranks {}", *shown_by->ranks);
  if (!shown_by->other_subject)
    return with_options(std::move(command), argv, {"--worker", "--subject", "--fault", "--timeout"});
  // A fault is written after its subject.
  const std::string fault = report.head.fault.empty() ? std::string() : "+" + report.head.fault;
  command += fmt::format(" --subject {}",
                         shell_word(fmt::format("{},{}{}", *shown_by->other_subject, subject_of(report), fault)));
  return with_options(std::move(command), argv, {"--worker", "--timeout"});
}

}  // namespace shardproof::reports
