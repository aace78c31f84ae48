// Options that several subcommands have. Each is declared once, here. Options that have to be converted are kept as
// texts until all options have been read.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launcher/commands/option_declarations.hpp"
#include "launcher/commands/subcommand.hpp"
#include "launcher/files/claimed_directory.hpp"
#include "launcher/run/demands.hpp"
#include "launcher/run/plan.hpp"
#include "launcher/terminal/terminal.hpp"

namespace shardproof::launcher {

/// The options that describe worlds.
struct WorldTexts {
  std::optional<std::string> device, fabric, backend, scheduler, gpus, times, timeout;
  std::vector<std::string> ranks;
};

struct DemandTexts {
  std::optional<std::string> max_skips, max_waivers;
  std::vector<std::string> require;
};

struct ColorText {
  std::string when = "auto";
};

/// The texts of --out. Without --out, some commands write into a new folder, and others keep nothing.
inline constexpr char write_text[] =
    "Write into this new or empty directory. The default is a new folder in shardproof-out/.";
inline constexpr char keep_text[] = "Keep streams, logs and reports in this new or empty directory.";

// -- Declaring -------------------------------------------------------------------------------------------------------

void declare_fault(OptionDeclarations& options, std::string& fault);
void declare_subject(OptionDeclarations& options, std::string& subject);
/// The command takes `what` this program.
void declare_worker(OptionDeclarations& options, std::filesystem::path& worker, const char* what);
/// `otherwise` is the default.
void declare_profile(OptionDeclarations& options, std::string& profile, const char* otherwise);
/// The command does `verb` with cases of these sizes.
void declare_ranks(OptionDeclarations& options, WorldTexts& texts, const char* verb);
/// `what` has this much time. `otherwise` is the default.
void declare_timeout(OptionDeclarations& options, WorldTexts& texts, const char* what, const char* otherwise);
void declare_backend(OptionDeclarations& options, const char* group, std::optional<std::string>& backend,
                     const char* what);
/// The device, and the options of GPUs.
void declare_device(OptionDeclarations& options, PlanOptions& plan, WorldTexts& texts);
/// The world sizes, the subject, the device, the fabric and the time limit.
void declare_plan(OptionDeclarations& options, PlanOptions& plan, WorldTexts& texts);
void declare_demands(OptionDeclarations& options, DemandOptions& demands, DemandTexts& texts);
void declare_out(OptionDeclarations& options, OutputOptions& out, const std::string& text);
void declare_color(OptionDeclarations& options, ColorText& color);
/// --quiet, --verbose, --color and --help. They come last.
void declare_terminal(OptionDeclarations& options, TerminalOptions& terminal, ColorText& color);

// -- Converting ------------------------------------------------------------------------------------------------------
// All these functions throw CommandError (usage).

/// Empty: no backend is named.
std::filesystem::path convert_backend(const std::optional<std::string>& backend);
/// Converts the options that all worlds of the command share. Returns the mistake in the options of the device; empty:
/// no mistake.
std::string convert_world(const WorldTexts& texts, PlanOptions& plan);
/// The same with the filters and the scheduler. Returns a mistake in the options of the fabric, too.
std::string convert_plan(const Arguments& arguments, const WorldTexts& texts, PlanOptions& plan);
/// Throws the mistake, if there is one.
void require_placement(const std::string& mistake);
void convert_demands(const DemandTexts& texts, DemandOptions& demands);
ColorWhen convert_color(const ColorText& color);

}  // namespace shardproof::launcher
