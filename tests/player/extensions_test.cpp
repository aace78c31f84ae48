// The extensions that a script can name, called as an engine calls them by a subject that gathers from itself alone.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "harness/control/control_page.hpp"
#include "harness/fabric/shm/shm_fabric.hpp"
#include "harness/scenario/builder.hpp"
#include "tests/player/simulated.hpp"

using namespace shardproof;
using namespace shardproof::scenario;

namespace {

constexpr int ranks = 2;  // of which the subject is all

/// The mistakes of a subject.
struct Slip {
  std::function<void(ShardView&)> shard;
  std::function<void(Contributions&)> gathered;
  std::function<void(Unsharded&)> kept;  ///< before a later gather
  bool forgets_context = false;
};

/// The results that the subject got.
struct Haul {
  std::vector<std::vector<double>> values;  ///< of each gather
  std::vector<DType> dtypes;
  std::vector<std::size_t> freed;  ///< how many tensors go with each
  AllGatherExtension extension;
};

/// Every forward gathers one parameter, whose shard has three rows and is two ranks' at once, on a stream of its own.
class Gatherer final : public Trainer {
 public:
  Gatherer(Device& device, bool is_pair, DType param_dtype, ExtensionForm form, Slip slip, Haul& haul)
      : device_(device),
        param_dtype_(param_dtype),
        form_(form),
        slip_(std::move(slip)),
        haul_(haul),
        gathers_(device.create_stream(StreamRole::all_gather, "all_gather")) {
    shard_ = {.parameter = "0.linear.weight", .components = {filled({1, -0.5F, 1.00390625F, 9, 0, 0})}, .rows = 2};
    if (is_pair) shard_.components.push_back(filled({0.5F, 1, 0.0001220703125F, -1, 0, 0}));
    loss_ = filled({3}, {1});
    device_.wait(gathers_, Device::compute);
  }

  Reply perform(const Action& action, const Batch&) override {
    return action.kind == ActionKind::forward ? gather() : Reply{};
  }
  Reply register_all_gather_extension(const ExtensionTarget&, AllGatherExtension extension) override {
    if (!extension.pre || !extension.post)
      return Reply::failed(extension.pre ? "lacks its post hook" : "lacks its pre hook");
    haul_.extension = std::move(extension);
    return {};
  }
  Reply loss(Tensor& out) override {
    out = loss_;
    return {};
  }
  Reply parameters(std::vector<ParameterView>&) override { return {}; }

 private:
  Tensor filled(std::vector<float> values, Shape shape = {3, 2}) {
    const Tensor host = Tensor::of<float>(std::move(shape), values);
    const Tensor made = device_.empty(Device::compute, DType::f32, host.shape(), MemoryClass::parameter, "shard");
    device_.submit(Device::compute,
                   {.kind = WorkKind::fill,
                    .label = "shard",
                    .writes = {made},
                    .run = [=](const Kernels& kernels, NativeStream on) { kernels.copy(on, made, host); }});
    return made;
  }

  // Returns `tensor` once for each rank, stacked.
  Tensor stacked(const Tensor& tensor) {
    Shape shape = tensor.shape();
    shape[0] *= ranks;
    const Tensor all = device_.empty(gathers_, tensor.dtype(), shape, MemoryClass::other, "gathered");
    device_.submit(gathers_, {.kind = WorkKind::copy_in,
                              .label = "gathered",
                              .reads = {tensor},
                              .writes = {all},
                              .run = [=](const Kernels& kernels, NativeStream on) {
                                const std::int64_t rows = tensor.shape()[0];
                                for (int rank = 0; rank < ranks; ++rank)
                                  kernels.copy(on, all.narrow(rank * rows, rows), tensor);
                              }});
    return all;
  }

