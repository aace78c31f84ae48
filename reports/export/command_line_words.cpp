#include "reports/export/command_line_words.hpp"

#include <algorithm>

namespace shardproof::reports {

std::vector<std::string> words_given(std::span<const std::string> argv, std::span<const std::string_view> options,
                                     std::span<const std::string_view> flags) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < argv.size() && argv[i] != end_of_options; ++i) {
    const std::string_view word = argv[i];
    if (std::ranges::find(flags, word) != flags.end()) words.emplace_back(word);
    if (std::ranges::find(options, word.substr(0, word.find('='))) == options.end()) continue;
    const bool has_value = word.find('=') != std::string_view::npos;
    if (!has_value && i + 1 == argv.size()) continue;
    words.emplace_back(word);
    if (!has_value) words.push_back(argv[++i]);
  }
  return words;
}

}  // namespace shardproof::reports
