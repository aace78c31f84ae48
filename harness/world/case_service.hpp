// CaseService is what a program adds to each rank of its worlds, such as the engine that cases play scenarios on. The
// world calls it at the start and at the end of each case. This base class adds nothing.
#pragma once

#include <sys/types.h>

#include <string>

#include "harness/protocol/case_info.hpp"

namespace shardproof::world {

class World;

/// What a case left on its rank. A case must leave nothing.
struct CaseLeftovers {
  std::string engine_failure;  ///< The engine failed when it was destroyed.
  std::string live_memory;     ///< Buffers that the engine did not free.
  std::string device_failure;  ///< The device failed at the end of its work.
};

class CaseService {
 public:
  virtual ~CaseService() = default;

  /// The name and version of the engine, which must be the same on all ranks. "none": there is no engine.
  virtual std::string subject() const { return "none"; }
  /// Called once, after all ranks have joined. Collective over the world, which outlives the service.
  virtual void join(World& /*world*/) {}
  /// Why the case cannot run, because its engine kind or a feature that it needs is missing. Empty: it can run.
  virtual std::string missing(const protocol::CaseInfo& info) const;
  virtual void begin_case() {}
  /// Returns the leftovers of the case, once.
  virtual CaseLeftovers take_leftovers() { return {}; }
  /// Why this process can run no further case. Empty: it can.
  virtual std::string defect() const { return {}; }
  /// True if a runtime lives in this process, such as the framework of an engine. It may handle signals until the
  /// process ends.
  virtual bool has_runtime() const { return false; }
  /// True if that runtime keeps the thread.
  virtual bool is_of_runtime(pid_t /*thread*/) const { return false; }
  /// The case has failed on this rank. Writes what helps to repeat it.
  virtual void keep_evidence() {}
};

}  // namespace shardproof::world
