// A subcommand of `shardproof`: its help, its options, and what it does. Each subcommand is one file, and commands.hpp
// has the table of all. The command line parser (command_line.hpp) calls the functions in their order here.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace shardproof::launcher {

class OptionDeclarations;

/// The parts of `--help` besides the options.
struct HelpText {
  const char* name;
  const char* summary;    ///< one sentence
  const char* examples;   ///< commands, each with what it does
  const char* arguments;  ///< in the usage line
  const char* footer;     ///< arguments that need an explanation, and exit codes
  bool is_internal = false;  ///< Programs call it, and the list of commands leaves it out.
};

/// The words of a command line that are neither options nor their values.
struct Arguments {
  std::string command;
  std::vector<std::string> words;
};

class Subcommand {
 public:
  virtual ~Subcommand() = default;
  virtual const HelpText& help() const = 0;
  /// Declares the options and arguments, in the order of the help. Their values are members of the subcommand. Many are
  /// texts, which `convert` converts by our own rules and with our own messages.
  virtual void declare(OptionDeclarations& options) = 0;
  /// Converts the texts. `arguments` are the words that no declared argument takes. Throws CommandError (usage).
  virtual void convert(const Arguments& arguments) = 0;
  /// `argv` is the whole command line. Returns the exit code of the process, or throws CommandError.
  virtual int run(const std::vector<std::string>& argv) = 0;
};

/// Throws CommandError (usage) unless each declared argument has a value and no word is left over. `declared` are the
/// names in the usage line, with the values.
void require_arguments(const Arguments& arguments,
                       const std::vector<std::pair<const char*, std::filesystem::path>>& declared);

}  // namespace shardproof::launcher
