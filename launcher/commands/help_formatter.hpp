// The layout of `--help`: examples first, lines that fit on a page. Only command_line.cpp includes this: it knows
// CLI11.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace shardproof::launcher {

class HelpFormatter : public CLI::Formatter {
 public:
  /// `arguments` are words of the usage line.
  explicit HelpFormatter(std::string arguments);

  std::string make_help(const CLI::App* command, std::string name, CLI::AppFormatMode mode) const override;
  /// The first line of a command's description: examples come after it.
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_usage(const CLI::App* command, std::string name) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;

 private:
  std::string arguments_;
};

}  // namespace shardproof::launcher
