// A defect that shows what the case is worth.
#include "harness/faults/fault.hpp"
#include "harness/faults/wrappers.hpp"

namespace shardproof::toy {

namespace {

class Silent final : public CommunicatorWrapper {
 public:
  using CommunicatorWrapper::CommunicatorWrapper;
  void run(Stream /*stream*/, const Collective& /*collective*/) override {}
};

}  // namespace

FAULT(toy_without_all_reduce, breaks("TOY-1", "TOY-2"), "ranks keep their own gradients") {
  return with_communicators<Silent>(std::move(subject));
}

}  // namespace shardproof::toy
