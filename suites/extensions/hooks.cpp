#include "suites/extensions/hooks.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "harness/scenario/plan/fully_shard.hpp"
#include "suites/checks/soundness.hpp"

namespace shardproof::extensions {

namespace {

using enum CallbackKind;

const ParameterShape& shape_of(const std::vector<ParameterShape>& all, const std::string& parameter) {
  const auto found = std::ranges::find(all, parameter, &ParameterShape::name);
  REQUIRE(found != all.end());
  return *found;
}

// A rank's rows: each rank gets the same number as the first one, until no rows are left.
struct Rows {
  std::int64_t padded, own;
};
Rows rows_of(std::int64_t whole, const std::vector<int>& members, int rank) {
  const auto ranks = static_cast<std::int64_t>(members.size());
  const std::int64_t padded = (whole + ranks - 1) / ranks;
  const std::int64_t place = std::ranges::find(members, rank) - members.begin();
  return {padded, std::clamp<std::int64_t>(whole - place * padded, 0, padded)};
}

// The contributions of all ranks' pre hooks, call by call. Ranks must make the same calls.
class Contributed {
 public:
  Contributed(Rank& rank, const Run& run) {
    std::vector<std::byte> mine;
    for (const Callback* call : run.callbacks({.kind = pre_all_gather})) {
      std::vector<std::size_t>& starts = starts_[call];
      for (const Tensor& tensor : call->tensors) {
        starts.push_back(mine.size());
        const auto bytes = std::as_const(tensor).values<std::byte>();
        mine.insert(mine.end(), bytes.begin(), bytes.end());
      }
    }
    Tensor count = Tensor::host(DType::i64, {1});
    count.values<std::int64_t>()[0] = static_cast<std::int64_t>(mine.size());
    const Tensor counts = rank.world().all_gather(count);
    for (const std::int64_t other : counts.values<std::int64_t>())
      alike_ = alike_ && other == counts.values<std::int64_t>()[0];
    if (!alike_) return;  // on all ranks
    Tensor bytes = Tensor::host(DType::u8, {static_cast<std::int64_t>(mine.size())});
    std::ranges::copy(mine, bytes.values<std::byte>().begin());
    all_ = rank.world().all_gather(bytes);
  }

  bool alike() const { return alike_; }

  /// Tensor `index` of a call, of these ranks, concatenated along dim 0.
  Tensor of(const Callback& pre, std::size_t index, const std::vector<int>& members) const {
    const Tensor& mine = pre.tensors.at(index);
    Shape shape = mine.shape();
    shape[0] *= static_cast<std::int64_t>(members.size());
    Tensor whole = Tensor::host(mine.dtype(), shape);
    auto to = whole.values<std::byte>().begin();
    const auto start = static_cast<std::int64_t>(starts_.at(&pre).at(index));
    for (const int member : members) {
      to = std::ranges::copy(
               all_.row(member).narrow(start, static_cast<std::int64_t>(mine.bytes())).values<std::byte>(), to)
               .out;
    }
    return whole;
  }

