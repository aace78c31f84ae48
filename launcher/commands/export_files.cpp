#include "launcher/commands/export_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "launcher/files/output.hpp"
#include "launcher/files/requested_files.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"

namespace shardproof::launcher {
namespace {

/// These values of the options are no files. A file of such a name is written as `./github`.
constexpr char standard_output[] = "-", step_summary[] = "github";

/// GitHub names a file for the summary of a job's step. Several commands of the step append to it.
constexpr char summary_variable[] = "GITHUB_STEP_SUMMARY";

/// Throws CommandError (usage) outside a step of GitHub Actions.
std::filesystem::path summary_file(const char* option) {
  const char* const file = std::getenv(summary_variable);
  if (file == nullptr || *file == '\0')
    throw CommandError(usage, fmt::format("{} {}: the variable {} is not set, which names the file on GitHub; "
                                          "elsewhere, give a file",
                                          option, step_summary, summary_variable));
  return file;
}

}  // namespace

void ExportFiles::declare(OptionDeclarations& options) {
  for (std::size_t i = 0; i < requested_.size(); ++i) {
    const reports::Exporter& exporter = reports::exporters()[i];
    options.value(file_group, exporter.option, requested_[i], "FILE",
                  fmt::format("{} `-` is standard output.{}", exporter.help,
                              exporter.appends ? fmt::format(" `{}` appends to the file that ${} names.", step_summary,
                                                             summary_variable)
                                               : ""));
  }
}

std::vector<std::string> ExportFiles::require_writable(const OutputOptions& out) const {
  std::vector<RequestedFile> files;
  std::vector<const char*> printed;
  for (std::size_t i = 0; i < requested_.size(); ++i) {
    const reports::Exporter& exporter = reports::exporters()[i];
    if (requested_[i].empty()) continue;
    if (requested_[i] == standard_output) printed.push_back(exporter.option);
    else if (exporter.appends && requested_[i] == step_summary) append_file(summary_file(exporter.option), "");
    else files.push_back({exporter.option, requested_[i], exporter.example});
  }
  if (printed.size() > 1)
    throw CommandError(usage, fmt::format("{} - with {} -: standard output holds one document; give one of them a file",
                                          printed[0], printed[1]));
  return require_requested_files(files, out);
}

bool ExportFiles::is_empty() const {
  return std::ranges::all_of(requested_, [](const auto& file) { return file.empty(); });
}

bool ExportFiles::use_standard_output() const {
  return std::ranges::find(requested_, standard_output) != requested_.end();
}

bool ExportFiles::write(const reports::Report& report, const reports::TextStyle& style) const {
  const reports::TextStyle plain = reports::export_style(style);
  bool is_written = true;
  for (std::size_t i = 0; i < requested_.size(); ++i) {
    if (requested_[i].empty()) continue;
    const reports::Exporter& exporter = reports::exporters()[i];
    try {
      const std::string text = exporter.text(report, plain);
      if (requested_[i] == standard_output) print_output(text);
      else if (exporter.appends && requested_[i] == step_summary) append_file(summary_file(exporter.option), text);
      else write_file(requested_[i], text);
    } catch (const CommandError& error) {
      print_error(error.what());
      is_written = false;
    }
  }
  return is_written;
}

}  // namespace shardproof::launcher
