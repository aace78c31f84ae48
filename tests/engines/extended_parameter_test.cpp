// Parameters that are gathered by hooks which go wrong: what the engine answers, on which ranks, and that nothing stays
// behind. The hooks stand here, so that they can do what no extension of a script does.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fixtures/engines/reference.hpp"
#include "harness/device/sim/sim_device.hpp"
#include "harness/scenario/formula.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "harness/trace/races.hpp"
#include "tests/engines/networks.hpp"
#include "tests/engines/thread_ranks.hpp"

using namespace shardproof;
using namespace shardproof::engines;

namespace {

/// A call of a hook: the how many-th of the parameter on its rank, from 0.
struct PreCall {
  int rank = 0, count = 0;
  const ShardView& shard;
  Contribution& out;
  Device& device;
  Stream stream;
};
struct PostCall {
  int rank = 0, count = 0;
  Device& device;
  const Contributions& all;
  const Unsharded* out = nullptr;
  Unsharded& made;
};

/// An extension that gathers a copy of the shard and copies what is gathered into memory of its own; these spoil what a
/// hook has done. An error fails it.
struct Spoiler {
  ExtensionForm form = ExtensionForm::full;
  std::function<std::string(const PreCall&)> pre;
  std::function<std::string(const PostCall&)> post;
};

void copy(Device& device, const Tensor& to, const Tensor& from, Stream stream = Device::compute) {
  device.submit(
      stream, {.label = "whole", .reads = {from}, .writes = {to}, .run = [=](const Kernels& kernels, NativeStream on) {
                 kernels.copy(on, to, from);
               }});
}

Tensor memory(Device& device, DType dtype, const Shape& shape) {
  return device.empty(Device::compute, dtype, shape, MemoryClass::parameter, "whole");
}

AllGatherExtension extension(Device& device, int rank, const Spoiler& spoiler) {
  const auto answer = [](std::string error) { return error.empty() ? Reply() : Reply::failed(std::move(error)); };
  const auto pre_count = std::make_shared<int>(0), post_count = std::make_shared<int>(0);
  return {.form = spoiler.form,
          .pre =
              [=, &device](const ShardView& shard, const ShardContext*, Stream stream, Contribution& out) {
                const Tensor& component = shard.components.front();
                out.tensors = {
                    device.empty(stream, component.dtype(), component.shape(), MemoryClass::other, "contribution")};
                copy(device, out.tensors.front(), component, stream);
                const int count = (*pre_count)++;
                return answer(spoiler.pre ? spoiler.pre({rank, count, shard, out, device, stream}) : "");
              },
          .post =
              [=, &device](const Contributions& all, Stream, const Unsharded* out, Unsharded& made) {
                const int count = (*post_count)++;
                const Tensor& gathered = all.tensors.front();
                if (out == nullptr) {
                  made.value = memory(device, all.param_dtype, gathered.shape());
                  made.to_free = {made.value};
                }
                copy(device, out == nullptr ? made.value : out->value, gathered);
                return answer(spoiler.post ? spoiler.post({rank, count, device, all, out, made}) : "");
              }};
}

/// Two layers, weights [3, 4] and [2, 3], each a group that goes after forward.
struct Setup {
  Model model = model_of({linear_module("a", 4, 3, false), linear_module("b", 3, 2, false)});
  Plan plan = plan_of({wrapped("a"), wrapped("b"), {.modules = {""}}});
  std::map<std::string, Spoiler> extended;  ///< by parameter

