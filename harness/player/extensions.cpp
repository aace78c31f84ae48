#include "harness/player/extensions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

namespace shardproof::player {

namespace {

constexpr double int8_scale = 16;

template <class... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw std::invalid_argument(fmt::format(text, std::forward<Arguments>(arguments)...));
}

std::string described(const Tensor& tensor) {
  return tensor.defined() ? fmt::format("{} {}", to_string(tensor.dtype()), shardproof::to_string(tensor.shape()))
                          : "an undefined tensor";
}

bool is_pair(const Model& model, const Extension& extension) {
  if (extension.parameter.empty()) return extension.tensor == TensorKind::two_tensor;
  const std::vector<ParameterShape> all = parameters(model);
  const auto found = std::ranges::find(all, extension.parameter, &ParameterShape::name);
  return found != all.end() && found->tensor == TensorKind::two_tensor;
}

std::vector<Tensor> rows_of(const std::vector<Tensor>& components, std::int64_t rows) {
  std::vector<Tensor> narrowed;
  std::ranges::transform(components, std::back_inserter(narrowed),
                         [rows](const Tensor& component) { return component.narrow(0, rows); });
  return narrowed;
}

// The work of an extension. All of it runs on the stream that its hook is given.
class Workbench {
 public:
  Workbench(Device& device, Stream stream, std::string parameter)
      : device_(device), stream_(stream), parameter_(std::move(parameter)) {}

  Tensor empty(DType dtype, const Shape& shape, MemoryClass memory = MemoryClass::other) const {
    return device_.empty(stream_, dtype, shape, memory, parameter_);
  }
  void submit(std::vector<Tensor> reads, std::vector<Tensor> writes,
              std::function<void(const Kernels&, NativeStream)> run) const {
    device_.submit(stream_, {.kind = WorkKind::other,
                             .label = parameter_,
                             .reads = std::move(reads),
                             .writes = std::move(writes),
                             .run = std::move(run)});
  }
  void copy(const Tensor& out, const Tensor& in) const {
    submit({in}, {out}, [=](const Kernels& kernels, NativeStream on) { kernels.copy(on, out, in); });
  }
  /// Computes `value` from `in` in f32. `in_f32` writes the tensor that it is given. If `value` has another dtype, it
  /// writes to temporary f32 memory, and one rounding follows. The memory is released at once.
  void through_f32(const Tensor& value, const std::vector<Tensor>& in,
                   const std::function<void(const Kernels&, NativeStream, const Tensor& f32)>& in_f32) const {
    if (value.dtype() == DType::f32) {
      return submit(in, {value}, [=](const Kernels& kernels, NativeStream on) { in_f32(kernels, on, value); });
    }
    const Tensor wide = empty(DType::f32, value.shape());
    submit(in, {wide, value}, [=](const Kernels& kernels, NativeStream on) {
      in_f32(kernels, on, wide);
      kernels.copy(on, value, wide);
    });
    device_.release(stream_, wide.storage());
  }
  /// [x * 16, rounded toward zero and saturated; 16]
  std::vector<Tensor> quantised(const Tensor& component) const {
    const Tensor scaled = empty(DType::f32, component.shape());
    const Tensor bytes = empty(DType::i8, component.shape()), factor = empty(DType::f32, {1});
    submit({component}, {scaled, bytes, factor}, [=](const Kernels& kernels, NativeStream on) {
      kernels.scale(on, scaled, component, int8_scale);
      kernels.copy(on, bytes, scaled);
      kernels.fill(on, factor, int8_scale);
    });
    device_.release(stream_, scaled.storage());
    return {bytes, factor};
  }

 private:
  Device& device_;
  Stream stream_;
  std::string parameter_;
};

}  // namespace

// The metadata that pre hooks make and post hooks get back. The play keeps all of it, so that no address identifies two
// of them.
class Extensions::Tickets {
 public:
  std::pair<std::shared_ptr<const void>, std::uint64_t> issue() {
    const auto ticket = std::make_shared<const std::uint64_t>(++issued_);
    numbers_[ticket.get()] = ticket;
    return {ticket, issued_};
  }
  /// Returns 0 for metadata that was not issued here.
  std::uint64_t number(const void* metadata) const {
    const auto found = numbers_.find(metadata);
    return found == numbers_.end() ? 0 : *found->second;
  }

 private:
  std::uint64_t issued_ = 0;
  std::map<const void*, std::shared_ptr<const std::uint64_t>> numbers_;
};

// The hooks of one `extend` in a script.
class Extensions::Named {
 public:
  Named(const Extension& extension, bool is_pair, std::shared_ptr<Notebook> notebook, std::shared_ptr<Tickets> tickets)
      : kind_(extension.kind),
        form_(extension.form),
        is_pair_(is_pair),
        notebook_(std::move(notebook)),
        tickets_(std::move(tickets)) {}

