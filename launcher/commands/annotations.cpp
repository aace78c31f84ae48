#include "launcher/commands/annotations.hpp"

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "launcher/commands/option_values.hpp"
#include "launcher/launcher.hpp"
#include "launcher/process/random_token.hpp"

namespace shardproof::launcher {
namespace {

namespace fs = std::filesystem;

/// The CI system's variable for the directory of the repository. Empty: it is not set.
std::string repository_root(reports::AnnotationFormat format) {
  const char* const root =
      std::getenv(format == reports::AnnotationFormat::github ? "GITHUB_WORKSPACE" : "BUILD_SOURCESDIRECTORY");
  return root == nullptr ? "" : root;
}

}  // namespace

std::string repository_path(const std::string& file, const std::string& root) {
  std::error_code unknown;
  if (root.empty() || (fs::path(file).is_relative() && fs::exists(fs::path(root) / file, unknown))) return file;
  const fs::path whole = fs::weakly_canonical(file, unknown);
  if (unknown || !fs::exists(whole, unknown)) return file;
  const fs::path inside = whole.lexically_relative(fs::weakly_canonical(root, unknown));
  return unknown || inside.empty() || *inside.begin() == ".." ? file : inside.string();
}

void Annotations::declare(OptionDeclarations& options) {
  options.value(file_group, "--annotations", name_, "SYSTEM",
                "Print failures as annotations of a hosted CI system, at the end of standard output: github or azure "
                "(docs/reports.md).");
  options.choices("--annotations", {"github", "azure"});
}

void Annotations::convert(const ExportFiles& files) {
  if (!name_) return;
  format_ = annotation_format(*name_);
  if (files.use_standard_output())
    throw CommandError(usage,
                       "--annotations with an export to -: standard output holds one document; give the export a file");
}

std::string Annotations::text(const reports::Report& report) const {
  const std::string root = repository_root(*format_);
  return reports::annotations(report, *format_,
                              [&root](const std::string& file) { return repository_path(file, root); });
}

std::string Annotations::without_commands(const std::string& text) const {
  return format_ == reports::AnnotationFormat::azure ? reports::without_azure_commands(text) : text;
}

StoppedCommands::StoppedCommands(Terminal& terminal, const Annotations& annotations) : terminal_(terminal) {
  if (annotations.format() == reports::AnnotationFormat::azure) terminal_.filter_by(reports::without_azure_commands);
  if (annotations.format() != reports::AnnotationFormat::github) return;
  token_ = random_token();
  terminal_.print(reports::stop_commands(token_));
}

void StoppedCommands::resume() {
  terminal_.filter_by(nullptr);
  if (!token_.empty()) terminal_.print(reports::resume_commands(std::exchange(token_, {})));
}

}  // namespace shardproof::launcher
