// Ranks that call a fake NCCL, as an engine under `shardproof run --nccl-tap` does.
#include <nccl.h>

#include <shardproof.hpp>

#include <cstddef>

using namespace shardproof;

namespace {

/// A rank's communicator, and what an engine asks on it.
class Engine {
 public:
  /// `name`: as unique as an id of NCCL's.
  Engine(Rank& rank, char name) {
    ncclUniqueId id = {};
    id.internal[0] = name;
    ncclCommInitRank(&comm_, rank.world().size(), id, rank.index());
  }
  ~Engine() { ncclCommDestroy(comm_); }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  ncclResult_t all_gather(std::size_t count) {
    return ncclAllGather(buffer_, buffer_, count, ncclFloat32, comm_, nullptr);
  }
  ncclResult_t all_reduce(std::size_t count) {
    return ncclAllReduce(buffer_, buffer_, count, ncclFloat32, ncclSum, comm_, nullptr);
  }
  /// The stand-in ends the process in it.
  ncclResult_t reduce(std::size_t count) {
    return ncclReduce(buffer_, buffer_, count, ncclFloat32, ncclSum, 0, comm_, nullptr);
  }

 private:
  ncclComm_t comm_ = nullptr;
  float buffer_[64] = {};
};

}  // namespace

RANKED_TEST_CASE("nccl/agrees", ranks(2)) {
  Engine engine(rank, 'a');
  CHECK(engine.all_gather(4) == ncclSuccess);
  CHECK(engine.all_reduce(5) == ncclSuccess);
}

RANKED_TEST_CASE("nccl/differs", ranks(2)) {
  Engine engine(rank, 'b');
  engine.all_gather(4);
  engine.all_reduce(rank.index() == 0 ? 6 : 5);
  CHECK(rank.index() == 0);
}

RANKED_TEST_CASE("nccl/dies", ranks(2)) {
  Engine engine(rank, 'c');
  engine.all_gather(7);
  rank.world().barrier();
  if (rank.index() == 1) engine.reduce(8);
  rank.world().barrier();
  CHECK(true);
}

RANKED_TEST_CASE("plain/calls_nothing", ranks(2)) { CHECK(rank.world().size() == 2); }
