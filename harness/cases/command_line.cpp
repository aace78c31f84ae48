#include "harness/cases/command_line.hpp"

#include <fmt/format.h>

#include <charconv>

namespace shardproof {

namespace {

// The value of `--name value` or `--name=value`; moves `at` to the last argument used.
std::optional<std::string_view> value_of(std::string_view name, std::span<const std::string_view> arguments, std::size_t& at) {
  const std::string_view argument = arguments[at];
  if (argument == name) {
    if (at + 1 == arguments.size()) throw UsageError(fmt::format("{} needs a value", name));
    return arguments[++at];
  }
  if (argument.starts_with(name) && argument.size() > name.size() && argument[name.size()] == '=') return argument.substr(name.size() + 1);
  return std::nullopt;
}

std::uint64_t seed_of(std::string_view text) {
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    throw UsageError(fmt::format("--seed {}: a seed is a number from 0 to 2^64 - 1", text));
  }
  return seed;
}

}  // namespace

CommandLine parse_command_line(std::span<const std::string_view> arguments, std::string_view program) {
  CommandLine line;
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
      if (arguments.size() > 2) throw UsageError("--check-scenario stands alone, with the document");
      line.mode = CommandLine::Mode::check_scenario;
      line.scenario = *scenario;
    } else if (const auto backend = value_of("--list-gpus", arguments, at)) {
      if (arguments.size() > 2) throw UsageError("--list-gpus stands alone, with the backend");
      line.mode = CommandLine::Mode::list_gpus;
      line.backend = *backend;
    } else if (const auto directory = value_of("--run-dir", arguments, at)) {
      if (directory->empty()) throw UsageError("--run-dir needs a directory");
      line.mode = CommandLine::Mode::foreign;
      line.run_directory = *directory;
    } else if (const auto seed = value_of("--seed", arguments, at)) {
      line.seed = seed_of(*seed);
      only_foreign = "--seed";
    } else if (const auto subject = value_of("--subject", arguments, at)) {
      const bool is_path = subject->find('/') != std::string_view::npos || subject->ends_with(".so");
      if (is_path) line.subject_library = std::filesystem::absolute(*subject);
      else line.subject = *subject;
      has_subject = true;
    } else if (argument.starts_with("-")) {
      throw UsageError(fmt::format("unknown option {}", argument));
    } else {
      line.filters.emplace_back(argument);
      only_foreign = argument;
    }
  }
  if (line.mode == CommandLine::Mode::warm) {
    const bool is_alone = has_subject && line.filters.empty() && only_foreign.empty();
    if (!is_alone) throw UsageError("--warm stands alone, with --subject: it becomes the ranks that its launcher asks for");
    return line;
  }
  if (line.mode == CommandLine::Mode::list) {
    const bool is_alone = line.filters.empty() && only_foreign.empty() && line.subject.empty();
    if (!is_alone) throw UsageError("--list-json stands alone, or with --subject and the path of a shared object: it lists all cases");
    return line;
  }
  if (has_subject && only_foreign.empty()) only_foreign = "--subject";
  if (!only_foreign.empty() && line.mode != CommandLine::Mode::foreign) {
    std::string all;
    for (const std::string_view argument : arguments) all += fmt::format(" '{}'", argument);
    throw UsageError(
        fmt::format("this program does not start ranks itself: shardproof run --worker '{}'{} does (a rank under torchrun, mpirun "
                    "or srun takes {} together with --run-dir DIR)",
                    program, all, only_foreign));
  }
  return line;
}

std::string usage(std::string_view program) {
  return fmt::format(R"(This program holds test cases that run on several ranks at once. It does not start ranks itself; a launcher does:

  shardproof run --worker {0} [filter…]         run its cases, on this machine
  shardproof list --worker {0}                  what cases there are

Under a launcher that sets rank and size itself (torchrun, mpirun, srun), every rank runs

  {0} --run-dir DIR [filter…] [--seed N] [--subject NAME or ./LIBRARY.so]

with one fresh DIR that all ranks see; then `shardproof merge DIR` writes DIR/report.json. A filter is a suite, an id, a glob over ids,
or a [tag].

  {0} --list-json [--subject ./LIBRARY.so]      the cases as JSON, for launchers
  {0} --warm --subject NAME or ./LIBRARY.so     stays, and becomes ranks when it is asked to, for launchers
  {0} --check-scenario FILE                     whether a document can be played, for launchers
  {0} --list-gpus BACKEND                       the GPUs that a backend reaches as JSON, for launchers
)",
                     program);
}

}  // namespace shardproof
