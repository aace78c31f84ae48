#include "harness/fabric/group.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace shardproof {

namespace {

std::span<const std::byte> bytes_of(const Tensor& tensor) { return {tensor.data(), tensor.bytes()}; }
std::span<std::byte> room_in(const Tensor& tensor) { return {tensor.data(), tensor.bytes()}; }

Call call_on(CollectiveKind kind, const Tensor& mine, std::string_view tag) {
  if (!mine.defined()) throw std::invalid_argument(fmt::format("{}: the tensor is undefined", to_string(kind)));
  Call call;
  call.descriptor.kind = kind;
  call.descriptor.dtype = mine.dtype();
  call.descriptor.count = static_cast<std::uint64_t>(mine.numel());
  call.descriptor.set_tag(tag);
  call.in = bytes_of(mine);
  return call;
}

Shape with_divided_rows(CollectiveKind kind, const Tensor& mine, int size) {
  Shape shape = mine.shape();
  if (shape.empty() || shape[0] % size != 0) {
    throw std::invalid_argument(fmt::format("{}: dim 0 of {} does not divide by the {} ranks of the group",
                                            to_string(kind), to_string(shape), size));
  }
  shape[0] /= size;
  return shape;
}

}  // namespace

Receipt Group::run_coalesced(std::span<const Call> calls) {
  Receipt last;
  for (const Call& call : calls) {
    const Receipt receipt = run(call);
    last.sequence = receipt.sequence;
    last.latest_ready_ns = std::max(last.latest_ready_ns, receipt.latest_ready_ns);
  }
  return last;
}

Tensor Group::all_gather(const Tensor& mine, std::string_view tag) {
  Call call = call_on(CollectiveKind::all_gather, mine, tag);
  Shape shape{size()};
  shape.insert(shape.end(), mine.shape().begin(), mine.shape().end());
  Tensor all = Tensor::host(mine.dtype(), shape);
  call.out = room_in(all);
  run(call);
  return all;
}

Tensor Group::reduce_scatter(const Tensor& mine, ReduceOp op, std::string_view tag) {
  Call call = call_on(CollectiveKind::reduce_scatter, mine, tag);
  Tensor part = Tensor::host(mine.dtype(), with_divided_rows(CollectiveKind::reduce_scatter, mine, size()));
  call.descriptor.op = op;
  call.out = room_in(part);
  run(call);
  return part;
}

Tensor Group::all_reduce(const Tensor& mine, ReduceOp op, std::string_view tag) {
  Call call = call_on(CollectiveKind::all_reduce, mine, tag);
  Tensor result = Tensor::host(mine.dtype(), mine.shape());
  call.descriptor.op = op;
  call.out = room_in(result);
  run(call);
  return result;
}

Tensor Group::broadcast(const Tensor& mine, int root, std::string_view tag) {
  Call call = call_on(CollectiveKind::broadcast, mine, tag);
  Tensor result = Tensor::host(mine.dtype(), mine.shape());
  call.descriptor.root = root;
  call.out = room_in(result);
  run(call);
  return result;
}

Tensor Group::all_to_all(const Tensor& mine, std::string_view tag) {
  Call call = call_on(CollectiveKind::all_to_all, mine, tag);
  with_divided_rows(CollectiveKind::all_to_all, mine, size());
  Tensor result = Tensor::host(mine.dtype(), mine.shape());
  call.out = room_in(result);
  run(call);
  return result;
}

Tensor Group::send_recv(const Tensor& mine, int to, int from, std::string_view tag) {
  Call call = call_on(CollectiveKind::send_recv, mine, tag);
  Tensor received = from < 0 ? Tensor() : Tensor::host(mine.dtype(), mine.shape());
  call.to = to;
  call.from = from;
  if (from >= 0) call.out = room_in(received);
  run(call);
  return received;
}

void Group::barrier(std::string_view tag) {
  Call call;
  call.descriptor.kind = CollectiveKind::barrier;
  call.descriptor.set_tag(tag);
  run(call);
}

}  // namespace shardproof
