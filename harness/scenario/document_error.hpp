// The error of a scenario document: its place, what was expected there, and where the text of the document has it.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "harness/base/json_position.hpp"

namespace shardproof::scenario {

/// The text is `scenario: PLACE: WHAT`, or `scenario: WHAT` for the whole document. WHAT ends with what the user has to
/// change.
class DocumentError : public std::invalid_argument {
 public:
  DocumentError(std::string place, std::string what)
      : std::invalid_argument(place.empty() ? "scenario: " + what : "scenario: " + place + ": " + what),
        place_(std::move(place)),
        what_(std::move(what)) {}

  const std::string& place() const { return place_; }
  /// Empty: the text of the document is not known.
  const std::optional<base::TextPosition>& position() const { return position_; }

  /// The same error with another place, and with the position of its place in a text.
  DocumentError at(std::string place) const { return DocumentError(std::move(place), what_); }
  DocumentError in(base::TextPosition position) const {
    DocumentError error = *this;
    error.position_ = position;
    return error;
  }
  /// `FILE:LINE:COLUMN: scenario: PLACE: WHAT`, without line and column if they are not known.
  std::string in_file(const std::string& file) const;

 private:
  std::string place_, what_;
  std::optional<base::TextPosition> position_;
};

}  // namespace shardproof::scenario
