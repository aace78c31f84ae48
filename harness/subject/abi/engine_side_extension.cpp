#include "harness/subject/abi/engine_side_extension.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "harness/scenario/parts_json.hpp"
#include "harness/subject/abi/words.hpp"

namespace shardproof::subject::abi {

namespace {

class EngineSideExtension {
 public:
  EngineSideExtension(EngineSideDevice& device, const shardproof_extension& extension)
      : device_(device), extension_(extension) {}

  Reply pre(const ShardView& shard, const ShardContext* context, Stream stream, Contribution& out) {
    Shapes shapes;
    const std::vector<shardproof_tensor> components = give(shard.components, shapes);
    const shardproof_shard given{.parameter = shard.parameter.c_str(),
                                 .components = components.data(),
                                 .component_count = components.size(),
                                 .rows = shard.rows};
    std::string policy;
    shardproof_shard_context shard_context{};
    if (context != nullptr) {
      policy = scenario::write_mixed_precision(context->policy).dump();
      shard_context = {.mesh = context->mesh.data(),
                       .mesh_size = context->mesh.size(),
                       .shape = context->shape.data(),
                       .stride = context->stride.data(),
                       .ndim = static_cast<int>(context->shape.size()),
                       .module = context->module.c_str(),
                       .policy = policy.c_str()};
    }
    shardproof_contribution made{};
    if (extension_.pre(extension_.context, &given, context == nullptr ? nullptr : &shard_context, stream.id, &made) !=
        SHARDPROOF_OK)
      return failed();
    out.tensors = device_.take_answer({made.tensors, made.tensor_count});
    out.metadata = made.metadata == 0 ? nullptr : std::make_shared<const std::uint64_t>(made.metadata);
    return {};
  }

  Reply post(const Contributions& all, Stream stream, const Unsharded* out, Unsharded& made) {
    Shapes shapes;
    const std::vector<shardproof_tensor> tensors = give(all.tensors, shapes);
    const shardproof_contributions given{
        .parameter = all.parameter.c_str(),
        .tensors = tensors.data(),
        .tensor_count = tensors.size(),
        .metadata = all.metadata ? *static_cast<const std::uint64_t*>(all.metadata.get()) : 0,
        .param_dtype = to_c(all.param_dtype)};
    shardproof_unsharded again{}, answer{};
    std::vector<shardproof_tensor> to_free;
    if (out != nullptr) {
      const auto id = ids_.find(out);
      if (id == ids_.end()) return Reply::failed("the post hook must write into a parameter that it has not made");
      to_free = give(out->to_free, shapes);
      again = {.id = id->second,
               .value = device_.give(out->value, shapes),
               .to_free = to_free.data(),
               .to_free_count = to_free.size()};
    }
    if (extension_.post(extension_.context, &given, stream.id, out == nullptr ? nullptr : &again, &answer) !=
        SHARDPROOF_OK)
      return failed();
    if (answer.id == 0) return {};
    std::vector<shardproof_tensor> named(answer.to_free, answer.to_free + answer.to_free_count);
    named.push_back(answer.value);
    made.to_free = device_.take_answer(named);
    made.value = std::move(made.to_free.back());
    made.to_free.pop_back();
    ids_[&made] = answer.id;
    return {};
  }

 private:
  std::vector<shardproof_tensor> give(const std::vector<Tensor>& tensors, Shapes& shapes) const {
    std::vector<shardproof_tensor> given;
    std::ranges::transform(tensors, std::back_inserter(given),
                           [&](const Tensor& tensor) { return device_.give(tensor, shapes); });
    return given;
  }
  Reply failed() const { return Reply::failed(extension_.error(extension_.context)); }

  EngineSideDevice& device_;
  const shardproof_extension extension_;
  std::map<const Unsharded*, std::uint64_t> ids_;
};

}  // namespace

AllGatherExtension engine_side_extension(EngineSideDevice& device, const shardproof_extension& extension) {
  const auto borrowed = std::make_shared<EngineSideExtension>(device, extension);
  AllGatherExtension hooks{
      .form = extension.is_full != 0 ? ExtensionForm::full : ExtensionForm::minimal, .pre = {}, .post = {}};
  if (extension.has_pre != 0) {
    hooks.pre = [borrowed](const ShardView& shard, const ShardContext* context, Stream stream, Contribution& out) {
      return borrowed->pre(shard, context, stream, out);
    };
  }
  if (extension.has_post != 0) {
    hooks.post = [borrowed](const Contributions& all, Stream stream, const Unsharded* out, Unsharded& made) {
      return borrowed->post(all, stream, out, made);
    };
  }
  return hooks;
}

}  // namespace shardproof::subject::abi