 private:
  std::map<const Callback*, std::vector<std::size_t>> starts_;  // of its tensors among the bytes
  bool alike_ = true;
  Tensor all_;
};

}  // namespace

std::vector<std::string> hooked_parameters(const Run& run) { return run.callback_names({.kind = pre_all_gather}); }

std::vector<fact::Collective> parameter_gathers(const Run& run) {
  std::vector<fact::Collective> gathers;
  for (const Fact& fact : run.trace().facts) {
    const auto* call = std::get_if<fact::Collective>(&fact);
    if (call == nullptr || call->kind != CollectiveKind::all_gather || call->tag == extension_sizes_tag) continue;
    gathers.push_back(*call);
  }
  return gathers;
}

std::vector<int> shard_members(Rank& rank, const Run& run) {
  const Mesh& mesh = run.scenario().plan.mesh;
  int shards = 0;
  for (const int size : mesh.shape) shards = size;
  if (mesh.shape.empty()) shards = rank.world().size();
  std::vector<int> members;
  for (int i = 0; i < shards; ++i) members.push_back(rank.index() / shards * shards + i);
  return members;
}

void check_contributions(Rank& rank, const Run& run) {
  const auto judged = rank.under("EXT-1");
  const Contributed contributed(rank, run);
  REQUIRE(contributed.alike());
  const std::vector<int> members = shard_members(rank, run);
  std::map<std::string, const Callback*> last;  // pre call, by parameter
  std::size_t compared = 0;
  for (const Callback& call : run.callbacks()) {
    if (call.kind() == pre_all_gather) last[call.name] = &call;
    if (call.kind() != post_all_gather) continue;
    CAPTURE(call.name, call.iteration, call.during);
    REQUIRE(last.contains(call.name));
    const Callback& pre = *last[call.name];
    REQUIRE(call.tensors.size() == pre.tensors.size());
    for (std::size_t i = 0; i < call.tensors.size(); ++i) {
      CAPTURE(i);
      CHECK(call.tensors[i] == contributed.of(pre, i, members));
      ++compared;
    }
  }
  CHECK(compared > 0);
}

void check_paired(const Rank& rank, const Run& run) {
  const auto judged = rank.under("EXT-2");
  CHECK_FALSE(hooked_parameters(run).empty());
  std::map<std::string, std::uint64_t> last;  // ticket of the pre call, by parameter
  std::map<std::string, std::int64_t> ahead;  // pre calls without a post call
  std::uint64_t calls = 0;
  for (const Callback& call : run.callbacks()) {
    CAPTURE(call.name, call.iteration, call.during);
    if (const auto* pre = std::get_if<PreAllGather>(&call.detail)) {
      CHECK(pre->ticket == ++calls);
      last[call.name] = pre->ticket;
      CHECK(++ahead[call.name] == 1);
    } else if (const auto* post = std::get_if<PostAllGather>(&call.detail)) {
      CHECK(post->ticket == last[call.name]);
      CHECK(--ahead[call.name] == 0);
    }
  }
  for (const auto& [parameter, waiting] : ahead) {
    CAPTURE(parameter);
    CHECK(waiting == 0);
  }
  // If the group has all-gathers, hooks must have the same number of calls.
  const auto gathers = parameter_gathers(run);
  for (const std::string& parameter : hooked_parameters(run)) {
    CAPTURE(parameter);
    const WrapGroup* group = fully_shard_plan(run.scenario().plan).group_of(parameter);
    REQUIRE(group != nullptr);
    const auto expected = std::ranges::count(gathers, group->modules.front(), &fact::Collective::tag);
    if (!gathers.empty())
      CHECK(std::cmp_equal(run.count_callbacks({.kind = pre_all_gather, .name = parameter}), expected));
  }
}

void check_out(const Rank& rank, const Run& run) {
  const auto judged = rank.under("EXT-3");
  for (const std::string& parameter : hooked_parameters(run)) {
    CAPTURE(parameter);
    std::vector<const void*> outs;
    for (const Callback* post : run.callbacks({.kind = post_all_gather, .name = parameter}))
      outs.push_back(std::get<PostAllGather>(post->detail).out);
    REQUIRE_FALSE(outs.empty());
    CHECK(outs.front() == nullptr);
    for (std::size_t i = 1; i < outs.size(); ++i) {
      CHECK(outs[i] != nullptr);
      CHECK(outs[i] == outs[1]);
    }
  }
}

void check_padding(Rank& rank, const Run& run) {
  const auto judged = rank.under("EXT-10");
  const auto shapes = parameters(run.scenario().model);
  const std::vector<int> members = shard_members(rank, run);
  std::size_t looked_at = 0;
  for (const Callback* call : run.callbacks({.kind = pre_all_gather})) {
    CAPTURE(call->name, call->iteration, call->during);
    const Shape whole = shape_of(shapes, call->name).shape;
    const Rows rows = rows_of(whole[0], members, rank.index());
    for (const Tensor& tensor : call->tensors) {
      if (tensor.shape().size() != whole.size()) continue;  // metadata next to the shard
      REQUIRE(tensor.shape()[0] == rows.padded);
      const auto padding = tensor.narrow(rows.own, rows.padded - rows.own).to_doubles();
      CHECK(std::ranges::count(padding, 0.0) == std::ssize(padding));
      ++looked_at;
    }
  }
  CHECK(looked_at > 0);
}

void check_context(Rank& rank, const Run& run) {
  const auto judged = rank.under("EXT-11");
  const auto shapes = parameters(run.scenario().model);
  std::map<std::string, ExtensionForm> of_parameter, of_kind;
  for (const Script::Segment& segment : run.scenario().script.segments) {
    for (const Action& action : segment.body) {
      if (!action.extension) continue;
      const Extension& extension = *action.extension;
      (extension.parameter.empty() ? of_kind[std::string(to_string(extension.tensor))]
                                   : of_parameter[extension.parameter]) = extension.form;
    }
  }
  for (const Callback* call : run.callbacks({.kind = pre_all_gather})) {
    CAPTURE(call->name, call->iteration, call->during);
    const ParameterShape& shape = shape_of(shapes, call->name);
    const auto own = of_parameter.find(call->name);
    const auto form = own != of_parameter.end() ? own->second : of_kind[std::string(to_string(shape.tensor))];
    const auto& context = std::get<PreAllGather>(call->detail).context;
    REQUIRE(context.has_value() == (form == ExtensionForm::full));
    if (!context) continue;
    CHECK(context->mesh == shard_members(rank, run));
    CHECK(context->shape == shape.shape);
    Shape stride(shape.shape.size(), 1);
    for (std::size_t d = stride.size() - 1; d > 0; --d) stride[d - 1] = stride[d] * shape.shape[d];
    CHECK(context->stride == stride);
    CHECK(child_path(context->module, call->name.substr(call->name.rfind('.') + 1)) == call->name);
    CHECK((context->policy == run.scenario().plan.mixed_precision));
  }
}

void check_hooks(Rank& rank, const Run& run) {
  check_paired(rank, run);
  check_out(rank, run);
  check_contributions(rank, run);
  check_padding(rank, run);
  check_context(rank, run);
}

}  // namespace shardproof::extensions