  Reply pre(const ShardView& shard, const ShardContext* context, Stream stream, Contribution& out) {
    return answer("pre", shard.parameter, [&] {
      Callback& call = notebook_->note({.name = shard.parameter, .stream = stream.id, .detail = PreAllGather()});
      auto& detail = std::get<PreAllGather>(call.detail);
      if (context != nullptr) detail.context = *context;
      require_context(context);
      require_components(shard);
      Contribution made;
      made.tensors = contribution(shard, Workbench(notebook_->device(), stream, shard.parameter));
      notebook_->note_tensors(call, stream, made.tensors);
      std::tie(made.metadata, detail.ticket) = tickets_->issue();
      std::vector<Shape>& shapes = contributed_[shard.parameter];
      shapes.clear();
      for (const Tensor& tensor : made.tensors) shapes.push_back(tensor.shape());
      out = std::move(made);
    });
  }

  Reply post(const Contributions& all, Stream stream, const Unsharded* out, Unsharded& made) {
    return answer("post", all.parameter, [&] {
      const PostAllGather detail{
          .ticket = tickets_->number(all.metadata.get()), .out = out, .param_dtype = all.param_dtype};
      Callback& call = notebook_->note({.name = all.parameter, .stream = stream.id, .detail = detail});
      notebook_->note_tensors(call, stream, all.tensors);
      require_contributions(all);
      const Workbench bench(notebook_->device(), stream, all.parameter);
      const bool is_alias = !is_pair_ && all.tensors.front().dtype() == all.param_dtype;
      if (out != nullptr) {
        require_made_before(*out, all, is_alias);
        if (!is_alias) write(out->value, all.tensors, bench);
      } else if (is_alias) {
        made = {.value = all.tensors.front(), .to_free = {}};
      } else {
        const Tensor value = bench.empty(all.param_dtype, all.tensors.front().shape(), MemoryClass::parameter);
        write(value, all.tensors, bench);
        made = {.value = value, .to_free = {value}};
      }
    });
  }

 private:
  // Calls the body. No exception crosses the boundary to the engine, and no hook works on a device that may be gone.
  template <class Body> Reply answer(const char* hook, const std::string& parameter, Body&& body) {
    const auto error = [&](std::string_view what) {
      return Reply::failed(fmt::format("{} hook of \"{}\": {}", hook, parameter, what));
    };
    if (!notebook_->is_open()) return error("called after its play has ended");
    try {
      body();
      return {};
    } catch (const std::exception& failure) {
      return error(failure.what());
    }
  }

  // -- Checks of a hook's operands

  std::size_t components() const { return is_pair_ ? 2 : 1; }
  /// The dtype of each tensor that a rank contributes.
  std::vector<DType> contributed_dtypes() const {
    switch (kind_) {
      case ExtensionKind::bf16: return {DType::bf16};
      case ExtensionKind::int8: return {DType::i8, DType::f32};
      case ExtensionKind::components:
      case ExtensionKind::unpadded:
      case ExtensionKind::truncated: break;
    }
    return std::vector<DType>(components(), DType::f32);
  }

  void require_context(const ShardContext* context) const {
    if (form_ == ExtensionForm::full && context == nullptr) refuse("it has the full form, but received no context");
    if (form_ == ExtensionForm::minimal && context != nullptr)
      refuse("it has the minimal form, but received a context");
  }

  void require_components(const ShardView& shard) const {
    if (shard.components.size() != components())
      refuse("expected a shard of {} tensor{}, found {}", components(), is_pair_ ? "s" : "", shard.components.size());
    for (const Tensor& component : shard.components) {
      const bool fits = component.defined() && component.dtype() == DType::f32 && !component.shape().empty();
      if (!fits) refuse("expected a shard of f32 rows, found {}", described(component));
      if (component.shape() != shard.components.front().shape())
        refuse("the tensors of its shard are {} and {}", described(shard.components.front()), described(component));
      if (shard.rows < 0 || shard.rows > component.shape()[0])
        refuse("it cannot have {} rows in a shard {}", shard.rows, described(component));
    }
  }

  void require_contributions(const Contributions& all) const {
    const auto contributed = contributed_.find(all.parameter);
    if (contributed == contributed_.end()) refuse("the pre hook has contributed nothing for it");
    const std::vector<DType> dtypes = contributed_dtypes();
    if (all.tensors.size() != dtypes.size())
      refuse("expected {} tensor{}, found {}", dtypes.size(), dtypes.size() == 1 ? "" : "s", all.tensors.size());
    std::optional<std::int64_t> ranks;
    for (std::size_t i = 0; i < dtypes.size(); ++i) {
      const Tensor& gathered = all.tensors[i];
      if (!gathered.defined() || gathered.dtype() != dtypes[i])
        refuse("expected tensor {} in {}, found {}", i, to_string(dtypes[i]), described(gathered));
      const std::int64_t found = times(contributed->second[i], gathered.shape());
      const bool fits = found > 0 && found == ranks.value_or(found);
      if (!fits)
        refuse("tensor {} is {}, which does not hold one contribution of {} from each rank", i, described(gathered),
               shardproof::to_string(contributed->second[i]));
      if (numel(contributed->second[i]) > 0) ranks = found;
    }
    const bool is_known =
        all.param_dtype == DType::f32 || all.param_dtype == DType::bf16 || all.param_dtype == DType::f16;
    if (!is_known) refuse("layers cannot compute in {}; expected f32, bf16 or f16", to_string(all.param_dtype));
  }

