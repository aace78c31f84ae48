#include "launcher/commands/option_declarations.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <optional>

namespace shardproof::launcher {

void OptionDeclarations::argument(const char* name, std::filesystem::path& value, const char* text) {
  command_.add_option(name, value, text)->option_text(" ");
}

template <class Value>
void OptionDeclarations::value(const char* group, const char* name, Value& value, const char* value_name,
                               const std::string& text) {
  command_.add_option(name, value, text)->option_text(value_name)->group(group);
}

template void OptionDeclarations::value(const char*, const char*, std::string&, const char*, const std::string&);
template void OptionDeclarations::value(const char*, const char*, std::filesystem::path&, const char*,
                                        const std::string&);
template void OptionDeclarations::value(const char*, const char*, std::optional<std::string>&, const char*,
                                        const std::string&);

void OptionDeclarations::list(const char* group, const char* name, std::vector<std::string>& values,
                              const char* value_name, const std::string& text) {
  command_.add_option(name, values, text)->option_text(value_name)->group(group)->allow_extra_args(false);
}

void OptionDeclarations::flag(const char* group, const char* name, bool& value, const std::string& text) {
  command_.add_flag(name, value, text)->option_text(" ")->group(group);
}

/// CLI11 has no list of words that it does not check. The name of the value's type is not in our help, so it has them.
void OptionDeclarations::choices(const char* option, const std::vector<std::string>& words) {
  command_.get_option(option)->type_name(fmt::format("{}|", fmt::join(words, "|")));
}

std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string words = option.get_type_name();
  if (!words.ends_with('|')) return {};
  return CLI::detail::split(words.substr(0, words.size() - 1), '|');
}

void OptionDeclarations::help(const char* group) {
  command_.set_help_flag();
  command_.set_help_flag("-h,--help", "Print this help.")->group(group);
}

void OptionDeclarations::exclude(const char* option, const char* other) {
  command_.get_option(option)->excludes(command_.get_option(other));
}

void OptionDeclarations::need(const char* option, const char* other) {
  command_.get_option(option)->needs(command_.get_option(other));
}

}  // namespace shardproof::launcher