  static WrapGroup wrapped(std::string module) {
    return {.modules = {std::move(module)}, .reshard_after_forward = {ReshardAfterForward::Kind::yes}};
  }
};

/// The results of the calls on one rank.
struct Outcome {
  std::vector<std::string> errors;  ///< of each call; empty: it succeeded
  std::vector<double> losses;  ///< of each forward that did
  std::vector<std::string> races;
  std::vector<std::size_t> live;  ///< bytes before the first call and after each
  std::ptrdiff_t agreements_read = 0;  ///< on sizes, by the host, which has said so
  std::size_t left = 0;  ///< bytes, when the trainer was gone
};

enum class Failing { goes_on, ends };  ///< what follows a call that fails: the next, or the end of the rank

Outcome train(const Setup& setup, int rank, Group& group, const std::vector<ActionKind>& calls, Failing failing) {
  Outcome outcome;
  device::SimDevice device({}, rank);
  const std::unique_ptr<Communicator> world = device.communicator(group);
  {
    std::unique_ptr<Trainer> trainer;
    const Reply created = Reference().create(setup.model, setup.plan, {device, *world, rank}, trainer);
    if (!created.ok()) throw std::runtime_error(created.error());
    for (const auto& [parameter, spoiler] : setup.extended) {
      const Reply registered =
          trainer->register_all_gather_extension({.parameter = parameter}, extension(device, rank, spoiler));
      if (!registered.ok()) throw std::runtime_error(registered.error());
    }
    const Tensor input = device.empty(Device::compute, DType::f32, {1, 4}, MemoryClass::activation, "input");
    copy(device, input, formula::tensor(static_cast<std::uint32_t>(1000 + rank), {1, 4}, 8));
    outcome.live.push_back(device.live_bytes());
    for (const ActionKind call : calls) {
      const bool is_forward = call == ActionKind::forward;
      outcome.errors.push_back(
          trainer->perform({.kind = call}, is_forward ? Batch{.input = input, .targets = {}} : Batch{}).error());
      outcome.live.push_back(device.live_bytes());
      if (!outcome.errors.back().empty() && failing == Failing::ends) break;
      if (!is_forward || !outcome.errors.back().empty()) continue;
      Tensor loss;
      trainer->loss(loss);
      device.synchronize(Device::compute);
      device.host_access("loss", {loss}, {});
      outcome.losses.push_back(device.to_host(loss).to_doubles().at(0));
    }
  }
  device.synchronize();
  outcome.left = device.live_bytes();
  const Trace trace = device.take_trace();
  outcome.agreements_read = std::ranges::count_if(trace.facts, [](const Fact& fact) {
    const auto* access = std::get_if<fact::HostAccess>(&fact);
    return access != nullptr && access->label == extension_sizes_tag && !access->reads.empty();
  });
  outcome.races = trace::describe(trace::find_races(trace));
  return outcome;
}

std::vector<Outcome> train_on(int world, const Setup& setup, const std::vector<ActionKind>& calls,
                              Failing failing = Failing::goes_on) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(world));
  const auto ended_alone = [](const Outcome& outcome) {
    return !outcome.errors.empty() && !outcome.errors.back().empty();
  };
  try {
    on_thread_ranks(world, [&](int rank, Group& group) {
      Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
      outcome = train(setup, rank, group, calls, failing);
      if (failing == Failing::ends && ended_alone(outcome))
        throw std::runtime_error("the play is over");  // the waiting ranks are released
    });
  } catch (const std::runtime_error&) {
    if (failing == Failing::goes_on) throw;
  }
  return outcomes;
}

void check_nothing_stays(const std::vector<Outcome>& outcomes) {
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    CAPTURE(rank);
    for (const std::string& race : outcomes[rank].races) FAIL_CHECK(race);
    CHECK(outcomes[rank].left == 0);
  }
}

/// Nothing stays behind, and every forward that has succeeded was one as without extensions.
void check_sound(const std::vector<Outcome>& outcomes, Setup setup, std::size_t forwards) {
  check_nothing_stays(outcomes);
  setup.extended.clear();
  const std::vector<Outcome> plain = train_on(static_cast<int>(outcomes.size()), setup, {ActionKind::forward});
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    CAPTURE(rank);
    CHECK(outcomes[rank].losses == std::vector(forwards, plain[rank].losses.at(0)));
  }
}

/// All ranks' calls ended like this, but for a tail.
void check_errors(const std::vector<Outcome>& outcomes, const std::vector<std::string>& errors,
                  const std::map<std::size_t, std::string>& tails = {}) {
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    CAPTURE(rank);
    std::vector<std::string> expected = errors;
    if (tails.contains(rank))
      std::ranges::find_if(expected, [](const std::string& error) { return !error.empty(); })->append(tails.at(rank));
    CHECK(outcomes[rank].errors == expected);
  }
}

constexpr ActionKind forward = ActionKind::forward, backward = ActionKind::backward;

Setup with(std::string parameter, Spoiler spoiler) {
  Setup setup;
  setup.extended[std::move(parameter)] = std::move(spoiler);
  return setup;
}

