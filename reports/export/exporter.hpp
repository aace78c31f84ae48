// The formats of other programs, one exporter each. Commands offer all exporters of this table as options. Pure.
#pragma once

#include <span>
#include <string>

#include "reports/export/text_style.hpp"

namespace shardproof::reports {

struct Exporter {
  const char* option;   ///< of `run` and `export`, with one value: a file
  const char* help;     ///< one sentence
  const char* example;  ///< a name for its file
  bool appends;  ///< Several texts of the format in one file are one text. So GitHub's summary of a step may take it.
  std::string (*text)(const Report& report, const TextStyle& style);
};

/// In the order of the help.
std::span<const Exporter> exporters();

/// The style of exported texts: without colour, and independent of how much the user wants to see on the terminal.
TextStyle export_style(TextStyle style);

}  // namespace shardproof::reports
