// The declarations of a subcommand's options. A subcommand names its options and where their values go. Only the source
// files of this class, of the parser and of the help's layout include CLI11, which takes seconds to compile.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace shardproof::launcher {

/// Groups of options in the help.
inline constexpr char case_group[] = "Cases", subject_group[] = "Engine under test",
                      device_group[] = "Device and fabric", course_group[] = "Course of the run",
                      demand_group[] = "Demands on the run", file_group[] = "Files", terminal_group[] = "Terminal";

class OptionDeclarations {
 public:
  /// Borrows `command`.
  explicit OptionDeclarations(CLI::App& command) : command_(command) {}

  /// An argument, in the order of the command line.
  void argument(const char* name, std::filesystem::path& value, const char* text);
  /// An option with one value: std::string, std::filesystem::path, or std::optional<std::string>. The help shows
  /// `value_name`.
  template <class Value>
  void value(const char* group, const char* name, Value& value, const char* value_name, const std::string& text);
  /// An option with several values, which is given once for each or with commas.
  void list(const char* group, const char* name, std::vector<std::string>& values, const char* value_name,
            const std::string& text);
  void flag(const char* group, const char* name, bool& value, const std::string& text);
  /// The words that a declared option takes, for completion. `convert` checks the value, with our own message.
  void choices(const char* option, const std::vector<std::string>& words);
  /// The last option: --help.
  void help(const char* group);

  /// The user may give only one of these declared options.
  void exclude(const char* option, const char* other);
  /// The user may give `option` only with `other`.
  void need(const char* option, const char* other);

 private:
  CLI::App& command_;
};

/// The words that were declared by `choices`.
std::vector<std::string> choices_of(const CLI::Option& option);

}  // namespace shardproof::launcher
