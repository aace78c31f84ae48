#include "harness/runner/command_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "harness/base/closest.hpp"
#include "harness/control/control_plane.hpp"
#include "harness/protocol/subject_name.hpp"

namespace shardproof::runner {

namespace {

// The value of `--name value` or `--name=value`; moves `at` to the last argument used.
std::optional<std::string_view> value_of(std::string_view name, std::span<const std::string_view> arguments,
                                         std::size_t& at) {
  const std::string_view argument = arguments[at];
  if (argument == name) {
    if (at + 1 == arguments.size()) throw UsageError(fmt::format("{} needs a value", name));
    return arguments[++at];
  }
  if (argument.starts_with(name) && argument.size() > name.size() && argument[name.size()] == '=')
    return argument.substr(name.size() + 1);
  return std::nullopt;
}

std::uint64_t number_of(std::string_view option, std::string_view text, std::string_view what) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size())
    throw UsageError(fmt::format("{} {}: {} is a number from 0 to 2^64 - 1", option, text, what));
  return number;
}

std::uint64_t seed_of(std::string_view option, std::string_view text) { return number_of(option, text, "a seed"); }

// Splits `1,2,4`. An empty text is an empty list.
std::vector<std::string> listed(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::vector<int> ranks_of(std::string_view text) {
  std::vector<int> ranks;
  for (const std::string& part : listed(text)) {
    const std::uint64_t number = number_of("--ranks", part, "how many ranks play a scenario");
    if (number < 1 || number > control::ControlPlane::max_world_size)
      throw UsageError(
          fmt::format("--ranks {}: a world has 1 to {} ranks", part, control::ControlPlane::max_world_size));
    ranks.push_back(static_cast<int>(number));
  }
  return ranks;
}

// The other arguments for making or shrinking scenarios. Returns false for an unknown argument.
bool take_asked(ScenariosAsked& asked, std::span<const std::string_view> arguments, std::size_t& at) {
  if (const auto count = value_of("--count", arguments, at))
    asked.count = number_of("--count", *count, "how many scenarios");
  else if (const auto ranks = value_of("--ranks", arguments, at)) asked.ranks = ranks_of(*ranks);
  else if (const auto engine = value_of("--engine", arguments, at)) asked.engine = *engine;
  else if (const auto features = value_of("--features", arguments, at)) asked.features = listed(*features);
  else if (const auto left_out = value_of("--without", arguments, at)) asked.left_out = listed(*left_out);
  else return false;
  return true;
}

CommandLine parse_scenarios_asked(std::span<const std::string_view> arguments) {
  CommandLine line;
  for (std::size_t at = 0; at < arguments.size(); ++at) {
    if (const auto seed = value_of("--make-scenario", arguments, at)) {
      line.mode = CommandLine::Mode::make_scenario;
      line.asked.first_seed = seed_of("--make-scenario", *seed);
    } else if (const auto scenario = value_of("--shrink-scenario", arguments, at)) {
      line.mode = CommandLine::Mode::shrink_scenario;
      line.scenario = *scenario;
    } else if (!take_asked(line.asked, arguments, at)) {
      throw UsageError(fmt::format("{} does not go with {}", arguments[at], arguments.front()));
    }
  }
  if (line.asked.ranks.empty()) throw UsageError(fmt::format("{} needs --ranks", arguments.front()));
  if (line.mode == CommandLine::Mode::shrink_scenario && line.asked.ranks.size() > 1)
    throw UsageError("--shrink-scenario needs exactly one number in --ranks");
  return line;
}

bool has_option(std::span<const std::string_view> arguments, std::string_view name) {
  return std::ranges::any_of(arguments, [name](std::string_view argument) {
    return argument.starts_with(name) && (argument.size() == name.size() || argument[name.size()] == '=');
  });
}

/// Whether the program itself answers these arguments. All others are for the launcher.
bool are_own(std::span<const std::string_view> arguments) {
  constexpr std::array own{"--help", "-h", "--list-json", "--warm", "--check-scenario", "--list-gpus", "--run-dir"};
  return std::ranges::any_of(own, [&](std::string_view name) { return has_option(arguments, name); });
}

void require_alone(const CommandLine& line, bool has_more) {
  const bool is_warm = line.mode == CommandLine::Mode::warm;
  if (is_warm && has_more)
    throw UsageError("--warm takes --subject and nothing else: it becomes the ranks that its launcher asks for");
  if (!is_warm && (has_more || !line.subject.empty()))
    throw UsageError("--list-json takes nothing but --subject with the path of a shared object: it lists all cases");
}

}  // namespace

