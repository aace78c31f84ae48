// The options that write a report in formats of other programs (reports/export/exporter.hpp), and these files. `run`
// and `export` have them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launcher/commands/option_declarations.hpp"
#include "launcher/files/claimed_directory.hpp"
#include "reports/export/exporter.hpp"

namespace shardproof::launcher {

class ExportFiles {
 public:
  ExportFiles() : requested_(reports::exporters().size()) {}

  /// Borrows this object for as long as options are read.
  void declare(OptionDeclarations& options);

  /// Throws CommandError (usage) if a file cannot be written. Returns the names of files in the output directory, which
  /// its owner has to note.
  std::vector<std::string> require_writable(const OutputOptions& out) const;

  bool is_empty() const;
  /// Whether one of them is standard output, which then has no other text.
  bool use_standard_output() const;

  /// Writes all files, also after one of them failed. Prints an error for each failure, and returns false if there was
  /// one.
  bool write(const reports::Report& report, const reports::TextStyle& style) const;

 private:
  std::vector<std::filesystem::path> requested_;  ///< For each exporter: its file. Empty: not requested.
};

}  // namespace shardproof::launcher