  /// The number of copies of `one` that make up `whole`, stacked along dim 0. 0 if no number does. Tensors without rows
  /// match any number of ranks, so the result is 1.
  static std::int64_t times(const Shape& one, const Shape& whole) {
    if (whole.size() != one.size() || !std::equal(one.begin() + 1, one.end(), whole.begin() + 1)) return 0;
    if (one[0] == 0) return whole[0] == 0 ? 1 : 0;
    return whole[0] % one[0] == 0 ? whole[0] / one[0] : 0;
  }

  static void require_made_before(const Unsharded& out, const Contributions& all, bool is_alias) {
    const Tensor& first = all.tensors.front();
    const bool fits = out.value.defined() && out.value.dtype() == all.param_dtype && out.value.numel() == first.numel();
    if (!fits)
      refuse("it cannot write {} of {} to {}", to_string(all.param_dtype), described(first), described(out.value));
    if (is_alias && (out.value.storage() != first.storage() || out.value.data() != first.data()))
      refuse("its output is not the same view of the contributions as in the first call");
    const auto shares = [&](const Tensor& tensor) { return tensor.storage() == out.value.storage(); };
    if (!is_alias && std::ranges::any_of(all.tensors, shares))
      refuse("its output lies in the memory of the contributions");
  }

  // -- The results of the hooks

  std::vector<Tensor> contribution(const ShardView& shard, const Workbench& bench) const {
    const Tensor& first = shard.components.front();
    const std::int64_t padded = first.shape()[0];
    switch (kind_) {
      case ExtensionKind::components: break;
      case ExtensionKind::bf16: {
        const Tensor rounded = bench.empty(DType::bf16, first.shape());
        bench.copy(rounded, first);
        return {rounded};
      }
      case ExtensionKind::int8: return bench.quantised(first);
      case ExtensionKind::unpadded: return rows_of(shard.components, shard.rows);
      case ExtensionKind::truncated: return rows_of(shard.components, std::max<std::int64_t>(0, padded - 1));
    }
    return shard.components;
  }

  void write(const Tensor& value, const std::vector<Tensor>& gathered, const Workbench& bench) const {
    if (is_pair_) {
      return bench.through_f32(value, gathered, [=](const Kernels& kernels, NativeStream on, const Tensor& sum) {
        kernels.scale(on, sum, gathered[1], 2);
        kernels.accumulate(on, sum, gathered[0]);
      });
    }
    if (kind_ != ExtensionKind::int8) return bench.copy(value, gathered.front());
    // Divide by 16. The gathered factor is 16, too, so a factor that has not arrived shows in the values. All factors
    // are powers of two, so the result is exact.
    const Tensor factor = gathered[1].flatten().narrow(0, 1);
    bench.through_f32(value, gathered, [=](const Kernels& kernels, NativeStream on, const Tensor& wide) {
      kernels.copy(on, wide, gathered[0]);
      kernels.scale_by(on, wide, wide, factor);
      kernels.scale(on, wide, wide, 1 / (int8_scale * int8_scale));
    });
  }

  ExtensionKind kind_;
  ExtensionForm form_;
  bool is_pair_;
  std::shared_ptr<Notebook> notebook_;
  std::shared_ptr<Tickets> tickets_;
  std::map<std::string, std::vector<Shape>> contributed_;  // the last shapes, by parameter
};

Extensions::Extensions(const Model& model, std::shared_ptr<Notebook> notebook)
    : model_(model), notebook_(std::move(notebook)), tickets_(std::make_shared<Tickets>()) {}

AllGatherExtension Extensions::make(const Extension& extension) const {
  const auto named = std::make_shared<Named>(extension, is_pair(model_, extension), notebook_, tickets_);
  AllGatherExtension made{.form = extension.form, .pre = {}, .post = {}};
  if (extension.pre) {
    made.pre = [named](const ShardView& shard, const ShardContext* context, Stream stream, Contribution& out) {
      return named->pre(shard, context, stream, out);
    };
  }
  if (extension.post) {
    made.post = [named](const Contributions& all, Stream stream, const Unsharded* out, Unsharded& value) {
      return named->post(all, stream, out, value);
    };
  }
  return made;
}

}  // namespace shardproof::player
