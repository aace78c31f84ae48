#include "harness/subject/reply.hpp"
#include "harness/base/enum_names.hpp"

namespace shardproof {

std::string_view to_string(CallStatus status) {
  return base::name_of<CallStatus::unsupported>(status, {"ok", "failed", "planned_failure", "unsupported"});
}

}  // namespace shardproof
