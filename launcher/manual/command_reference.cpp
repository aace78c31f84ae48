#include "launcher/manual/command_reference.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>

#include "launcher/commands/command_line.hpp"
#include "launcher/commands/commands.hpp"
#include "launcher/commands/option_declarations.hpp"

namespace shardproof::launcher {
namespace {

/// The names of values in the help that mean a file, a directory or a command.
constexpr std::array<std::pair<std::string_view, ValueKind>, 5> kinds_of_names{{
    {"FILE", ValueKind::file},
    {"REPORT", ValueKind::file},
    {"PROGRAM", ValueKind::file},
    {"DIRECTORY", ValueKind::directory},
    {"COMMAND", ValueKind::command},
}};

ValueKind kind_of(const CLI::Option& option, const OptionReference& reference) {
  if (option.get_items_expected_max() == 0) return ValueKind::none;
  if (!reference.choices.empty()) return ValueKind::choice;
  const auto named =
      std::ranges::find(kinds_of_names, reference.value_name, [](const auto& entry) { return entry.first; });
  return named == kinds_of_names.end() ? ValueKind::word : named->second;
}

OptionReference describe(const CLI::Option& option) {
  OptionReference reference;
  for (const std::string& name : option.get_snames()) reference.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) reference.names.push_back("--" + name);
  reference.text = option.get_description();
  if (option.get_positional()) {
    reference.names = {CLI::detail::to_lower(option.get_name(true))};
    reference.kind = ValueKind::file;
    return reference;
  }
  reference.group = option.get_group();
  reference.choices = choices_of(option);
  reference.value_name = CLI::detail::trim_copy(option.get_option_text());
  reference.kind = kind_of(option, reference);
  reference.is_list = option.get_expected_max() > 1;
  return reference;
}

/// The description in `app` has the summary and the examples, with a heading between them.
CommandReference describe(const CLI::App& app) {
  constexpr std::string_view heading = "\n\nExamples:\n";
  CommandReference reference;
  const std::string text = app.get_description();
  const std::size_t end = std::min(text.find(heading), text.size());
  reference.summary = text.substr(0, end);
  if (end < text.size()) reference.examples = text.substr(end + heading.size());
  reference.footer = app.get_footer();
  const auto add = [&](std::vector<OptionReference>& references, const auto& belongs) {
    for (const CLI::Option* option : app.get_options(belongs)) references.push_back(describe(*option));
  };
  add(reference.declared_arguments, [](const CLI::Option* option) { return option->get_positional(); });
  for (const std::string& group : app.get_groups())
    add(reference.options,
        [&](const CLI::Option* option) { return !option->get_positional() && option->get_group() == group; });
  return reference;
}

}  // namespace

ProgramReference describe_program() {
  const std::vector<std::unique_ptr<Subcommand>> commands = make_commands();
  std::vector<Subcommand*> all;
  for (const auto& command : commands) all.push_back(command.get());
  CLI::App app;
  declare_program(app, all);

  ProgramReference reference{.program = describe(app), .commands = {}, .version = app.version()};
  reference.program.arguments = "COMMAND [OPTIONS]";
  for (const Subcommand* command : all) {
    const HelpText& help = command->help();
    if (help.is_internal) continue;
    CommandReference described = describe(*app.get_subcommand(help.name));
    described.name = help.name;
    described.arguments = *help.arguments == '\0' ? "[OPTIONS]" : std::string("[OPTIONS] ") + help.arguments;
    reference.commands.push_back(std::move(described));
  }
  return reference;
}

std::vector<std::string> groups_of(const CommandReference& command) {
  std::vector<std::string> groups;
  for (const OptionReference& option : command.options)
    if (std::ranges::find(groups, option.group) == groups.end()) groups.push_back(option.group);
  return groups;
}

}  // namespace shardproof::launcher
