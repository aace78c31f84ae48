#include "harness/device/imagined_communicator.hpp"

#include <fmt/format.h>

#include <numeric>
#include <stdexcept>
#include <utility>

#include "harness/fabric/group.hpp"

namespace shardproof::device {

namespace {

// The factor of a reduction over ranks that all hold the same values.
double factor_of(const Collective& collective, int size) {
  switch (collective.op) {
    case ReduceOp::sum: return size;
    case ReduceOp::premul_sum: return collective.factor * size;
    default: return 1;
  }
}

// Computes the result on this rank, the first, if all ranks hold the same input.
void imagine(const Collective& collective, int size, const Kernels& kernels, NativeStream stream) {
  if (collective.kind == CollectiveKind::barrier) return;
  const Tensor in = collective.in.flatten(), out = collective.out.flatten();
  const double factor = factor_of(collective, size);
  const auto put = [&](const Tensor& to, const Tensor& from) {
    if (factor != 1) return kernels.scale(stream, to, from, factor);
    if (to.data() != from.data()) kernels.copy(stream, to, from);
  };
  switch (collective.kind) {
    case CollectiveKind::all_gather:
    case CollectiveKind::all_to_all: {
      const std::int64_t part = out.numel() / size;
      for (int member = 0; member < size; ++member) put(out.narrow(member * part, part), in.narrow(0, part));
      break;
    }
    case CollectiveKind::reduce_scatter: put(out, in.narrow(0, out.numel())); break;
    default: put(out, in);
  }
}

}  // namespace

ImaginedCommunicator::ImaginedCommunicator(Device& device, int size)
    : device_(device), members_(static_cast<std::size_t>(size)) {
  std::iota(members_.begin(), members_.end(), 0);
}

const FabricCapabilities& ImaginedCommunicator::capabilities() const {
  static constexpr FabricCapabilities promised{
      .rank_ordered = true, .pre_checked = true, .survives_abort = true, .multi_host = false};
  return promised;
}

void ImaginedCommunicator::run(Stream stream, const Collective& collective) {
  const std::string where =
      fmt::format("{} \"{}\" of {} imagined ranks", to_string(collective.kind), collective.tag, size());
  check(collective, rank(), size(), where);
  submit(stream, {&collective, 1}, where);
}

void ImaginedCommunicator::run_coalesced(Stream stream, std::span<const Collective> collectives) {
  const std::string where = fmt::format("coalesced call of {} imagined ranks", size());
  check_coalesced(collectives, rank(), size(), where);
  submit(stream, collectives, where);
}

void ImaginedCommunicator::submit(Stream stream, std::span<const Collective> collectives, const std::string& where) {
  Work work{.label = collectives.front().tag};
  for (const Collective& collective : collectives) {
    if (collective.kind == CollectiveKind::broadcast && collective.root != rank())
      throw std::invalid_argument(fmt::format("{}: what rank {} has cannot be imagined", where, collective.root));
    if (collective.in.defined()) work.reads.push_back(collective.in);
    if (collective.out.defined()) work.writes.push_back(collective.out);
  }
  const auto call = std::make_shared<const ImaginedCall>(ImaginedCall{
      .collectives = {collectives.begin(), collectives.end()},
      .members = members_,
      .sequence = issued_++,
  });
  work.imagined_call = call;
  work.run = [call, size = size()](const Kernels& kernels, NativeStream on) {
    for (const Collective& collective : call->collectives) imagine(collective, size, kernels, on);
  };
  device_.submit(stream, std::move(work));
}

std::unique_ptr<Communicator> ImaginedCommunicator::split(int, int, std::string_view name) {
  throw std::invalid_argument(
      fmt::format("group \"{}\" of {} imagined ranks: which of them would join it cannot be imagined", name, size()));
}

std::string objection_to_imagined(const DeviceOptions& options, int size) {
  if (options.imagined_ranks == 0 || size == 1) return {};
  return fmt::format("ranks can be imagined (costs.imagined_ranks) in a world of one rank only; this one has {}", size);
}

}  // namespace shardproof::device