  Reply gather() {
    ShardView shard = shard_;
    if (slip_.shard) slip_.shard(shard);
    const ShardContext context{.mesh = {0, 1}, .shape = {4, 2}, .stride = {2, 1}, .module = "0.linear", .policy = {}};
    Contribution given;
    const bool passes_context = form_ == ExtensionForm::full && !slip_.forgets_context;
    if (Reply reply = haul_.extension.pre(shard, passes_context ? &context : nullptr, gathers_, given); !reply.ok())
      return reply;

    Contributions all{
        .parameter = shard_.parameter, .tensors = {}, .metadata = given.metadata, .param_dtype = param_dtype_};
    for (const Tensor& tensor : given.tensors) all.tensors.push_back(stacked(tensor));
    const bool is_first = !whole_.value.defined();
    if (!is_first && whole_.to_free.empty()) whole_.value = all.tensors.front();
    if (!is_first && !whole_.to_free.empty()) {
      whole_.value =
          device_.empty(gathers_, whole_.value.dtype(), whole_.value.shape(), MemoryClass::parameter, "anew");
      whole_.to_free = {whole_.value};
    }
    if (!is_first && slip_.kept) slip_.kept(whole_);
    if (slip_.gathered) slip_.gathered(all);
    if (Reply reply = haul_.extension.post(all, gathers_, is_first ? nullptr : &whole_, whole_); !reply.ok())
      return reply;
    device_.synchronize(gathers_);
    device_.host_access("whole", {whole_.value}, {});
    haul_.values.push_back(device_.to_host(whole_.value).to_doubles());
    haul_.dtypes.push_back(whole_.value.dtype());
    haul_.freed.push_back(whole_.to_free.size());
    return {};
  }

  Device& device_;
  DType param_dtype_;
  ExtensionForm form_;
  Slip slip_;
  Haul& haul_;
  Stream gathers_;
  ShardView shard_;
  Unsharded whole_;
  Tensor loss_;
};

class GathererSubject final : public Subject {
 public:
  GathererSubject(ExtensionForm form, Slip slip, Haul& haul) : form_(form), slip_(std::move(slip)), haul_(haul) {}
  std::string_view name() const override { return "gatherer"; }
  std::string_view version() const override { return "1"; }
  Claims claims() const override { return {}; }
  Reply create(const Model& model, const Plan& plan, const EngineContext& engine_context,
               std::unique_ptr<Trainer>& out) override {
    const bool is_pair = parameters(model).front().tensor == TensorKind::two_tensor;
    out = std::make_unique<Gatherer>(engine_context.device, is_pair, plan.mixed_precision.param.value_or(DType::f32),
                                     form_, slip_, haul_);
    return {};
  }

 private:
  ExtensionForm form_;
  Slip slip_;
  Haul& haul_;
};

Run gather_alone(const Scenario& scenario, Haul& haul, Slip slip = {}) {
  control::ControlPage control = control::ControlPage::anonymous(1);
  const auto groups = fabric::make_thread_world({.control = &control, .epoch = [](int) { return 1U; }});
  GathererSubject subject(scenario.script.segments.front().body.front().extension->form, std::move(slip), haul);
  return testing::play_simulated(scenario, subject, *groups.front(), 0);
}

/// One weight [4, 2], registered and gathered in three iterations.
Scenario gathering(const Extension& extension, DType param_dtype = DType::f32, TensorKind tensor = TensorKind::plain) {
  Scenario scenario = SleepingStack(1, 2);
  Module& linear = scenario.model.root.children[0].children[0];
  linear.out_features = 4;
  linear.tensor = tensor;
  scenario.plan.mixed_precision.param = param_dtype;
  scenario.device.hide_undeclared_memory = true;
  scenario.script.segments = {{.body = {{.kind = ActionKind::extend, .extension = extension}}},
                              {.iterations = 3, .body = {{ActionKind::forward}, {ActionKind::backward}}}};
  return scenario;
}

Extension of_weight(ExtensionKind kind, ExtensionForm form = ExtensionForm::full) {
  return {.parameter = "0.linear.weight", .kind = kind, .form = form};
}

std::vector<double> twice(std::vector<double> rows) {
  const std::vector<double> once = rows;
  rows.insert(rows.end(), once.begin(), once.end());
  return rows;
}

std::string complaint(const Scenario& scenario, Slip slip) {
  Haul haul;
  try {
    gather_alone(scenario, haul, std::move(slip));
  } catch (const player::SubjectError& error) {
    return error.call() + ": " + error.reason();
  }
  return "none";
}

}  // namespace

