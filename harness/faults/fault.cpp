#include "harness/faults/fault.hpp"

#include <algorithm>

namespace shardproof {

namespace {

// Registrations fill it before main; afterwards it is read-only. It is a function's static variable, so that the order
// of initialisation does not matter.
std::vector<Fault>& registry() {
  static std::vector<Fault> faults;
  return faults;
}

}  // namespace

const std::vector<Fault>& declared_faults() { return registry(); }

detail::FaultRegistration::FaultRegistration(std::string name, std::vector<std::string> clauses, std::string what,
                                             std::unique_ptr<Subject> (*apply)(std::unique_ptr<Subject>)) {
  Fault fault{{std::move(name), std::move(clauses), std::move(what)}, apply};
  auto& faults = registry();
  const auto place =
      std::ranges::upper_bound(faults, fault.info.name, {}, [](const Fault& other) { return other.info.name; });
  faults.insert(place, std::move(fault));
}

}  // namespace shardproof
