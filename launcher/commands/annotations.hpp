// The option --annotations of `run` and `export`: failures as annotations of a hosted CI system.
#pragma once

#include <optional>
#include <string>

#include "launcher/commands/export_files.hpp"
#include "launcher/commands/option_declarations.hpp"
#include "launcher/terminal/terminal.hpp"
#include "reports/export/annotations.hpp"

namespace shardproof::launcher {

class Annotations {
 public:
  /// Borrows this object for as long as options are read.
  void declare(OptionDeclarations& options);
  /// Throws CommandError (usage), also if standard output is one of `files`.
  void convert(const ExportFiles& files);

  bool is_requested() const { return format_.has_value(); }
  /// The commands for the failures of a report.
  std::string text(const reports::Report& report) const;
  /// Nullopt: the user wants none.
  std::optional<reports::AnnotationFormat> format() const { return format_; }
  /// The text without commands, if the CI system would take a command from it even while commands are stopped.
  std::string without_commands(const std::string& text) const;

 private:
  std::optional<std::string> name_;
  std::optional<reports::AnnotationFormat> format_;
};

/// While it lives, the CI system takes no commands from what the terminal prints: it may be text of ranks.
class StoppedCommands {
 public:
  StoppedCommands(Terminal& terminal, const Annotations& annotations);
  ~StoppedCommands() { resume(); }
  StoppedCommands(const StoppedCommands&) = delete;
  void resume();

 private:
  Terminal& terminal_;
  std::string token_;  ///< empty: commands are not stopped
};

/// The path of a source file in the repository: relative to `root`, if it is a file in it. A relative path is relative
/// to the root, or else to the current directory. Other paths stay as they are.
std::string repository_path(const std::string& file, const std::string& root);

}  // namespace shardproof::launcher
