#include "launcher/commands/play_output.hpp"

#include <fmt/format.h>

#include <utility>

#include "harness/base/json_text.hpp"
#include "launcher/files/standard_streams.hpp"
#include "reports/export/columns.hpp"
#include "reports/export/terminal.hpp"

namespace shardproof::launcher {

namespace {

/// An element of the JSON of several documents: `{scenario, error, played}`.
nlohmann::ordered_json element_of(const Document& document, const std::string& error, nlohmann::ordered_json played) {
  nlohmann::ordered_json element{{"scenario", document.file.string()}, {"error", nullptr}, {"played", nullptr}};
  if (!error.empty()) element["error"] = error;
  element["played"] = std::move(played);
  return element;
}

}  // namespace

PlayOutput::PlayOutput(std::FILE* text, const PlayOptions& options)
    : options_(options), terminal_(text, options.terminal), array_(nlohmann::ordered_json::array()) {}

void PlayOutput::refuse(const CheckedDocument& refused) {
  is_refused_ = true;
  terminal_.finish();  // the text of earlier documents comes first; the last `finish` reports lost text
  print_error(refused.refusal);
  array_.push_back(element_of(refused.document, refused.refusal, nullptr));
}

void PlayOutput::show(const std::string& title, const std::string& text) {
  const std::string_view blank_line = std::exchange(is_first_, false) ? "" : "\n";
  terminal_.print(reports::fitted(fmt::format("{}{}\n{}", blank_line, reports::printable(title), text)));
}

void PlayOutput::show(const Document& document, const std::string& error, nlohmann::ordered_json played) {
  if (options_.scenarios.size() > 1) array_.push_back(element_of(document, error, std::move(played)));
  else if (!played.is_null()) print_output(base::dump_document(played) + "\n");
}

void PlayOutput::print_array() const {
  if (options_.json && options_.scenarios.size() > 1) print_output(base::dump_document(array_) + "\n");
}

}  // namespace shardproof::launcher
