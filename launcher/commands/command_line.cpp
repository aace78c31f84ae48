#include "launcher/commands/command_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "harness/base/closest.hpp"
#include "launcher/commands/commands.hpp"
#include "launcher/commands/help_formatter.hpp"
#include "launcher/commands/option_declarations.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "reports/export/command_line_words.hpp"

namespace shardproof::launcher {
namespace {

constexpr char program_summary[] =
    "Runs tests on many ranks at once, and a conformance suite for sharded-data-parallel engines.\n"
    "\n"
    "Examples:\n"
    "    shardproof run                               run the conformance suite on the reference engine\n"
    "    shardproof run --worker ./my_tests           run the tests of your own program\n"
    "    shardproof explain shardproof-out/latest     why worlds ended early and why cases failed\n"
    "    shardproof run --help                        the options of a command\n";

constexpr char program_footer[] =
    "Exit codes:\n"
    "    0  The command succeeded.\n"
    "    2  The command line is wrong, or output cannot be written.\n"
    "\n"
    "The help of each command explains its other exit codes.";

/// CLI11 takes an argument in brackets for a list and strips them: `[tag]` would not arrive. So filters are what it
/// leaves over.
void declare(CLI::App& app, Subcommand& subcommand) {
  const HelpText& text = subcommand.help();
  CLI::App& command = *app.add_subcommand(text.name, fmt::format("{}\n\nExamples:\n{}", text.summary, text.examples));
  command.allow_extras();
  command.footer(text.footer);
  if (text.is_internal) command.group("");  // CLI11 hides it
  const std::string arguments = *text.arguments == '\0' ? "" : fmt::format(" {}", text.arguments);
  command.formatter(std::make_shared<HelpFormatter>("[OPTIONS]" + arguments));
  OptionDeclarations options(command);
  subcommand.declare(options);
}

/// The names for the user: without internal commands.
std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); }))
    names.push_back(command->get_name());
  return names;
}

/// `, closest is --seed`. Empty: no option of the command is close.
std::string near_option(const CLI::App& command, std::string_view given) {
  std::set<std::string> names;
  for (const CLI::Option* option : command.get_options())
    names.insert(option->get_lnames().begin(), option->get_lnames().end());
  given.remove_prefix(std::min(given.find_first_not_of('-'), given.size()));
  const std::string near = base::closest(names, given.substr(0, given.find('=')));
  return near.empty() ? std::string() : fmt::format(", closest is --{}", near);
}

/// For a word of a command that was given without quotes: `--launcher mpirun -n 2`. Empty for any other word.
std::string unquoted_command(const CLI::App& command, std::string_view given, int argc, const char* const* argv) {
  for (int at = 2; at + 1 < argc; ++at) {
    const CLI::Option* const option = command.get_option_no_throw(argv[at - 1]);
    if (argv[at + 1] == given && option != nullptr && option->get_option_text() == "COMMAND")
      return fmt::format(": write the whole command of {0} as one word, in quotes: {0} '{1} {2} …'", argv[at - 1],
                         argv[at], given);
  }
  return {};
}

/// The words of a command that are neither options nor their values. CLI11 keeps `--` among them.
Arguments arguments_of(const CLI::App& command) {
  std::vector<std::string> words = command.remaining();
  const auto end = std::ranges::find(words, reports::end_of_options);
  if (end != words.end()) words.erase(end);
  return {.command = command.get_name(), .words = std::move(words)};
}