template <class Call> std::function<std::string(const Call&)> failing_at(int count, int rank = -1) {
  return [=](const Call& call) { return call.count == count && (rank < 0 || call.rank == rank) ? "out of paper" : ""; };
}

}  // namespace

TEST_CASE("hooks that do what they should train as if there were none") {
  const Setup setup = with("a.weight", {});
  const auto outcomes = train_on(2, setup, {forward, backward, forward, backward});
  check_errors(outcomes, {"", "", "", ""});
  for (const Outcome& outcome : outcomes) CHECK(outcome.agreements_read == 1);
  check_sound(outcomes, setup, 2);
}

TEST_CASE("a contribution without dimensions is one element of each rank's in what is gathered") {
  Setup setup = with(
      "a.weight",
      {.form = ExtensionForm::minimal,
       .pre =
           [](const PreCall& call) {
             const Tensor scalar = call.device.empty(call.stream, DType::f32, {}, MemoryClass::other, "scalar");
             call.device.submit(call.stream, {.label = "scalar",
                                              .writes = {scalar},
                                              .run = [=, rank = call.rank](const Kernels& kernels, NativeStream on) {
                                                kernels.fill(on, scalar, rank + 1);
                                              }});
             call.out.tensors.push_back(scalar);
             return std::string();
           },
       .post =
           [](const PostCall& call) {
             const Tensor& gathered = call.all.tensors.at(1);
             call.device.synchronize(Device::compute);
             call.device.host_access("scalars", {gathered}, {});
             const Tensor home = call.device.to_host(gathered);
             const bool is_right = home.shape() == Shape{2} && home.to_doubles() == std::vector<double>{1, 2};
             return std::string(is_right ? "" : "other scalars than ranks have contributed");
           }});
  const auto outcomes = train_on(2, setup, {forward, backward, forward, backward});
  check_errors(outcomes, {"", "", "", ""});
  check_sound(outcomes, setup, 2);
}

TEST_CASE("the metadata of a gather is there for its post hook, and not for longer than the whole parameter") {
  std::vector<std::weak_ptr<const int>> last(2);
  const Setup setup = with(
      "a.weight", {.pre =
                       [&last](const PreCall& call) {
                         std::weak_ptr<const int>& mine = last[static_cast<std::size_t>(call.rank)];
                         const bool is_gone = mine.expired();
                         const auto fresh = std::make_shared<const int>(call.count);
                         mine = fresh;
                         call.out.metadata = fresh;
                         return std::string(is_gone ? "" : "the metadata of the gather before is still there");
                       },
                   .post =
                       [&last](const PostCall& call) {
                         const bool is_mine = call.all.metadata == last[static_cast<std::size_t>(call.rank)].lock();
                         return std::string(is_mine ? "" : "other metadata than the pre hook has given");
                       }});
  const auto outcomes = train_on(2, setup, {forward, backward, forward, backward});
  check_errors(outcomes, {"", "", "", ""});
  check_sound(outcomes, setup, 2);
}

TEST_CASE("a pre hook that contributes an undefined tensor has failed") {
  const Setup setup = with("a.weight", {.pre =
                                            [](const PreCall& call) {
                                              if (call.count == 0) call.out.tensors.emplace_back();
                                              return std::string();
                                            },
                                        .post = {}});
  const auto outcomes = train_on(2, setup, {forward, forward, backward});
  check_errors(outcomes, {"fully_shard: parameter \"a.weight\": a pre hook has failed (ranks 0, 1: failed): it "
                          "contributes an undefined tensor",
                          "", ""});
  check_sound(outcomes, setup, 1);
}