TEST_CASE("each extension makes the whole parameter that it says, on the first gather and on those that follow") {
  struct Row {
    ExtensionKind kind;
    DType param_dtype;
    TensorKind tensor;
    std::vector<double> rows;
    bool own_memory;
  };
  using enum ExtensionKind;
  const std::vector<double> as_it_is{1, -0.5, 1.00390625, 9, 0, 0}, rounded{1, -0.5, 1, 9, 0, 0};
  const std::vector<Row> all{
      {components, DType::f32, TensorKind::plain, as_it_is, false},
      {components, DType::bf16, TensorKind::plain, rounded, true},
      {components, DType::f16, TensorKind::low_precision, as_it_is, true},
      {bf16, DType::bf16, TensorKind::low_precision, rounded, false},
      {bf16, DType::f32, TensorKind::low_precision, rounded, true},
      {int8, DType::f32, TensorKind::low_precision, {1, -0.5, 1, 127.0 / 16, 0, 0}, true},
      {int8, DType::bf16, TensorKind::plain, {1, -0.5, 1, 127.0 / 16, 0, 0}, true},
      {components, DType::f32, TensorKind::two_tensor, {2, 1.5, 1.004150390625, 7, 0, 0}, true},
      // Rounded once: 1.00390625 alone would have become 1, and stayed that.
      {components, DType::bf16, TensorKind::two_tensor, {2, 1.5, 1.0078125, 7, 0, 0}, true},
      {unpadded, DType::f32, TensorKind::plain, {1, -0.5, 1.00390625, 9}, false},
      {truncated, DType::f32, TensorKind::two_tensor, {2, 1.5, 1.004150390625, 7}, true},
  };
  for (const Row& row : all) {
    for (const ExtensionForm form : {ExtensionForm::full, ExtensionForm::minimal}) {
      INFO(to_string(row.kind) << " of " << to_string(row.tensor) << " in " << to_string(row.param_dtype) << ", "
                               << to_string(form));
      Haul haul;
      const Run run = gather_alone(gathering(of_weight(row.kind, form), row.param_dtype, row.tensor), haul);
      CHECK(haul.values == std::vector(3, twice(row.rows)));
      CHECK(haul.dtypes == std::vector(3, row.param_dtype));
      CHECK(haul.freed == std::vector<std::size_t>(3, row.own_memory ? 1 : 0));
      CHECK(run.races().empty());
      CHECK(run.left_alive() == 0);
    }
  }
}

TEST_CASE("an extension for a kind knows how many tensors its parameters have") {
  Haul haul;
  gather_alone(gathering({.parameter = {}, .tensor = TensorKind::two_tensor}, DType::f32, TensorKind::two_tensor),
               haul);
  CHECK(haul.values.front() == twice({2, 1.5, 1.004150390625, 7, 0, 0}));
}

TEST_CASE("every call of a hook is noted: what it was given and gave, whose metadata, where and when") {
  Haul haul;
  Scenario scenario = gathering(of_weight(ExtensionKind::int8));
  scenario.script.keep_tensors = true;
  const Run run = gather_alone(scenario, haul);
  const std::vector<Callback>& calls = run.callbacks();
  const auto pre = [&](std::size_t i) -> const PreAllGather& { return std::get<PreAllGather>(calls.at(i).detail); };
  const auto post = [&](std::size_t i) -> const PostAllGather& { return std::get<PostAllGather>(calls.at(i).detail); };
  REQUIRE(calls.size() == 6);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    INFO("call " << i);
    const Callback& call = calls[i];
    REQUIRE(call.kind() == (i % 2 == 0 ? CallbackKind::pre_all_gather : CallbackKind::post_all_gather));
    CHECK(call.name == "0.linear.weight");
    CHECK(call.iteration == 1 + static_cast<int>(i / 2));  // the extension was registered in an iteration of its own
    CHECK(call.during == "forward");
    CHECK((i % 2 == 0 ? pre(i).ticket : post(i).ticket) == 1 + i / 2);
    CHECK(call.stream == 1);
    if (i % 2 == 0) CHECK(pre(i).context.has_value());
    const std::int64_t stacked = i % 2 == 0 ? 1 : 2;
    CHECK(call.sizes == std::vector<TensorSize>{{DType::i8, {3 * stacked, 2}}, {DType::f32, {stacked}}});
    REQUIRE(call.tensors.size() == 2);
    const std::vector<double> rows{16, -8, 16, 127, 0, 0};
    CHECK(call.tensors[0].to_doubles() == (i % 2 == 0 ? rows : twice(rows)));
    CHECK(call.tensors[1].to_doubles() == std::vector<double>(i % 2 == 0 ? 1 : 2, 16));
  }
  std::size_t read = 0;  // by the host, who says so
  for (const Fact& fact : run.trace().facts) {
    if (const auto* access = std::get_if<fact::HostAccess>(&fact); access != nullptr && access->label == "snapshot") {
      read += access->reads.size();
    }
  }
  CHECK(read == 6 * 2);
  CHECK(pre(0).context->module == "0.linear");
  CHECK(post(1).out == nullptr);
  CHECK(post(3).out != nullptr);
  CHECK(post(3).out == post(5).out);

  Haul minimal;
  const Run without = gather_alone(gathering(of_weight(ExtensionKind::bf16, ExtensionForm::minimal)), minimal);
  CHECK_FALSE(std::get<PreAllGather>(without.callbacks().at(0).detail).context.has_value());
}

