// Parses the texts of options: numbers in decimal and in range, and known words. The command line parser uses it. Pure.
// All functions throw CommandError (usage). The error repeats the option as the user wrote it, and says which values it
// takes.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/process/gpus.hpp"
#include "launcher/run/plan.hpp"
#include "launcher/terminal/terminal.hpp"
#include "reports/export/annotations.hpp"

namespace shardproof::launcher {

std::uint64_t whole_number(std::string_view option, std::string_view text, std::uint64_t least, std::uint64_t most);

/// `2,4` and `2` and `4`, each from one --ranks.
std::vector<int> world_sizes(std::span<const std::string> texts);

/// `OVL-1,OVL-2` and `OVL-1` and `OVL-2`, each from one `option`.
std::vector<std::string> listed(std::string_view option, std::span<const std::string> texts);

/// `0,2` and `0` and `2`, each from one use of the option.
std::vector<int> ranks(std::string_view option, std::span<const std::string> texts);

/// Seconds. Rejects zero, and a day or more, which is a mistake in the unit.
std::chrono::milliseconds timeout(std::string_view text);

/// `90s`, `10min`, `2h`, or a number of seconds. Throws like the others, with the option's name.
std::chrono::milliseconds span_of_time(std::string_view option, std::string_view text);

/// `4`: the first four GPUs. `0,2` or `GPU-8a1f,GPU-77`: these GPUs. `2,`: this GPU.
GpuChoice gpu_choice(std::string_view text);

/// The words that --order, --scheduler and --color take.
std::vector<std::string> order_words();
std::vector<std::string> scheduler_words();
std::vector<std::string> color_words();

Order order(std::string_view text);
protocol::Scheduler scheduler(std::string_view text);
ColorWhen color_when(std::string_view text);
MessageFormat message_format(std::string_view text);
reports::AnnotationFormat annotation_format(std::string_view text);

}  // namespace shardproof::launcher
