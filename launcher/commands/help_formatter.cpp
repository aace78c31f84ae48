#include "launcher/commands/help_formatter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <utility>

namespace shardproof::launcher {
namespace {

constexpr std::size_t page_width = 100;
/// Names begin at column 4: Markdown shows such lines as they are. Texts begin at column 34.
constexpr std::size_t name_width = 34, indent = 4;

/// A name, and beside it a text that is wrapped at the page's width.
std::string entry(const std::string& name, const std::string& text) {
  const std::string next_line = "\n" + std::string(name_width, ' ');
  std::string result = fmt::format("{:{}}{:<{}}", "", indent, name, name_width - indent);
  if (indent + name.size() >= name_width) result += next_line;
  std::size_t column = name_width;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (column > name_width && column + 1 + word.size() > page_width) {
      result += next_line;
      column = name_width;
    }
    if (column > name_width) result += ' ';
    column += (column > name_width ? 1 : 0) + word.size();
    result += word;
  }
  return result + "\n";
}

}  // namespace

HelpFormatter::HelpFormatter(std::string arguments) : arguments_(std::move(arguments)) {
  label("Positionals", "Arguments");
}

std::string HelpFormatter::make_help(const CLI::App* command, std::string name, CLI::AppFormatMode mode) const {
  return CLI::detail::find_and_replace(CLI::Formatter::make_help(command, std::move(name), mode), "\n\n\n", "\n\n");
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  const std::string text = command->get_description();
  return entry(command->get_name(), text.substr(0, text.find('\n')));
}

std::string HelpFormatter::make_usage(const CLI::App* /*command*/, std::string name) const {
  return fmt::format("Usage: {} {}\n", name, arguments_);
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  std::string name = make_option_name(option, is_positional);
  if (is_positional)
    std::ranges::transform(name, name.begin(),
                           [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
  return entry(name + make_option_opts(option), option->get_description());
}

}  // namespace shardproof::launcher