TEST_CASE("of the tensors of hooks no copies are made where the script does not ask for them") {
  Haul haul;
  const Run run = gather_alone(gathering(of_weight(ExtensionKind::int8)), haul);
  REQUIRE(run.callbacks().size() == 6);
  for (const Callback& call : run.callbacks()) {
    CHECK(call.sizes.size() == 2);
    CHECK(call.tensors.empty());
  }
  CHECK(std::ranges::none_of(run.trace().facts, [](const Fact& fact) {
    const auto* work = std::get_if<fact::Work>(&fact);
    return work != nullptr && work->kind == WorkKind::snapshot;
  }));
}

TEST_CASE("metadata that no pre hook made belongs to no call") {
  const auto number = [](std::function<void(Contributions&)> gathered) {
    Haul haul;
    const Run run = gather_alone(gathering(of_weight(ExtensionKind::bf16)), haul, {.gathered = std::move(gathered)});
    return std::get<PostAllGather>(run.callbacks().at(1).detail).ticket;
  };
  CHECK(number([](Contributions& all) { all.metadata = nullptr; }) == 0);
  CHECK(number([](Contributions& all) { all.metadata = std::make_shared<int>(1); }) == 0);
}

TEST_CASE("a hook that is given what cannot be says which parameter and what it has found") {
  using enum ExtensionKind;
  const Scenario one = gathering(of_weight(components)), cast = gathering(of_weight(components), DType::bf16);
  const Scenario two = gathering(of_weight(components), DType::f32, TensorKind::two_tensor);
  const std::string pre = "forward: pre hook of \"0.linear.weight\": ",
                    post = "forward: post hook of \"0.linear.weight\": ";
  const auto host = [](DType dtype, Shape shape) { return Tensor::host(dtype, std::move(shape)); };

  CHECK(complaint(one, {.forgets_context = true}) == pre + "it has the full form, but received no context");
  CHECK(complaint(two, {.shard = [](ShardView& s) { s.components.pop_back(); }}) ==
        pre + "expected a shard of 2 tensors, found 1");
  CHECK(complaint(one, {.shard = [](ShardView& s) { s.components = {}; }}) ==
        pre + "expected a shard of 1 tensor, found 0");
  CHECK(complaint(one, {.shard = [](ShardView& s) { s.components = {Tensor()}; }}) ==
        pre + "expected a shard of f32 rows, found an undefined tensor");
  CHECK(complaint(one, {.shard = [&](ShardView& s) { s.components = {host(DType::bf16, {3, 2})}; }}) ==
        pre + "expected a shard of f32 rows, found bf16 [3, 2]");
  CHECK(complaint(two, {.shard = [](ShardView& s) { s.components[1] = s.components[1].narrow(0, 2); }}) ==
        pre + "the tensors of its shard are f32 [3, 2] and f32 [2, 2]");
  CHECK(complaint(one, {.shard = [](ShardView& s) { s.rows = 4; }}) ==
        pre + "it cannot have 4 rows in a shard f32 [3, 2]");

  CHECK(complaint(one, {.gathered = [](Contributions& all) { all.tensors.push_back(all.tensors[0]); }}) ==
        post + "expected 1 tensor, found 2");
  CHECK(complaint(gathering(of_weight(int8)), {.gathered = [](Contributions& all) { all.tensors.pop_back(); }}) ==
        post + "expected 2 tensors, found 1");
  CHECK(complaint(gathering(of_weight(int8)), {.gathered = [](Contributions& all) {
                    std::swap(all.tensors[0], all.tensors[1]);
                  }}) == post + "expected tensor 0 in i8, found f32 [2]");
  CHECK(complaint(gathering(of_weight(int8)), {.gathered = [](Contributions& all) {
                    all.tensors[1] = all.tensors[1].narrow(0, 1);
                  }}) == post + "tensor 1 is f32 [1], which does not hold one contribution of [1] from each rank");
  CHECK(complaint(one, {.gathered = [](Contributions& all) { all.tensors[0] = all.tensors[0].narrow(0, 4); }}) ==
        post + "tensor 0 is f32 [4, 2], which does not hold one contribution of [3, 2] from each rank");
  CHECK(complaint(one, {.gathered = [](Contributions& all) { all.tensors[0] = all.tensors[0].flatten(); }}) ==
        post + "tensor 0 is f32 [12], which does not hold one contribution of [3, 2] from each rank");
  CHECK(complaint(one, {.gathered = [](Contributions& all) { all.tensors[0] = Tensor(); }}) ==
        post + "expected tensor 0 in f32, found an undefined tensor");
  CHECK(complaint(one, {.gathered = [](Contributions& all) { all.parameter = "1.bias"; }}) ==
        "forward: post hook of \"1.bias\": the pre hook has contributed nothing for it");
  CHECK(complaint(one, {.gathered = [](Contributions& all) { all.param_dtype = DType::i8; }}) ==
        post + "layers cannot compute in i8; expected f32, bf16 or f16");

  CHECK(complaint(cast, {.kept = [](Unsharded& out) { out.value = Tensor(); }}) ==
        post + "it cannot write bf16 of f32 [6, 2] to an undefined tensor");
  CHECK(complaint(one, {.kept = [&](Unsharded& out) { out.value = host(DType::f32, {6, 2}); }}) ==
        post + "its output is not the same view of the contributions as in the first call");
  CHECK(complaint(one, {.kept = [](Unsharded& out) { out.value = out.value.narrow(0, 3); }}) ==
        post + "it cannot write f32 of f32 [6, 2] to f32 [3, 2]");
  Tensor gathered;
  CHECK(complaint(
            gathering(of_weight(bf16)),
            {.gathered = [&](Contributions& all) { all.tensors[0] = gathered.defined() ? gathered : all.tensors[0]; },
             .kept = [&](Unsharded& out) { gathered = Tensor(out.value.storage(), DType::bf16, {6, 2}); }}) ==
        post + "its output lies in the memory of the contributions");
}

