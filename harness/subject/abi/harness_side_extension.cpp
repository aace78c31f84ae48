#include "harness/subject/abi/harness_side_extension.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "harness/base/json_parse.hpp"
#include "harness/scenario/parts_json.hpp"
#include "harness/subject/abi/demands.hpp"
#include "harness/subject/abi/words.hpp"

namespace shardproof::subject::abi {

namespace {

template <class T>
std::vector<T> list(const T* values, std::size_t count, std::string_view what) {
  if (count > 0) there(values, what);
  return {values, values + count};
}

void require(const Reply& reply) {
  if (!reply.ok()) throw std::runtime_error(reply.error());
}

}  // namespace

HarnessSideExtension::HarnessSideExtension(HarnessSide& engine_context, AllGatherExtension extension)
    : engine_context_(engine_context), extension_(std::move(extension)) {
  in_c_ = {.context = this,
           .is_full = extension_.form == ExtensionForm::full ? 1 : 0,
           .has_pre = extension_.pre ? 1 : 0,
           .has_post = extension_.post ? 1 : 0,
           .pre = nullptr,
           .post = nullptr,
           .error = [](void* self) {
             auto& it = *static_cast<HarnessSideExtension*>(self);
             return it.engine_context_.thread().is_this() ? it.error_.c_str() : OwnThread::objection;
           }};
  if (extension_.pre) {
    in_c_.pre = [](void* self, const shardproof_shard* shard, const shardproof_shard_context* context,
                   std::uint32_t stream, shardproof_contribution* out) {
      auto& it = *static_cast<HarnessSideExtension*>(self);
      return it.guarded([&] {
        shardproof_contribution& answer = there(out, "the pointer for the contribution");
        it.pre(there(shard, "the shard"), context, it.engine_context_.stream(stream, "the hook's stream"), answer);
      });
    };
  }
  if (extension_.post) {
    in_c_.post = [](void* self, const shardproof_contributions* all, std::uint32_t stream,
                    const shardproof_unsharded* out, shardproof_unsharded* made) {
      auto& it = *static_cast<HarnessSideExtension*>(self);
      return it.guarded([&] {
        shardproof_unsharded& answer = there(made, "the pointer for the result");
        it.post(there(all, "the contributions"), it.engine_context_.stream(stream, "the hook's stream"), out, answer);
      });
    };
  }
}

template <class Call>
shardproof_status HarnessSideExtension::guarded(Call&& call) {
  if (!engine_context_.thread().is_this()) return SHARDPROOF_FAILED;
  shapes_.clear();
  tensors_.clear();
  const shardproof_status status = engine_context_.guarded(std::forward<Call>(call));
  if (status != SHARDPROOF_OK) error_ = engine_context_.error();
  return status;
}

std::vector<Tensor> HarnessSideExtension::take(const shardproof_tensor* tensors, std::size_t count,
                                               std::string_view what) const {
  if (count > 0) there(tensors, what);
  std::vector<Tensor> taken;
  taken.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    taken.push_back(engine_context_.take(tensors[i], fmt::format("{}[{}]", what, i)));
  return taken;
}

void HarnessSideExtension::pre(const shardproof_shard& shard, const shardproof_shard_context* context, Stream stream,
                               shardproof_contribution& out) {
  const ShardView view{.parameter = &there(shard.parameter, "the parameter's name"),
                       .components = take(shard.components, shard.component_count, "components"),
                       .rows = shard.rows};
  ShardContext given;
  if (context != nullptr) {
    require_dimensions(context->ndim, context->shape, "the context");
    const nlohmann::ordered_json policy = base::parse_json(&there(context->policy, "the policy"));
    const auto dims = static_cast<std::size_t>(context->ndim);
    given = {.mesh = list(context->mesh, context->mesh_size, "the mesh"),
             .shape = list(context->shape, dims, "the shape"),
             .stride = list(context->stride, dims, "the strides"),
             .module = &there(context->module, "the module's path"),
             .policy = scenario::read_mixed_precision({policy, "policy"})};
  }
  Contribution made;
  require(extension_.pre(view, context == nullptr ? nullptr : &given, stream, made));
  engine_context_.hold(made.tensors, view.parameter);
  for (const Tensor& tensor : made.tensors) tensors_.push_back(engine_context_.give(tensor, shapes_));
  out = {.tensors = tensors_.data(), .tensor_count = tensors_.size(), .metadata = 0};
  if (!made.metadata) return;
  out.metadata = metadata_.size() + 1;
  metadata_[out.metadata] = std::move(made.metadata);
}

void HarnessSideExtension::post(const shardproof_contributions& all, Stream stream, const shardproof_unsharded* out,
                                shardproof_unsharded& made) {
  const auto metadata = metadata_.find(all.metadata);
  const Contributions given{.parameter = &there(all.parameter, "the parameter's name"),
                            .tensors = take(all.tensors, all.tensor_count, "contributions"),
                            .metadata = metadata == metadata_.end() ? nullptr : metadata->second,
                            .param_dtype = dtype_from_c(all.param_dtype)};
  // Between calls the subject owns the parameter. In each call it gives the parameter's current tensors.
  struct Lent {
    Unsharded* unsharded;
    ~Lent() {
      if (unsharded != nullptr) *unsharded = {};
    }
  } lent{nullptr};
  if (out != nullptr) {
    lent.unsharded = &find(out->id);
    *lent.unsharded = {.value = engine_context_.take(out->value, "out: value"),
                       .to_free = take(out->to_free, out->to_free_count, "out: to_free")};
  }
  auto answered = std::make_unique<Unsharded>();
  require(extension_.post(given, stream, lent.unsharded, *answered));
  made = {};
  if (!answered->value.defined() && answered->to_free.empty()) return;
  std::vector<Tensor> named = answered->to_free;
  named.push_back(answered->value);
  engine_context_.hold(named, given.parameter);
  made = give(made_.size() + 1, *answered);
  *answered = {};
  made_[made.id] = std::move(answered);
}

Unsharded& HarnessSideExtension::find(std::uint64_t id) {
  const auto found = made_.find(id);
  if (found == made_.end()) refuse("out", fmt::format("this extension has made nothing with id {}", id));
  return *found->second;
}

shardproof_unsharded HarnessSideExtension::give(std::uint64_t id, const Unsharded& made) {
  for (const Tensor& tensor : made.to_free) tensors_.push_back(engine_context_.give(tensor, shapes_));
  return {.id = id,
          .value = engine_context_.give(made.value, shapes_),
          .to_free = tensors_.data(),
          .to_free_count = tensors_.size()};
}

}  // namespace shardproof::subject::abi
