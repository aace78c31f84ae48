#include "harness/protocol/subject_name.hpp"

#include <fmt/format.h>

#include "harness/base/utf8.hpp"

namespace shardproof::protocol {

std::string objection_to_subject_text(std::string_view text) {
  if (text.empty()) return "it is empty";
  if (text.size() > longest_subject_text)
    return fmt::format("it has {} bytes, and may have {}", text.size(), longest_subject_text);
  if (text.front() == ' ' || text.back() == ' ') return "it begins or ends with a blank";
  while (!text.empty()) {
    const auto character = base::take_character(text);
    if (!character) return "it is not UTF-8";
    if (!base::shows(*character))
      return fmt::format("it has an invisible character, U+{:04X}", static_cast<std::uint32_t>(*character));
  }
  return {};
}

std::string objection_to_subject_name(std::string_view name, std::string_view own) {
  if (std::string why = objection_to_subject_text(name); !why.empty()) return why;
  if (is_shared_object(name) || name.find_first_of(",+") != std::string_view::npos)
    return "without a comma, a plus and a slash, and not ending in .so, --subject can ask for it";
  if (name == own) return {};
  if (name == reference_subject)
    return "so --subject calls the engine that ships with shardproof: it takes a name of its own";
  if (name == pytorch_subject) return "so --subject calls PyTorch as shardproof brings it: it takes a name of its own";
  return {};
}

}  // namespace shardproof::protocol
