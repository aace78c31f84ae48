#include "harness/base/json_parse.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <istream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/json_text.hpp"

namespace shardproof::base {

using nlohmann::ordered_json;

namespace {

/// Makes the document from the events of nlohmann's parser, which calls these functions.
class DocumentBuilder {
 public:
  DocumentBuilder() = default;
  DocumentBuilder(std::string_view list, const TakeElement& take) : list_(list), take_(&take) {}

  ordered_json document() && { return std::move(document_); }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t value) { return add(value); }
  bool number_unsigned(std::uint64_t value) { return add(value); }
  bool number_float(double value, const std::string& /*text*/) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(ordered_json::binary_t& value) { return add(std::move(value)); }

  bool start_object(std::size_t /*size*/) { return open(ordered_json::object()); }
  bool start_array(std::size_t /*size*/) { return open(ordered_json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(const std::string& name) {
    const auto [member, is_new] = members().emplace(name, nullptr);
    if (is_new) return true;
    const std::string where = place();
    throw DuplicateKey(name, fmt::format("{}{}duplicate key {}", where, where.empty() ? "" : ": ", dump_line(name)));
  }

  template <class Error>
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/, const Error& error) {
    throw error;
  }

 private:
  ordered_json::object_t& members() { return open_.back()->get_ref<ordered_json::object_t&>(); }

  ordered_json& put(ordered_json value) {
    if (open_.empty()) return document_ = std::move(value);
    if (open_.back()->is_array()) return open_.back()->emplace_back(std::move(value));
    return members().back().second = std::move(value);
  }

  bool add(ordered_json value) {
    put(std::move(value));
    take_element();
    return true;
  }

  bool open(ordered_json empty) {
    if (open_.size() == deepest_json)
      throw std::invalid_argument(fmt::format("JSON nested deeper than {} levels", deepest_json));
    // No container grows while another one inside it is open, so the addresses stay.
    open_.push_back(&put(std::move(empty)));
    return true;
  }

  bool close() {
    open_.pop_back();
    take_element();
    return true;
  }

  void take_element() {
    constexpr std::size_t inside_list = 2;
    if (take_ == nullptr || open_.size() != inside_list || !open_[1]->is_array() || !document_.is_object() ||
        members_of_document().back().first != list_)
      return;
    const ordered_json element = std::move(open_[1]->back());
    open_[1]->clear();
    (*take_)(document_, element);
    ++taken_;
  }

  ordered_json::object_t& members_of_document() { return document_.get_ref<ordered_json::object_t&>(); }

  /// The place of the innermost open object: `cases[3].ranks[0]`. Empty for the document itself.
  std::string place() const {
    std::string text;
    for (std::size_t depth = 0; depth + 1 < open_.size(); ++depth) {
      const ordered_json& outer = *open_[depth];
      if (outer.is_array()) {
        const bool is_list = take_ != nullptr && depth == 1 && text == list_;
        text += fmt::format("[{}]", outer.size() - 1 + (is_list ? taken_ : 0));
      } else {
        const std::string& name = outer.get_ref<const ordered_json::object_t&>().back().first;
        text += (text.empty() ? "" : ".") + name;
      }
    }
    return text;
  }

  const std::string_view list_;
  const TakeElement* const take_ = nullptr;
  std::size_t taken_ = 0;
  ordered_json document_;
  std::vector<ordered_json*> open_;  ///< the containers that have begun and not ended, the outermost first
};

template <class Input>
ordered_json build(Input&& input, DocumentBuilder builder) {
  ordered_json::sax_parse(std::forward<Input>(input), &builder);
  return std::move(builder).document();
}

}  // namespace

std::string syntax_error_text(const ordered_json::parse_error& error) {
  std::string_view text = error.what();
  // The library begins the text with its own name of the error in brackets.
  if (const std::size_t name_end = text.find("] "); name_end != std::string_view::npos)
    text.remove_prefix(name_end + 2);
  constexpr std::string_view at = "parse error at ";
  if (text.starts_with(at)) text.remove_prefix(at.size());
  return std::string(text);
}

ordered_json parse_json(std::string_view text) { return build(text, DocumentBuilder()); }

ordered_json parse_json(std::istream& in) { return build(in, DocumentBuilder()); }

ordered_json parse_json(std::istream& in, std::string_view list, const TakeElement& take) {
  return build(in, DocumentBuilder(list, take));
}

}  // namespace shardproof::base
