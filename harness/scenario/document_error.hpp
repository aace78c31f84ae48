// The error of a scenario document: its place, what was expected there, and where the text of the document has it.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "harness/base/json_position.hpp"

namespace shardproof::scenario {

/// The text is `scenario: PLACE: WHAT`, or `scenario: WHAT` for the whole document.
class DocumentError : public std::invalid_argument {
 public:
  /// `fix` is what the user has to change outside the document, such as `use --ranks 4`. Empty: nothing.
  DocumentError(std::string place, std::string what, std::string fix = "")
      : std::invalid_argument(place.empty() ? "scenario: " + what : "scenario: " + place + ": " + what),
        place_(std::move(place)),
        what_(std::move(what)),
        fix_(std::move(fix)) {}

  const std::string& place() const { return place_; }
  /// Empty: the text of the document is not known.
  const std::optional<base::TextPosition>& position() const { return position_; }

  /// The same error with another place, and with the position of its place in a text.
  DocumentError at(std::string place) const { return DocumentError(std::move(place), what_, fix_); }
  DocumentError in(base::TextPosition position) const {
    DocumentError error = *this;
    error.position_ = position;
    return error;
  }
  /// `FIX: FILE:LINE:COLUMN: scenario: PLACE: WHAT`, without the parts that are not known.
  std::string in_file(const std::string& file) const;

 private:
  std::string place_, what_, fix_;
  std::optional<base::TextPosition> position_;
};

}  // namespace shardproof::scenario
