// CUPTI, loaded at the first request. It is not linked: machines with only a driver do not have it, and a run that
// takes its times from events does not need it.
#pragma once

#include <cupti_activity.h>
#include <cupti_version.h>

#include <string>

namespace shardproof::device::cuda {

/// CUPTI's functions; nullptr for a function that the library lacks.
struct CuptiLibrary {
  decltype(&cuptiGetVersion) get_version;
  decltype(&cuptiGetResultString) result_string;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks;
  decltype(&cuptiActivityEnable) enable;
  decltype(&cuptiActivityDisable) disable;
  decltype(&cuptiActivityFlushAll) flush_all;
  decltype(&cuptiActivityGetNextRecord) next_record;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped_records;
  decltype(&cuptiActivityPushExternalCorrelationId) push_id;
  decltype(&cuptiActivityPopExternalCorrelationId) pop_id;
};

struct FoundCupti {
  CuptiLibrary library{};
  std::string objection;  ///< Why no function may be called; empty: all may be called.
};

/// Loads CUPTI at the first call, for the life of the process.
const FoundCupti& found_cupti();

}  // namespace shardproof::device::cuda
