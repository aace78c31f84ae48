// A subject that trains nothing, and reports the compiled steps that a test gives it.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "harness/subject/subject.hpp"

namespace shardproof::testing {

class CompilingSubject final : public Subject {
 public:
  /// Answers the request for the compiled plan after backward N, counted from 0. Empty: the engine compiles nothing.
  using Answer = std::function<Reply(int backward, std::vector<StepGraph>& out)>;

  explicit CompilingSubject(Answer answer) : answer_(std::move(answer)) {}
  std::string_view name() const override { return "compiling"; }
  std::string_view version() const override { return "1"; }
  Claims claims() const override { return {{"replicate", {}}}; }
  Reply create(const Model& /*model*/, const Plan& /*plan*/, const EngineContext& /*engine_context*/,
               std::unique_ptr<Trainer>& out) override {
    out = std::make_unique<Compiling>(answer_);
    return {};
  }

 private:
  class Compiling final : public Trainer {
   public:
    explicit Compiling(Answer answer) : answer_(std::move(answer)) {}
    Reply perform(const Action& action, const Batch& /*batch*/) override {
      if (action.kind == ActionKind::backward) ++backwards_;
      return {};
    }
    Reply loss(Tensor& /*out*/) override { return Reply::failed("no loss"); }
    Reply parameters(std::vector<ParameterView>& /*out*/) override { return {}; }
    Reply compiled_plan(std::vector<StepGraph>& out) override {
      return answer_ ? answer_(backwards_ - 1, out) : Trainer::compiled_plan(out);
    }

   private:
    Answer answer_;
    int backwards_ = 0;
  };

  Answer answer_;
};

}  // namespace shardproof::testing