TEST_CASE("an extension that is to lack a hook has none") {
  Extension extension = of_weight(ExtensionKind::components);
  extension.post = false;
  CHECK(complaint(gathering(extension), {}) == "extend: lacks its post hook");
  extension = of_weight(ExtensionKind::components);
  extension.pre = false;
  CHECK(complaint(gathering(extension), {}) == "extend: lacks its pre hook");
}

TEST_CASE("hooks that are called when their play has ended, well or not, say so") {
  const std::string ended = "pre hook of \"x\": called after its play has ended";
  Haul haul;
  Contribution none;
  gather_alone(gathering(of_weight(ExtensionKind::bf16)), haul);
  CHECK(haul.extension.pre({.parameter = "x", .components = {}}, nullptr, Device::compute, none).error() == ended);

  Haul failing;
  CHECK_THROWS_AS(gather_alone(gathering(of_weight(ExtensionKind::bf16)), failing, {.forgets_context = true}),
                  player::SubjectError);
  CHECK(failing.extension.pre({.parameter = "x", .components = {}}, nullptr, Device::compute, none).error() == ended);
}

TEST_CASE("an engine that knows no extensions says so, and the player which call that was") {
  struct Plain final : Trainer {
    Reply perform(const Action&, const Batch&) override { return {}; }
    Reply loss(Tensor&) override { return {}; }
    Reply parameters(std::vector<ParameterView>&) override { return {}; }
  };
  struct PlainSubject final : Subject {
    std::string_view name() const override { return "plain"; }
    std::string_view version() const override { return "1"; }
    Claims claims() const override { return {}; }
    Reply create(const Model&, const Plan&, const EngineContext&, std::unique_ptr<Trainer>& out) override {
      out = std::make_unique<Plain>();
      return {};
    }
  } subject;
  control::ControlPage control = control::ControlPage::anonymous(1);
  const auto groups = fabric::make_thread_world({.control = &control, .epoch = [](int) { return 1U; }});
  CHECK_THROWS_MATCHES(
      testing::play_simulated(gathering(of_weight(ExtensionKind::bf16)), subject, *groups.front(), 0),
      player::SubjectError,
      Catch::Matchers::Message(
          "subject: extend is not supported in iteration 0 on rank 0: this engine knows no all-gather extensions"));
}
