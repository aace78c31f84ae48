#include "harness/player/gradient_hooks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

namespace shardproof::player {

namespace {

// The hook of one `register_hook` in a script.
class NamedHook {
 public:
  NamedHook(Hook hook, Communicator& world, int rank, std::shared_ptr<Notebook> notebook)
      : hook_(std::move(hook)), world_(world), rank_(rank), notebook_(std::move(notebook)) {}

  Reply call(std::uint64_t state, const HookedGradient& operands, Stream stream) const {
    try {
      if (!notebook_->is_open()) throw std::logic_error("a gradient hook is called after the play has ended");
      const std::size_t callback = note(state, operands, stream);
      if (std::ranges::find(hook_.fails_on, rank_) != hook_.fails_on.end())
        throw std::runtime_error(fmt::format("the gradient hook fails on rank {}, as planned by the script", rank_));
      if (hook_.point == HookPoint::reduction) reduce(callback, operands, stream);
      if (hook_.kind == HookKind::doubled) scale(result(operands), 2, operands.label, stream);
      notebook_->note_result(callback, stream, result(operands));
      return {};
    } catch (const std::exception& error) {
      return Reply::failed(error.what());
    }
  }

 private:
  static const Tensor& result(const HookedGradient& operands) {
    return operands.output.defined() ? operands.output : operands.gradient;
  }

  std::size_t note(std::uint64_t state, const HookedGradient& operands, Stream stream) const {
    if (!operands.gradient.defined())
      throw std::invalid_argument(fmt::format("the gradient of \"{}\" is undefined", operands.label));
    Callback& call =
        notebook_->note({.name = operands.label,
                         .stream = stream.id,
                         .detail = GradientHookCall{.hook = hook_.kind, .point = hook_.point, .state = state}});
    std::vector<Tensor> tensors{operands.gradient};
    if (operands.output.defined()) tensors.push_back(operands.output);
    notebook_->note_tensors(call, stream, tensors);
    return notebook_->last_callback();
  }

  // Sums over ranks. All kinds but `sum` then divide once.
  void reduce(std::size_t callback, const HookedGradient& operands, Stream stream) const {
    const Tensor& gradient = operands.gradient;
    const Tensor& output = operands.output;
    if (output.defined() && output.numel() * world_.size() != gradient.numel())
      throw std::invalid_argument(
          fmt::format("the gradient of \"{}\" has {} elements, and the output {}; {} ranks share the gradient",
                      operands.label, gradient.numel(), output.numel(), world_.size()));
    if (world_.size() == 1) {
      if (output.defined()) copy(output, gradient, operands.label, stream);
    } else {
      const bool scatters = output.defined();
      world_.run(stream, {.kind = scatters ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
                          .op = ReduceOp::sum,
                          .in = gradient,
                          .out = scatters ? output : gradient,
                          .tag = operands.label});
      notebook_->note_collective(callback);
    }
    if (hook_.kind != HookKind::sum) divide(result(operands), world_.size(), operands.label, stream);
  }

  void copy(const Tensor& out, const Tensor& in, const std::string& label, Stream stream) const {
    notebook_->device().submit(stream,
                               {.kind = WorkKind::other,
                                .label = label,
                                .reads = {in},
                                .writes = {out},
                                .run = [=](const Kernels& kernels, NativeStream on) { kernels.copy(on, out, in); }});
  }

  void divide(const Tensor& values, double divisor, const std::string& label, Stream stream) const {
    change(values, label, stream,
           [=](const Kernels& kernels, NativeStream on) { kernels.divide(on, values, values, divisor); });
  }
  void scale(const Tensor& values, double factor, const std::string& label, Stream stream) const {
    change(values, label, stream,
           [=](const Kernels& kernels, NativeStream on) { kernels.scale(on, values, values, factor); });
  }
  void change(const Tensor& values, const std::string& label, Stream stream,
              std::function<void(const Kernels&, NativeStream)> run) const {
    notebook_->device().submit(
        stream,
        {.kind = WorkKind::other, .label = label, .reads = {values}, .writes = {values}, .run = std::move(run)});
  }

  Hook hook_;
  Communicator& world_;
  int rank_;
  std::shared_ptr<Notebook> notebook_;
};

}  // namespace

GradientHooks::GradientHooks(Communicator& world, int rank, std::shared_ptr<Notebook> notebook)
    : world_(world), rank_(rank), notebook_(std::move(notebook)) {}

GradientHook GradientHooks::make(const Hook& hook) const {
  GradientHook made{.state = static_cast<std::uint64_t>(hook.state)};
  if (hook.kind == HookKind::not_callable) return made;
  made.call = [named = NamedHook(hook, world_, rank_, notebook_)](std::uint64_t state, const HookedGradient& operands,
                                                                  Stream stream) {
    return named.call(state, operands, stream);
  };
  return made;
}

}  // namespace shardproof::player