TEST_CASE(
    "a pre hook that fails on one rank at the first gather fails on all with one text, to which the culprit adds its "
    "own") {
  Setup setup = with("a.weight", {.pre = failing_at<PreCall>(0, 1), .post = {}});
  auto outcomes = train_on(3, setup, {forward, forward, backward});
  check_errors(
      outcomes,
      {"fully_shard: parameter \"a.weight\": a pre hook has failed (ranks 0, 2: 1 tensor of f32 x 4; rank 1: failed)",
       "", ""},
      {{1, ": out of paper"}});
  check_sound(outcomes, setup, 1);

  setup = with("b.weight", {.pre = failing_at<PreCall>(0, 0), .post = {}});
  setup.extended["a.weight"] = {};
  fully_shard_plan(setup.plan).wrap = {{.modules = {""}}};  // of which it is the second parameter
  outcomes = train_on(2, setup, {forward, forward, backward});
  check_errors(
      outcomes,
      {"fully_shard: parameter \"b.weight\": a pre hook has failed (rank 0: failed; rank 1: 1 tensor of f32 x 3)", "",
       ""},
      {{0, ": out of paper"}});
  check_sound(outcomes, setup, 1);
}

TEST_CASE("a pre hook that fails at a later gather says so before it communicates") {
  const std::string text = "fully_shard: parameter \"a.weight\": the pre hook has failed: out of paper";
  Setup setup = with("a.weight", {.pre = failing_at<PreCall>(2), .post = {}});
  auto outcomes = train_on(2, setup, {forward, backward, forward, forward, backward});
  check_errors(outcomes, {"", "", text, "", ""});
  check_sound(outcomes, setup, 2);

  setup = with("a.weight", {.pre = failing_at<PreCall>(2, 1), .post = {}});
  outcomes = train_on(2, setup, {forward, backward, forward, forward}, Failing::ends);  // alone
  CHECK(outcomes[1].errors == std::vector<std::string>{"", "", text});
  REQUIRE(outcomes[0].errors.size() == 3);
  CHECK_FALSE(outcomes[0].errors[2].empty());
  check_nothing_stays(outcomes);
}

TEST_CASE("a post hook that fails leaves no memory of its gather, be it the first or a later gather") {
  const std::string text = "parameter \"a.weight\": the post hook has failed: out of paper";
  Setup setup = with("a.weight", {.pre = {}, .post = failing_at<PostCall>(0)});
  for (const int world : {1, 2}) {
    const auto outcomes = train_on(world, setup, {forward, forward, backward});
    check_errors(outcomes, {text, "", ""});
    for (const Outcome& outcome : outcomes) CHECK(outcome.live.at(1) == outcome.live.at(0));
    check_sound(outcomes, setup, 1);
  }
  setup = with("a.weight", {.pre = {}, .post = failing_at<PostCall>(2)});
  const auto outcomes = train_on(2, setup, {forward, backward, forward, forward, backward});
  check_errors(outcomes, {"", "", text, "", ""});
  check_sound(outcomes, setup, 2);
}

TEST_CASE("what a post hook has made and layers cannot read is refused, and the next gather makes it anew") {
  struct Wrong {
    const char* text;
    std::function<void(const PostCall&)> make;
  };
  const auto made_as = [](DType dtype, Shape shape) {
    return [=](const PostCall& call) {
      call.made.value = memory(call.device, dtype, shape);
      call.made.to_free.push_back(call.made.value);
    };
  };
  const std::vector<Wrong> all{
      {"the post hook has made a bf16, layers compute in f32", made_as(DType::bf16, {3, 4})},
      {"the post hook has made [2, 4], but the parameter is [3, 4]", made_as(DType::f32, {2, 4})},
      {"the post hook has made [3, 5], but the parameter is [3, 4]", made_as(DType::f32, {3, 5})},
      {"the post hook has made [12], but the parameter is [3, 4]", made_as(DType::f32, {12})},
      {"the post hook was to make a whole parameter, and has made none",
       [](const PostCall& call) { call.made.value = {}; }},
  };
  for (const Wrong& wrong : all) {
    CAPTURE(wrong.text);
    const Setup setup = with("a.weight", {.pre = {}, .post = [&wrong](const PostCall& call) {
                                            if (call.count == 0) wrong.make(call);
                                            return std::string();
                                          }});
    const auto outcomes = train_on(2, setup, {forward, forward, backward});
    check_errors(outcomes, {std::string("parameter \"a.weight\": ") + wrong.text, "", ""});
    check_sound(outcomes, setup, 1);
  }
}

