// A subject's trainer on the only rank of a world.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "harness/control/control_page.hpp"
#include "harness/device/sim/sim_device.hpp"
#include "harness/fabric/shm/shm_fabric.hpp"
#include "harness/scenario/builder.hpp"
#include "harness/subject/abi/table_subject.hpp"
#include "tests/subject/scripted_subject.hpp"

namespace shardproof::testing {

struct Alone {
  control::ControlPage control = control::ControlPage::anonymous(1);
  std::shared_ptr<Group> group =
      fabric::make_thread_world({.control = &control, .epoch = [](int) { return 1U; }}).front();
  device::SimDevice device{{}, 0};
  std::unique_ptr<Communicator> world = device.communicator(*group);
  ScriptedSubject scripted;
  std::unique_ptr<Subject> subject = subject::table_subject(&scripted.table, "here");
  Scenario scenario = sleeping_stack(1);
  std::unique_ptr<Trainer> trainer;

  Reply create() { return subject->create(scenario.model, scenario.plan, {device, *world, 0}, trainer); }
  /// Calls `perform` with this act of the subject, and returns its reply.
  Reply perform(ScriptedSubject::Act act, ActionKind kind = ActionKind::step, const Batch& batch = {}) {
    if (!trainer) create();
    scripted.perform = std::move(act);
    return trainer->perform({.kind = kind}, batch);
  }
  /// The error of a function of the harness that `call` calls, or `nothing`.
  std::string objection(
      const std::function<shardproof_status(const shardproof_harness& harness, shardproof_device* device)>& call) {
    std::string said = "nothing";
    perform([&](ScriptedSubject& it, shardproof_reply*) {
      if (call(it.harness(), it.engine_context->device) != SHARDPROOF_OK) said = it.error();
      return 0;
    });
    return said;
  }
};

inline constexpr DLDataType f32{kDLFloat, 32, 1};

inline shardproof_buffer* allocated(ScriptedSubject& it, std::size_t bytes, const char* label = "mine") {
  shardproof_buffer* buffer = nullptr;
  const shardproof_status status =
      it.harness().allocate(it.engine_context->device, 0, bytes, SHARDPROOF_MEMORY_OTHER, label, &buffer);
  if (status != SHARDPROOF_OK) throw std::runtime_error(it.error());
  return buffer;
}

}  // namespace shardproof::testing
