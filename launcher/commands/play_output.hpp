// Prints what `play` shows for its documents, in their order: text for a terminal, or JSON. Both forms of the command
// use it, with one subject and with two.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "launcher/commands/play.hpp"
#include "launcher/explore/contenders.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/terminal/terminal.hpp"

namespace shardproof::launcher {

class PlayOutput {
 public:
  /// Borrows `options`. `text` is the stream for text; JSON goes to standard output.
  PlayOutput(std::FILE* text, const PlayOptions& options);

  Terminal& terminal() { return terminal_; }
  bool is_json() const { return options_.json; }
  /// Whether a document was refused.
  bool is_refused() const { return is_refused_; }

  /// Prints why a document cannot be played, after all text before it.
  void refuse(const CheckedDocument& refused);
  /// Shows a played document as text. `title` may have control codes, `text` has none.
  void show(const std::string& title, const std::string& text);
  /// Shows a document as JSON. `error`: why its play failed; empty: it passed. `played` is null if ranks did not play
  /// it to its end.
  void show(const Document& document, const std::string& error, nlohmann::ordered_json played);

  /// Prints the JSON of several documents.
  void print_array() const;
  /// Waits until the reader has taken all text. Throws CommandError (usage) if text was lost.
  void finish() { require_printed(terminal_.finish()); }

 private:
  const PlayOptions& options_;
  Terminal terminal_;
  nlohmann::ordered_json array_;
  bool is_first_ = true, is_refused_ = false;
};

}  // namespace shardproof::launcher
