// The commands and options of the command line as data, as the parser knows them. Manual pages and
// completions are made from it. Pure.
#pragma once

#include <string>
#include <vector>

namespace shardproof::launcher {

/// The kind of words that a shell offers for a value.
enum class ValueKind {
  none,  ///< a flag
  word,  ///< Only the user knows it.
  choice,
  file,
  directory,
  command,
};

/// An option, or an argument, which has no group and one name.
struct OptionReference {
  std::vector<std::string> names;  ///< with their dashes, short names first
  std::string value_name;
  std::string text;
  std::string group;
  ValueKind kind = ValueKind::none;
  std::vector<std::string> choices;
  bool is_list = false;  ///< takes several values, with commas or given again
};

struct CommandReference {
  std::string name;  ///< empty for the program itself
  std::string summary;
  std::string examples;  ///< lines, indented by four spaces
  std::string arguments;
  std::string footer;
  std::vector<OptionReference> declared_arguments;  ///< in the order of the command line; all are paths
  std::vector<OptionReference> options;             ///< in the order of the help
};

struct ProgramReference {
  CommandReference program;
  std::vector<CommandReference> commands;
  std::string version;
};

/// Describes all subcommands of the launcher.
ProgramReference describe_program();

/// The groups of a command's options, in their order.
std::vector<std::string> groups_of(const CommandReference& command);

}  // namespace shardproof::launcher
