#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "launcher/manual/completion.hpp"

namespace shardproof::launcher {
namespace {

/// The functions below the tables. Bash splits words at `=`, so a value may come two words after its option.
constexpr char functions[] = R"bash(
_shardproof() {
  local current=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} kind
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "$(_shardproof_commands) $(_shardproof_options '')" -- "$current")
    return
  fi
  if [[ $current == = ]]; then
    current=''
  elif [[ $option == = ]]; then
    option=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  kind=$(_shardproof_value "$command" "$option")
  if [[ ! $kind && $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_shardproof_options "$command")" -- "$current")
    return
  fi
  [[ $kind ]] || kind=$(_shardproof_argument "$command")
  case $kind in
    file)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
      ;;
    directory)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -d -- "$current")
      ;;
    command) mapfile -t COMPREPLY < <(compgen -c -- "$current") ;;
    'choice '*) mapfile -t COMPREPLY < <(compgen -W "${kind#* }" -- "$current") ;;
    'choices '*)
      local before=''
      if [[ $current == *,* ]]; then before=${current%,*},; fi
      mapfile -t COMPREPLY < <(compgen -P "$before" -W "${kind#* }" -- "${current##*,}")
      ;;
  esac
}

complete -F _shardproof shardproof
)bash";

std::vector<std::string> all_names(const CommandReference& command) {
  std::vector<std::string> names;
  for (const OptionReference& option : command.options) std::ranges::copy(option.names, std::back_inserter(names));
  return names;
}

/// The word for the functions above.
std::string kind_word(const OptionReference& option) {
  switch (option.kind) {
    case ValueKind::none: return "";
    case ValueKind::word: return "word";
    case ValueKind::choice:
      return fmt::format("{} {}", option.is_list ? "choices" : "choice", fmt::join(option.choices, " "));
    case ValueKind::file: return "file";
    case ValueKind::directory: return "directory";
    case ValueKind::command: return "command";
  }
  return "";
}

}  // namespace

std::string bash_completion(const ProgramReference& program) {
  std::vector<std::string> commands;
  std::string options = fmt::format("    '') echo '{}' ;;\n", fmt::join(all_names(program.program), " "));
  std::string values, arguments;
  for (const CommandReference& command : program.commands) {
    commands.push_back(command.name);
    options += fmt::format("    {}) echo '{}' ;;\n", command.name, fmt::join(all_names(command), " "));
    for (const OptionReference& option : command.options) {
      if (option.kind == ValueKind::none) continue;
      for (const std::string& name : option.names)
        values += fmt::format("    '{} {}') echo '{}' ;;\n", command.name, name, kind_word(option));
    }
    if (!command.declared_arguments.empty()) arguments += fmt::format("    {}) echo file ;;\n", command.name);
  }
  const auto table = [](const char* name, const char* key, const std::string& rows) {
    return fmt::format("\n{}() {{\n  case {} in\n{}  esac\n}}\n", name, key, rows);
  };
  return fmt::format(
             "# Completion of shardproof for bash. The program shardproof-manual makes it from the options of the\n"
             "# launcher.\n\n_shardproof_commands() {{ echo '{}'; }}\n",
             fmt::join(commands, " ")) +
         table("_shardproof_options", "$1", options) + table("_shardproof_value", "\"$1 $2\"", values) +
         table("_shardproof_argument", "$1", arguments) + functions;
}

}  // namespace shardproof::launcher
