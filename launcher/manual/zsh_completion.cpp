#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

#include "harness/base/shell_word.hpp"
#include "launcher/manual/completion.hpp"

namespace shardproof::launcher {
namespace {

/// Puts a backslash before the characters that have a meaning there.
std::string with_backslashes(std::string_view text, std::string_view special) {
  std::string result;
  for (const char character : text) {
    if (character == '\\' || special.find(character) != std::string_view::npos) result += '\\';
    result += character;
  }
  return result;
}

std::string first_sentence(const std::string& text) {
  const std::size_t end = text.find(". ");
  return end == std::string::npos ? text.substr(0, text.find_last_not_of('.') + 1) : text.substr(0, end);
}

std::string action(const OptionReference& option) {
  switch (option.kind) {
    case ValueKind::none:
    case ValueKind::word: return " ";
    case ValueKind::choice:
      return option.is_list ? fmt::format("_values -s , {} {}", option.value_name, fmt::join(option.choices, " "))
                            : fmt::format("({})", fmt::join(option.choices, " "));
    case ValueKind::file: return "_files";
    case ValueKind::directory: return "_files -/";
    case ValueKind::command: return "_cmdstring";
  }
  return " ";
}

/// The argument of _arguments for one name of an option.
std::string specification(const OptionReference& option, const std::string& name) {
  const bool is_long = name.starts_with("--");
  std::string text = option.is_list ? "*" : fmt::format("({})", fmt::join(option.names, " "));
  text += name;
  if (option.kind != ValueKind::none) text += is_long ? "=" : "+";
  text += fmt::format("[{}]", with_backslashes(first_sentence(option.text), "[]:"));
  if (option.kind != ValueKind::none)
    text += fmt::format(":{}:{}", with_backslashes(option.value_name, ":"), action(option));
  return base::shell_word(text);
}

std::vector<std::string> specifications(const CommandReference& command) {
  std::vector<std::string> all;
  for (const OptionReference& option : command.options)
    for (const std::string& name : option.names) all.push_back(specification(option, name));
  for (const OptionReference& argument : command.declared_arguments)
    all.push_back(base::shell_word(fmt::format(":{}:_files", argument.names.front())));
  if (command.declared_arguments.empty() && command.arguments.find("FILTER") != std::string::npos)
    all.push_back(base::shell_word("*:filter:()"));
  return all;
}

}  // namespace

std::string zsh_completion(const ProgramReference& program) {
  std::string commands, cases;
  for (const CommandReference& command : program.commands) {
    const std::string text = fmt::format("{}:{}", command.name, first_sentence(command.summary));
    commands += fmt::format("        {}\n", base::shell_word(text));
    cases += fmt::format("        {})\n          _arguments -S \\\n            {}\n          ;;\n", command.name,
                         fmt::join(specifications(command), " \\\n            "));
  }
  return fmt::format(
      "#compdef shardproof\n"
      "# Completion of shardproof for zsh. The program shardproof-manual makes it from the options of the launcher.\n\n"
      "_shardproof() {{\n"
      "  local context state state_descr line\n"
      "  typeset -A opt_args\n"
      "  _arguments -C \\\n"
      "    {} \\\n"
      "    '1:command:->command' '*::argument:->arguments'\n"
      "  case $state in\n"
      "    command)\n"
      "      local -a commands\n"
      "      commands=(\n{}      )\n"
      "      _describe -t commands command commands\n"
      "      ;;\n"
      "    arguments)\n"
      "      case $line[1] in\n{}      esac\n"
      "      ;;\n"
      "  esac\n"
      "}}\n\n"
      "_shardproof \"$@\"\n",
      fmt::join(specifications(program.program), " \\\n    "), commands, cases);
}

}  // namespace shardproof::launcher
