#include "harness/device/cuda/module/cupti_library.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <type_traits>

#include "harness/device/cuda/module/cupti_objection.hpp"

namespace shardproof::device::cuda {

namespace {

FoundCupti load() {
  FoundCupti found;
  CuptiState state{.name = fmt::format("libcupti.so.{}", CUDART_VERSION / 1000), .built_with = CUPTI_API_VERSION};
  void* const object = ::dlopen(state.name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) {
    state.loader_says = ::dlerror();
    found.objection = cupti_objection(state);
    return found;
  }
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(object, name));
    if (function == nullptr && state.lacks.empty()) state.lacks = name;
  };
  CuptiLibrary& library = found.library;
  find(library.get_version, "cuptiGetVersion");
  find(library.result_string, "cuptiGetResultString");
  find(library.register_callbacks, "cuptiActivityRegisterCallbacks");
  find(library.enable, "cuptiActivityEnable");
  find(library.disable, "cuptiActivityDisable");
  find(library.flush_all, "cuptiActivityFlushAll");
  find(library.next_record, "cuptiActivityGetNextRecord");
  find(library.dropped_records, "cuptiActivityGetNumDroppedRecords");
  find(library.push_id, "cuptiActivityPushExternalCorrelationId");
  find(library.pop_id, "cuptiActivityPopExternalCorrelationId");
  if (library.get_version != nullptr) library.get_version(&state.version);
  found.objection = cupti_objection(state);
  return found;
}

}  // namespace

const FoundCupti& found_cupti() {
  static const FoundCupti found = load();
  return found;
}

}  // namespace shardproof::device::cuda
