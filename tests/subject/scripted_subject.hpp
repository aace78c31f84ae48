// A subject in C that runs a test's acts, and otherwise the minimum that is right. Its model has one parameter,
// "0.linear.weight", and it is the only rank.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/subject/shardproof.h"

namespace shardproof::testing {

class ScriptedSubject {
 public:
  using Act = std::function<shardproof_status(ScriptedSubject&, shardproof_reply*)>;

  ScriptedSubject() {
    table.abi_version = SHARDPROOF_ABI_VERSION;
    table.size = sizeof table;
    table.name = "scripted";
    table.version = "7";
    table.claims = claims.data();
    table.claim_count = claims.size();
    table.context = this;
    table.create = [](void* self, const char* said_model, const char* said_plan, const shardproof_engine_context* given,
                      shardproof_trainer** made, shardproof_reply* reply) {
      auto& it = *static_cast<ScriptedSubject*>(self);
      it.model = said_model;
      it.plan = said_plan;
      it.engine_context = given;
      *made = reinterpret_cast<shardproof_trainer*>(self);
      return act(it, it.create, reply);
    };
    table.destroy = [](shardproof_trainer* trainer, shardproof_reply* reply) {
      of(trainer).destroyed += 1;
      return act(of(trainer), of(trainer).destroy, reply);
    };
    table.perform = [](shardproof_trainer* trainer, const char* call, const shardproof_tensor* first,
                       const shardproof_tensor* second, shardproof_reply* reply) {
      of(trainer).action = call;
      of(trainer).input = *first;
      of(trainer).targets = *second;
      return act(of(trainer), of(trainer).perform, reply);
    };
    table.loss = [](shardproof_trainer* trainer, shardproof_tensor* answer, shardproof_reply* reply) {
      const shardproof_status status = act(of(trainer), of(trainer).loss, reply);
      *answer = of(trainer).the_loss;
      return status;
    };
    table.parameters = [](shardproof_trainer* trainer, const shardproof_parameter** answer, std::size_t* count,
                          shardproof_reply* reply) {
      const shardproof_status status = act(of(trainer), of(trainer).parameters, reply);
      *answer = of(trainer).the_parameters.data();
      *count = of(trainer).the_parameters.size();
      return status;
    };
    the_parameters.push_back(
        {.name = "0.linear.weight", .shape = shape.data(), .ndim = 2, .shard = of_host(values.data(), shape)});
    the_loss = of_host(values.data(), one);
  }
  ScriptedSubject(const ScriptedSubject&) = delete;
  ScriptedSubject& operator=(const ScriptedSubject&) = delete;

  const shardproof_harness& harness() const { return *engine_context->harness; }
  const char* error() const { return harness().error(engine_context->device); }

  template <std::size_t N>
  static shardproof_tensor of_host(float* data, std::array<std::int64_t, N>& shape) {
    return {.view = {.data = data,
                     .device = {kDLCPU, 0},
                     .ndim = static_cast<int>(N),
                     .dtype = {kDLFloat, 32, 1},
                     .shape = shape.data(),
                     .strides = nullptr,
                     .byte_offset = 0},
            .buffer = nullptr};
  }

  shardproof_subject table{};
  std::vector<const char*> features{nullptr};
  std::vector<shardproof_claim> claims{{"fully_shard", features.data()}};
  Act create, destroy, perform, loss, parameters;

  // The arguments of the last calls, and the answers.
  std::string model, plan, action;
  const shardproof_engine_context* engine_context = nullptr;
  const shardproof_extension* extension = nullptr;
  const shardproof_gradient_hook* gradient_hook = nullptr;
  shardproof_tensor input{}, targets{}, the_loss{};
  int destroyed = 0;
  alignas(8) std::array<float, 16> values{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  std::array<std::int64_t, 2> shape{4, 4};
  std::array<std::int64_t, 0> one{};
  std::vector<shardproof_parameter> the_parameters;

 private:
  static ScriptedSubject& of(shardproof_trainer* trainer) { return *reinterpret_cast<ScriptedSubject*>(trainer); }
  static shardproof_status act(ScriptedSubject& self, const Act& act, shardproof_reply* reply) {
    if (!act) return SHARDPROOF_OK;
    return act(self, reply);
  }
};

}  // namespace shardproof::testing
