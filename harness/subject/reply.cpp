#include "harness/subject/reply.hpp"

namespace shardproof {

std::string_view to_string(CallStatus status) {
  switch (status) {
    case CallStatus::ok: return "ok";
    case CallStatus::failed: return "failed";
    case CallStatus::planned_failure: return "planned_failure";
    case CallStatus::unsupported: return "unsupported";
  }
  return "";
}

}  // namespace shardproof