TEST_CASE("a post hook that is given what to write to makes nothing else") {
  const Setup setup = with("a.weight", {.pre = {}, .post = [](const PostCall& call) {
                                          if (call.count == 2) call.made.value = call.all.tensors.front();
                                          return std::string();
                                        }});
  const auto outcomes = train_on(2, setup, {forward, backward, forward, forward, backward});
  check_errors(
      outcomes,
      {"", "",
       "parameter \"a.weight\": the post hook has made another whole parameter, although it was given one to write to",
       "", ""});
  check_sound(outcomes, setup, 2);
}

TEST_CASE(
    "memory that an extension does not give to free stays its own, and a view of the contributions is one of the new "
    "ones") {
  const std::vector<ActionKind> calls{forward, backward, forward, backward};
  // Kept, and written again for every gather: never given back, never another.
  const auto kept = std::make_shared<std::vector<std::pair<int, std::shared_ptr<Storage>>>>();
  std::mutex mutex;
  Setup setup = with("a.weight", {.pre = {}, .post = [&mutex, kept](const PostCall& call) {
                                    call.made.to_free.clear();
                                    const Tensor& value = call.out != nullptr ? call.out->value : call.made.value;
                                    const std::lock_guard lock(mutex);
                                    kept->emplace_back(call.rank, value.storage());
                                    return std::string();
                                  }});
  auto outcomes = train_on(2, setup, calls);
  check_errors(outcomes, {"", "", "", ""});
  CHECK(kept->size() == 2 * 4);
  for (const auto& one : *kept) {
    const auto same = [&one](const auto& other) { return other.first == one.first; };
    CHECK(one.second == std::ranges::find_if(*kept, same)->second);
  }
  for (Outcome& outcome : outcomes)
    CHECK(std::exchange(outcome.left, 0) == 4 * 4 * sizeof(float));  // 2 ranks of 2 rows, padded
  check_sound(outcomes, setup, 2);

  setup = with("a.weight", {.pre = {}, .post = [](const PostCall& call) {
                              if (call.out != nullptr) {
                                const bool is_view = call.out->value.data() == call.all.tensors.front().data();
                                return std::string(is_view ? "" : "no view of what was gathered now");
                              }
                              call.device.release(Device::compute, call.made.value.storage());
                              call.made = {.value = call.all.tensors.front(), .to_free = {}};
                              return std::string();
                            }});
  outcomes = train_on(2, setup, calls);
  check_errors(outcomes, {"", "", "", ""});
  check_sound(outcomes, setup, 2);
}

TEST_CASE("memory that an extension gives to free more than once, or that goes in any case, goes once") {
  const Setup setup =
      with("a.weight", {.pre = {}, .post = [](const PostCall& call) {
                          if (call.out == nullptr)
                            call.made.to_free = {call.made.value, {}, call.made.value, call.all.tensors.front()};
                          return std::string();
                        }});
  const auto outcomes = train_on(2, setup, {forward, backward, forward, backward});
  check_errors(outcomes, {"", "", "", ""});
  check_sound(outcomes, setup, 2);
}

TEST_CASE("what hooks have gathered ahead for a module that does not run goes back without a post hook") {
  Setup setup;
  setup.model.root.children.push_back(module_of(ModuleKind::list, "spare", {linear_module("c", 3, 3, false)}));
  fully_shard_plan(setup.plan).wrap.insert(fully_shard_plan(setup.plan).wrap.begin(), Setup::wrapped("spare.c"));
  fully_shard_plan(setup.plan).wrap[1].forward_prefetch = {"spare.c"};
  std::vector<int> pre_calls(2);
  setup.extended["spare.c.weight"] = {.pre =
                                          [&](const PreCall& call) {
                                            pre_calls[static_cast<std::size_t>(call.rank)] = call.count + 1;
                                            return std::string();
                                          },
                                      .post = failing_at<PostCall>(0)};
  const auto outcomes = train_on(2, setup, {forward, backward, forward, backward});
  check_errors(outcomes, {"", "", "", ""});
  CHECK(pre_calls == std::vector{2, 2});
  check_sound(outcomes, setup, 2);

  // Contributions of a hook are released as soon as they are packed. So no more memory is alive than without hooks.
  setup.extended.clear();
  const auto plain = train_on(2, setup, {forward, backward, forward, backward});
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) CHECK(outcomes[rank].live == plain[rank].live);
}

