#include "harness/protocol/rank_end.hpp"

#include "harness/base/enum_names.hpp"
#include "harness/base/json_fields.hpp"

namespace shardproof::protocol {

std::string_view to_string(RankEnd::AskedBy asked_by) {
  return base::name_of<RankEnd::AskedBy::foreign_launcher>(asked_by, {"none", "launcher", "foreign_launcher"});
}

void to_json(nlohmann::ordered_json& json, const RankEnd& end) {
  json = nlohmann::ordered_json{{"rank", end.rank},
                                {"signalled", end.signalled},
                                {"code", end.code},
                                {"asked_by", to_string(end.asked_by)},
                                {"asked_signal", end.asked_signal},
                                {"lacked_memory", end.lacked_memory},
                                {"stream_bytes", end.stream_bytes},
                                {"standard_output_bytes", end.standard_output_bytes},
                                {"standard_error_bytes", end.standard_error_bytes},
                                {"last_words", end.last_words}};
}

void from_json(const nlohmann::ordered_json& json, RankEnd& end) {
  const base::Fields fields(json, "end of a rank");
  end.rank = fields.integer<int>("rank", 0);
  end.signalled = fields.boolean("signalled");
  end.code = fields.integer<int>("code", 0);
  end.asked_by = base::read_enum(fields, "asked_by", RankEnd::AskedBy::foreign_launcher);
  end.asked_signal = fields.integer<int>("asked_signal", 0);
  end.lacked_memory = fields.boolean("lacked_memory");
  end.stream_bytes = fields.integer<std::uint64_t>("stream_bytes");
  end.standard_output_bytes = fields.integer<std::uint64_t>("standard_output_bytes");
  end.standard_error_bytes = fields.integer<std::uint64_t>("standard_error_bytes");
  end.last_words = fields.text("last_words");
}

}  // namespace shardproof::protocol
