// Declares faults: deliberate defects that measure cases. A case's worth is the set of faults that it notices. A fault
// is outside every engine. It alters the engine's scenario, the calls to the engine, or the engine's device and
// communicator.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/protocol/case_info.hpp"
#include "harness/subject/subject.hpp"

namespace shardproof {

struct Fault {
  protocol::FaultInfo info;
  std::function<std::unique_ptr<Subject>(std::unique_ptr<Subject>)> apply;
};

/// All faults of the program, sorted by name.
const std::vector<Fault>& declared_faults();

template <class... Ids> std::vector<std::string> breaks(Ids... ids) { return {std::string(ids)...}; }

namespace detail {
struct FaultRegistration {
  FaultRegistration(std::string name, std::vector<std::string> clauses, std::string what,
                    std::unique_ptr<Subject> (*apply)(std::unique_ptr<Subject>));
};
}  // namespace detail

}  // namespace shardproof

/// FAULT(identifier, breaks("OVL-5"), "what is wrong") { return …(std::move(subject)); }
#define FAULT(name, clauses, what)                                                                              \
  static std::unique_ptr<::shardproof::Subject> fault_##name(std::unique_ptr<::shardproof::Subject> subject);   \
  namespace {                                                                                                   \
  const ::shardproof::detail::FaultRegistration fault_##name##_registration(#name, ::shardproof::clauses, what, \
                                                                            &fault_##name);                     \
  }                                                                                                             \
  static std::unique_ptr<::shardproof::Subject> fault_##name(std::unique_ptr<::shardproof::Subject> subject)
