// Ranks that ask for different things hear of it, all of them alike, and can go on afterwards.
#include "harness/player/play.hpp"
#include "tests/device/contract/contract.hpp"

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "harness/base/digest.hpp"

using namespace contract;

namespace {

/// The text of the error that this rank gets from the call, on the host's side or on the stream's. Empty without an
/// error.
std::string refusal_of(Device& device, Communicator& group, const Collective& collective) {
  try {
    group.run(Device::compute, collective);
    device.synchronize();
  } catch (const Mismatch& mismatch) {
    return mismatch.what();
  }
  return {};
}

/// The same for two collectives, in one call or one after the other.
std::string refusal_of(Device& device, Communicator& group, std::span<const Collective> collectives, bool coalesces) {
  try {
    if (coalesces) group.run_coalesced(Device::compute, collectives);
    else
      for (const Collective& collective : collectives) group.run(Device::compute, collective);
    device.synchronize();
  } catch (const Mismatch& mismatch) {
    return mismatch.what();
  }
  return {};
}

bool is_alike_everywhere(Rank& rank, const std::string& text) {
  const std::array<std::int64_t, 1> mine{static_cast<std::int64_t>(base::digest(text))};
  const Tensor all = rank.world().all_gather(Tensor::of<std::int64_t>({1}, mine));
  for (const std::int64_t other : all.values<std::int64_t>()) {
    if (other != mine[0]) return false;
  }
  return true;
}

}  // namespace

RANKED_TEST_CASE("contract/disagreement", ranks(2, 3, 4),
                 each("about", "count", "kind", "operation", "root", "dtype")) {
  const std::string& about = rank.param("about");
  const bool is_other = rank.index() == rank.world().size() - 1;
  std::string text;
  {
    const auto platform = make_platform(rank);
    Device& device = platform->device();
    const std::int64_t count = about == "count" && is_other ? 5 : 4;
    const DType dtype = about == "dtype" && is_other ? DType::i32 : DType::f32;
    const Tensor in = put(device, Device::compute, Tensor::host(dtype, {count})),
                 out = room(device, Device::compute, in);
    Collective collective{.kind = CollectiveKind::all_reduce, .op = ReduceOp::sum, .in = in, .out = out, .tag = "call"};
    if (about == "operation" && is_other) collective.op = ReduceOp::max;
    if (about == "root" || (about == "kind" && is_other)) {
      collective.kind = CollectiveKind::broadcast;
      collective.op = ReduceOp::none;
      collective.root = about == "root" && is_other ? 1 : 0;
    }
    text = refusal_of(device, platform->world(), collective);
  }
  INFO(text);
  CHECK(text.find("rank 0 asks for") != std::string::npos);
  CHECK(text.find(fmt::format("rank {} for", rank.world().size() - 1)) != std::string::npos);
  CHECK(is_alike_everywhere(rank, text));

  const auto again = make_platform(rank);
  Device& device = again->device();
  if (!again->world().capabilities().survives_abort) rank.skip("the fabric does not promise to survive it");
  const Tensor sum = put(device, Device::compute, iota(static_cast<float>(rank.index()), 1));
  again->world().run(Device::compute,
                     {.kind = CollectiveKind::all_reduce, .op = ReduceOp::sum, .in = sum, .out = sum, .tag = "again"});
  const int size = rank.world().size();
  CHECK(get(device, sum).values<float>()[0] == static_cast<float>(size * (size - 1)) / 2);
}

/// One rank issues one by one what others issue in one call, or something else in its call.
RANKED_TEST_CASE("contract/coalesced_disagreement", ranks(2, 3, 4), each("about", "call", "operand", "number")) {
  const std::string& about = rank.param("about");
  const bool is_other = rank.index() == rank.world().size() - 1;
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  std::vector<Collective> collectives;
  for (const std::int64_t count : {4, about == "operand" && is_other ? 7 : 6}) {
    const Tensor values = put(device, Device::compute, Tensor::host(DType::f32, {count}));
    collectives.push_back(
        {.kind = CollectiveKind::all_reduce, .op = ReduceOp::sum, .in = values, .out = values, .tag = "call"});
  }
  if (about == "number" && is_other) collectives.pop_back();
  const std::string text = refusal_of(device, platform->world(), collectives, about != "call" || !is_other);
  INFO(text);
  CHECK(text.find(about == "operand" ? "rank 0 asks for all_reduce of 6 f32"
                                     : "rank 0 asks for coalesced of 2 calls") != std::string::npos);
  const std::string_view theirs = about == "call"      ? "all_reduce of 4 f32"
                                  : about == "operand" ? "all_reduce of 7 f32"
                                                       : "coalesced of 1 calls";
  CHECK(text.find(fmt::format("rank {} for {}", rank.world().size() - 1, theirs)) != std::string::npos);
  CHECK(is_alike_everywhere(rank, text));
}