CommandLine parse_command_line(std::span<const std::string_view> arguments) {
  const bool asks_for_scenarios = !arguments.empty() && (arguments.front().starts_with("--make-scenario") ||
                                                         arguments.front().starts_with("--shrink-scenario"));
  if (asks_for_scenarios) return parse_scenarios_asked(arguments);
  CommandLine line;
  if (!are_own(arguments)) return line;
  std::string_view only_foreign;  // an argument that needs --run-dir
  bool has_subject = false;
  for (std::size_t at = 0; at < arguments.size(); ++at) {
    const std::string_view argument = arguments[at];
    if (argument == "--help" || argument == "-h") {
      line.mode = CommandLine::Mode::help;
      return line;
    }
    if (argument == "--list-json") {
      line.mode = CommandLine::Mode::list;
    } else if (argument == "--warm") {
      line.mode = CommandLine::Mode::warm;
    } else if (const auto scenario = value_of("--check-scenario", arguments, at)) {
      line.mode = CommandLine::Mode::check_scenario;
      line.scenario = *scenario;
      const bool has_ranks = at + 1 < arguments.size();
      if (has_ranks) {
        const auto ranks = value_of("--ranks", arguments, ++at);
        if (ranks) line.asked.ranks = ranks_of(*ranks);
      }
      if (!arguments.front().starts_with("--check-scenario") || at + 1 < arguments.size() ||
          (has_ranks && line.asked.ranks.size() != 1))
        throw UsageError(
            "--check-scenario takes a document, and may take --ranks with one number of ranks; it takes nothing else");
    } else if (const auto backend = value_of("--list-gpus", arguments, at)) {
      if (arguments.size() > 2) throw UsageError("--list-gpus takes the backend and nothing else");
      line.mode = CommandLine::Mode::list_gpus;
      line.backend = *backend;
    } else if (const auto directory = value_of("--run-dir", arguments, at)) {
      if (directory->empty()) throw UsageError("--run-dir needs a directory");
      line.mode = CommandLine::Mode::foreign;
      line.run_directory = *directory;
    } else if (const auto seed = value_of("--seed", arguments, at)) {
      line.seed = seed_of("--seed", *seed);
      only_foreign = "--seed";
    } else if (const auto subject = value_of("--subject", arguments, at)) {
      if (protocol::is_shared_object(*subject)) line.subject_library = std::filesystem::absolute(*subject);
      else line.subject = *subject;
      has_subject = true;
    } else if (argument.starts_with("-")) {
      const std::string_view name = argument.substr(std::min(argument.find_first_not_of('-'), argument.size()));
      const std::string near =
          base::closest({"help", "list-json", "warm", "check-scenario", "list-gpus", "run-dir", "seed", "subject"},
                        name.substr(0, name.find('=')));
      const std::string more = line.mode != CommandLine::Mode::foreign
                                   ? ""
                                   : "; with --run-dir, a program takes --seed, --subject and filters; `shardproof run "
                                     "--launcher` has more options";
      throw UsageError(fmt::format("unknown option {}{}", argument, near.empty() ? more : ", closest is --" + near));
    } else {
      line.filters.emplace_back(argument);
      only_foreign = argument;
    }
  }
  if (line.mode == CommandLine::Mode::warm || line.mode == CommandLine::Mode::list) {
    require_alone(line, !line.filters.empty() || !only_foreign.empty());
    return line;
  }
  if (has_subject && only_foreign.empty()) only_foreign = "--subject";
  if (!only_foreign.empty() && line.mode != CommandLine::Mode::foreign)
    throw UsageError(fmt::format("{} does not go with {}", only_foreign, arguments.front()));
  return line;
}

std::string usage(std::string_view program) {
  return fmt::format(
      "This program has test cases that run on several ranks at once. The launcher `shardproof` starts the ranks:\n"
      "\n"
      "  {0} [option…] [filter…]                       runs its cases on this machine, by the next command\n"
      "  shardproof run --worker {0} [filter…]         runs its cases; `shardproof run --help` lists the options\n"
      "  shardproof list --worker {0}                  lists its cases\n"
      "\n"
      "The program takes the launcher from SHARDPROOF_LAUNCHER, else from where CMake found it, else from PATH.\n"
      "\n"
      "Under a launcher that sets rank and size itself (torchrun, mpirun, srun), every rank runs\n"
      "\n"
      "  {0} --run-dir DIR [filter…] [--seed N] [--subject NAME or ./LIBRARY.so]\n"
      "\n"
      "with one fresh DIR that all ranks see; then `shardproof merge DIR` writes DIR/report.json. A filter is a suite, "
      "an id, a glob over ids,\n"
      "or a [tag].\n"
      "\n"
      "  {0} --list-json [--subject ./LIBRARY.so]      the cases as JSON, for launchers\n"
      "  {0} --warm [--subject NAME or ./LIBRARY.so]   stays, and becomes ranks on request, for launchers\n"
      "  {0} --check-scenario FILE [--ranks N]         how many ranks can play a document (N can), for launchers\n"
      "  {0} --make-scenario SEED --ranks N,…          random documents as JSON, one in a line, for launchers: "
      "of --count seeds, for\n"
      "                                                the kind --engine, for subjects that claim "
      "these --features, --without some of\n"
      "                                                them, or other ingredients\n"
      "  {0} --shrink-scenario FILE --ranks N          smaller documents than one, likewise\n"
      "  {0} --list-gpus BACKEND                       the GPUs that a backend reaches as JSON, for launchers\n",
      program);
}

}  // namespace shardproof::runner