/// Reads the options of the command that the arguments name, or of `app` where they name no command. A command is
/// parsed by itself: as a part of `app`, CLI11 would give `app` the words after `--`.
const CLI::App& parse(CLI::App& app, int argc, const char* const* argv) {
  const std::vector<std::string> known = names_of_commands(app);
  const bool is_named =
      argc > 1 && !app.get_subcommands([&](const CLI::App* one) { return one->get_name() == argv[1]; }).empty();
  if (argc > 1 && *argv[1] != '-' && !is_named)
    throw CommandError(usage, base::unknown_name("command", argv[1], known));
  CLI::App& command = is_named ? *app.get_subcommand(argv[1]) : app;
  const std::string help = fmt::format("`shardproof {}--help`", is_named ? command.get_name() + " " : "");
  try {
    if (is_named) command.parse(argc - 1, argv + 1);
    else app.parse(argc, argv);
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string text = error.what();
    throw CommandError(usage, fmt::format("{} needs one value ({} explains it)", text.substr(0, text.find(':')), help));
  } catch (const CLI::CallForHelp&) {
    print_output(is_named ? command.help(app.get_name()) : app.help());
    throw;
  } catch (const CLI::Success&) {
    throw;  // the version was asked for
  } catch (const CLI::ParseError& error) {
    throw CommandError(usage, fmt::format("{} ({} lists the options)", error.what(), help));
  }
  for (const std::string& left : command.remaining()) {
    if (left == reports::end_of_options) break;
    if (!left.starts_with('-')) continue;
    const std::string unquoted = unquoted_command(command, left, argc, argv);
    throw CommandError(usage, fmt::format("unknown option {}{} ({} lists them)", left,
                                          unquoted.empty() ? near_option(command, left) : unquoted, help));
  }
  if (!is_named)
    throw CommandError(
        usage, fmt::format("which command? There are {} (`shardproof --help` explains them)", fmt::join(known, ", ")));
  return command;
}

/// The code after this takes an empty text for an option that was not given. Options with their own message have
/// refused it before.
void refuse_empty_values(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (std::ranges::find(option->results(), "") == option->results().end()) continue;
    throw CommandError(usage, fmt::format("{} '': {} cannot be empty (`shardproof {} --help` explains it)",
                                          option->get_name(), option->get_option_text(), command.get_name()));
  }
}

/// The chosen one of `subcommands`. Nullptr: help or the version has been printed.
Subcommand* choose(std::span<Subcommand* const> subcommands, int argc, const char* const* argv) {
  CLI::App app;
  declare_program(app, subcommands);
  try {
    const CLI::App& command = parse(app, argc, argv);
    Subcommand* const chosen = *std::ranges::find(subcommands, command.get_name(),
                                                  [](const Subcommand* one) { return std::string(one->help().name); });
    chosen->convert(arguments_of(command));
    refuse_empty_values(command);
    return chosen;
  } catch (const CLI::CallForVersion&) {
    print_output(app.version() + "\n");
  } catch (const CLI::CallForHelp&) {
    // CLI11 has printed it.
  }
  return nullptr;
}

}  // namespace

void declare_program(CLI::App& app, std::span<Subcommand* const> subcommands) {
  app.name("shardproof");
  app.description(program_summary);
  app.set_version_flag("--version", SHARDPROOF_VERSION, "Print the version.");
  app.require_subcommand(0, 1);
  app.allow_extras();
  app.footer(program_footer);
  app.formatter(std::make_shared<HelpFormatter>("COMMAND [OPTIONS]"));
  OptionDeclarations(app).help("Options");
  for (Subcommand* const subcommand : subcommands) declare(app, *subcommand);
}

std::unique_ptr<Subcommand> parse_command_line(int argc, const char* const* argv) {
  std::vector<std::unique_ptr<Subcommand>> commands = make_commands();
  std::vector<Subcommand*> all;
  for (const auto& command : commands) all.push_back(command.get());
  const Subcommand* const chosen = choose(all, argc, argv);
  if (chosen == nullptr) return nullptr;
  return std::move(*std::ranges::find(commands, chosen, [](const auto& command) { return command.get(); }));
}

void parse_options(Subcommand& command, const std::vector<std::string>& argv) {
  std::vector<const char*> words;
  std::ranges::transform(argv, std::back_inserter(words), [](const std::string& word) { return word.c_str(); });
  choose(std::array{&command}, static_cast<int>(words.size()), words.data());
}

}  // namespace shardproof::launcher