TEST_CASE("every rank reports replicas on a mesh that would contribute unlike tensors") {
  Setup setup = with("a.weight", {.form = ExtensionForm::minimal,
                                  .pre =
                                      [](const PreCall& call) {
                                        if (call.count == 0 && call.rank >= 2)
                                          call.out.tensors[0] = call.out.tensors[0].narrow(0, 1);
                                        return std::string();
                                      },
                                  .post = {}});
  setup.plan.mesh = {.shape = {2, 2}, .names = {"replicate", "shard"}};
  const auto outcomes = train_on(4, setup, {forward, forward, backward});
  check_errors(outcomes, {"fully_shard: parameter \"a.weight\": ranks would contribute different tensors to one "
                          "all-gather (ranks 0, 1: 1 tensor of f32 x 8; ranks 2, 3: 1 tensor of f32 x 4)",
                          "", ""});
  check_sound(outcomes, setup, 1);
}

TEST_CASE("a rank keeps to the sizes that were agreed") {
  const Setup setup = with("a.weight", {.form = ExtensionForm::minimal,
                                        .pre =
                                            [](const PreCall& call) {
                                              if (call.count == 2)
                                                call.out.tensors[0] = call.out.tensors[0].narrow(0, 1);
                                              return std::string();
                                            },
                                        .post = {}});
  const auto outcomes = train_on(2, setup, {forward, backward, forward, forward, backward});
  check_errors(outcomes, {"", "",
                          "fully_shard: parameter \"a.weight\": the pre hook contributes 1 tensor of f32 x 4, but "
                          "ranks have agreed on 1 tensor of f32 x 8",
                          "", ""});
  check_sound(outcomes, setup, 2);
}

TEST_CASE("a trainer frees all its memory after a failed backward") {
  struct Row {
    const char* parameter;
    BackwardPrefetch prefetch;
    Mesh mesh;
  };
  using enum BackwardPrefetch;
  const Mesh square{.shape = {2, 2}, .names = {"replicate", "shard"}};
  const std::vector<Row> all{{"b.weight", previous, {}}, {"b.weight", none, {}},         {"a.weight", previous, {}},
                             {"a.weight", none, {}},     {"b.weight", previous, square}, {"a.weight", none, square}};
  for (const auto& [parameter, prefetch, mesh] : all) {
    const int world = mesh.shape.empty() ? 2 : 4;
    CAPTURE(parameter, prefetch, world);
    Setup setup = with(parameter, {.pre = failing_at<PreCall>(1), .post = {}});
    fully_shard_plan(setup.plan).backward_prefetch = prefetch;
    setup.plan.mesh = mesh;
    const std::string about = std::string("parameter \"") + parameter + "\": the ";
    auto outcomes = train_on(world, setup, {forward, backward});
    check_errors(outcomes, {"", "fully_shard: " + about + "pre hook has failed: out of paper"});
    check_sound(outcomes, setup, 1);

    setup.extended[parameter] = {.pre = {}, .post = failing_at<PostCall>(1)};
    outcomes = train_on(world, setup, {forward, backward});
    check_errors(outcomes, {"", about + "post hook has failed: out of paper"});
    check_sound(outcomes, setup, 1);
  }
}

TEST_CASE("a trainer that ends with gradients releases them after their reductions") {
  Setup setup;
  setup.plan.mesh = {.shape = {2, 2}, .names = {"replicate", "shard"}};
  const auto outcomes = train_on(4, setup, {forward, backward});
  check_sound(outcomes, setup, 1);
}

TEST_CASE("parts over fewer ranks are no shards that hooks could be given, over one rank or all they are none") {
  for (const int size : {1, 4, 2}) {
    CAPTURE(size);
    Setup setup = with("a.weight", {});
    fully_shard_plan(setup.plan).wrap[0].reshard_after_forward = {ReshardAfterForward::Kind::size, size};
    const auto outcomes = train_on(4, setup, {forward, backward});
    const std::string refused =
        "fully_shard: parameter \"a.weight\" has an all-gather extension, and its group keeps larger parts over 2 "
        "ranks after forward: no hook could make them whole";
    if (size == 2) {
      for (const Outcome& outcome : outcomes) CHECK(outcome.errors.front() == refused);
      continue;
    }
    check_errors(outcomes, {"", ""});
    check_sound(outcomes, setup, 1);
  }
}
