#include "harness/device/cuda/nccl_group.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <span>
#include <utility>

#include "harness/base/digest.hpp"

namespace shardproof::device::cuda {

namespace {

/// Sends NCCL's id of a new communicator from the first host to all hosts.
UniqueId share_id(Gpu& gpu, Group& hosts) {
  UniqueId id{};
  if (hosts.rank() == 0) {
    if (const Status status = gpu.nccl().get_unique_id(&id); status != 0) gpu.fail_nccl(status, "ncclGetUniqueId", {});
  }
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(id.bytes);
  const Tensor shared =
      hosts.broadcast(Tensor::of<std::uint8_t>({sizeof id.bytes}, {bytes, sizeof id.bytes}), 0, "NCCL id");
  std::memcpy(id.bytes, shared.data(), sizeof id.bytes);
  return id;
}

/// An id that no other communicator has, made from NCCL's own id of the communicator.
std::uint64_t id_of(const Group& hosts, const UniqueId& id) {
  return base::digest(fmt::format("{} {} {}", hosts.name(), fmt::join(hosts.members(), " "),
                                  std::string_view(id.bytes, sizeof id.bytes)));
}

}  // namespace

NcclGroup::NcclGroup(Gpu& gpu, std::shared_ptr<Group> hosts, std::uint64_t id, std::shared_ptr<fabric::Boards> boards,
                     std::unique_ptr<NcclComm> comm)
    : gpu_(gpu), hosts_(std::move(hosts)), boards_(std::move(boards)), comm_(std::move(comm)) {
  if (comm_ == nullptr) return;
  const std::span<const int> members = hosts_->members();
  joined_ = gpu_.joined(
      {.id = id, .name = fmt::format("{} (NCCL)", hosts_->name()), .members = {members.begin(), members.end()}});
}

const FabricCapabilities& NcclGroup::capabilities() {
  static constexpr FabricCapabilities promised{
      .rank_ordered = false, .pre_checked = false, .survives_abort = true, .multi_host = true};
  return promised;
}

std::shared_ptr<NcclGroup> NcclGroup::make(Gpu& gpu, std::shared_ptr<Group> hosts,
                                           std::shared_ptr<fabric::Boards> boards) {
  UniqueId unique{};
  std::unique_ptr<NcclComm> comm;
  if (hosts->size() > 1) {
    auto board = boards->make(*hosts);
    unique = share_id(gpu, *hosts);
    comm = NcclComm::make(gpu, *hosts, unique, std::move(board));
  }
  const std::uint64_t id = id_of(*hosts, unique);
  return std::shared_ptr<NcclGroup>(new NcclGroup(gpu, std::move(hosts), id, std::move(boards), std::move(comm)));
}

std::shared_ptr<NcclGroup> NcclGroup::split(int color, int key, std::string_view name) {
  std::shared_ptr<Group> part = hosts_->split(color, key, name);
  return part ? make(gpu_, std::move(part), boards_) : nullptr;
}

}  // namespace shardproof::device::cuda
