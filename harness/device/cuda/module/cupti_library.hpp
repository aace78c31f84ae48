// CUPTI as it is found when somebody first asks for it. It is not linked: machines that have but a driver do not have it, and a run that
// takes its times from events does without.
#pragma once

#include <cupti_activity.h>
#include <cupti_version.h>

#include <string>

namespace shardproof::cuda {

/// Its functions; nullptr those that it does not have.
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
  std::string objection;  ///< why none of it is to be called; empty: it can be
};

/// Loads it when it is first called, for the life of the process.
const FoundCupti& found_cupti();

}  // namespace shardproof::cuda
