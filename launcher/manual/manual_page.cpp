#include "launcher/manual/manual_page.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string_view>
#include <vector>

namespace shardproof::launcher {
namespace {

/// Longer lines of input make mandoc complain.
constexpr std::size_t line_width = 78;

/// A text as the formatter has to read it to print exactly its characters.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char character : text) {
    switch (character) {
      case '\\': result += "\\e"; break;
      case '-': result += "\\-"; break;
      case '\'': result += "\\(aq"; break;
      case '`': result += "\\(ga"; break;
      case '^': result += "\\(ha"; break;
      case '~': result += "\\(ti"; break;
      default: result += character;
    }
  }
  return result;
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
  return text;
}

std::string bold(std::string_view text) { return fmt::format("\\fB{}\\fR", escaped(text)); }
std::string italic(std::string_view text) { return fmt::format("\\fI{}\\fR", escaped(text)); }

/// A line must not begin like a request.
std::string line(const std::string& text) { return (text.starts_with('.') ? "\\&" : "") + text + "\n"; }

/// Filled text. Words between backticks become bold.
std::string paragraph(const std::string& text) {
  std::string marked;
  bool is_code = false;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('`', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    marked += is_code ? bold(part) : escaped(part);
    is_code = !is_code;
    begin = end + 1;
  }
  std::string result, current;
  std::istringstream words(marked);
  for (std::string word; words >> word;) {
    if (!current.empty() && current.size() + 1 + word.size() > line_width) {
      result += line(current);
      current.clear();
    }
    current += (current.empty() ? "" : " ") + word;
  }
  return result + line(current);
}

/// Lines that stay as they are, without the help's indentation.
std::string verbatim(const std::vector<std::string>& lines) {
  std::string result = ".RS 4\n.nf\n";
  for (const std::string& each : lines) result += line(escaped(each.substr(std::min<std::size_t>(4, each.size()))));
  return result + ".fi\n.RE\n";
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string each; std::getline(in, each);) lines.push_back(each);
  return lines;
}

/// The paragraphs after the options. A line that ends with a colon, above indented lines, is a heading.
std::string footer(const std::string& text) {
  std::string result;
  std::vector<std::string> filled, kept;
  const auto flush = [&] {
    if (!filled.empty()) result += ".PP\n" + paragraph(fmt::format("{}", fmt::join(filled, " ")));
    if (!kept.empty()) result += verbatim(kept);
    filled.clear();
    kept.clear();
  };
  const std::vector<std::string> lines = lines_of(text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool is_above_indented = i + 1 < lines.size() && lines[i + 1].starts_with(' ');
    if (lines[i].starts_with(' ')) {
      kept.push_back(lines[i]);
      continue;
    }
    if (lines[i].empty() || !kept.empty() || is_above_indented) flush();
    if (lines[i].empty()) continue;
    if (is_above_indented && lines[i].ends_with(':'))
      result += fmt::format(".SH {}\n", upper(escaped(lines[i].substr(0, lines[i].size() - 1))));
    else filled.push_back(lines[i]);
  }
  flush();
  return result;
}

std::string option_entry(const OptionReference& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.names) names.push_back(bold(name));
  const std::string value = option.value_name.empty() ? "" : " " + italic(option.value_name);
  return fmt::format(".TP\n{}{}\n{}", fmt::join(names, ", "), value, paragraph(option.text));
}

std::string options_of(const CommandReference& command) {
  std::string result = ".SH OPTIONS\n";
  const std::vector<std::string> groups = groups_of(command);
  for (const std::string& group : groups) {
    if (groups.size() > 1) result += fmt::format(".SS {}\n", escaped(group));
    for (const OptionReference& option : command.options)
      if (option.group == group) result += option_entry(option);
  }
  return result;
}

std::string arguments_of(const CommandReference& command) {
  std::string result = ".SH ARGUMENTS\n";
  for (const OptionReference& argument : command.declared_arguments)
    result += fmt::format(".TP\n{}\n{}", italic(upper(argument.names.front())), paragraph(argument.text));
  return result;
}

std::string commands_of(const ProgramReference& program) {
  std::string result = ".SH COMMANDS\nEach command has its own page.\n";
  for (const CommandReference& command : program.commands)
    result += fmt::format(".TP\n.BR {} (1)\n{}", escaped(page_name(command)), paragraph(command.summary));
  return result;
}

std::string without_full_stop(const std::string& text) {
  return text.ends_with('.') ? text.substr(0, text.size() - 1) : text;
}

}  // namespace

std::string page_name(const CommandReference& command) {
  return command.name.empty() ? "shardproof" : "shardproof-" + command.name;
}

std::string manual_page(const ProgramReference& program, const CommandReference& command, const std::string& date) {
  const std::string name = page_name(command);
  const bool is_program = command.name.empty();
  std::string page = fmt::format(
      ".\\\" The program shardproof-manual makes this page from the options of the launcher.\n"
      ".TH {} 1 \"{}\" \"shardproof {}\" \"shardproof\"\n",
      upper(escaped(name)), date, program.version);
  page += ".SH NAME\n" + paragraph(fmt::format("{} - {}", name, without_full_stop(command.summary)));
  page += fmt::format(".SH SYNOPSIS\n.B shardproof{}\n{}", is_program ? "" : " " + command.name,
                      line(escaped(command.arguments)));
  page += ".SH DESCRIPTION\n" + paragraph(command.summary);
  if (is_program) page += commands_of(program);
  if (!command.declared_arguments.empty()) page += arguments_of(command);
  page += options_of(command) + footer(command.footer);
  page += ".SH EXAMPLES\n" + verbatim(lines_of(command.examples));
  page += ".SH SEE ALSO\n";
  std::vector<std::string> others;
  for (const CommandReference& other : program.commands)
    if (is_program) others.push_back(fmt::format(".BR {} (1)", escaped(page_name(other))));
  if (!is_program) others.emplace_back(".BR shardproof (1)");
  return page + fmt::format("{}\n", fmt::join(others, " ,\n"));
}

}  // namespace shardproof::launcher
