#include "launcher/commands/subcommand.hpp"

#include <fmt/format.h>

#include "launcher/launcher.hpp"

namespace shardproof::launcher {

void require_arguments(const Arguments& arguments,
                       const std::vector<std::pair<const char*, std::filesystem::path>>& declared) {
  std::string all;
  bool given = true;
  for (const auto& [name, value] : declared) {
    all += fmt::format(" {}", name);
    given = given && !value.empty();
  }
  const std::string& command = arguments.command;
  if (!given)
    throw CommandError(usage, fmt::format("{} needs {}: shardproof {}{}", command,
                                          declared.size() == 1 ? "its argument" : "both arguments", command, all));
  if (!arguments.words.empty())
    throw CommandError(usage,
                       fmt::format("unexpected argument '{}': shardproof {}{}", arguments.words.front(), command, all));
}

}  // namespace shardproof::launcher
