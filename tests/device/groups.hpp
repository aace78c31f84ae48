// Two groups for the device's tests. FakeGroup is one rank whose peers are simulated by the test. Crowd has several
// ranks in threads of this process, which really exchange their bytes and ready times.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "harness/fabric/group.hpp"

namespace shardproof::test {

class FakeGroup final : public Group {
 public:
  explicit FakeGroup(int size = 2, int rank = 0) : rank_(rank) {
    for (int member = 0; member < size; ++member) members_.push_back(10 + member);
  }

  int rank() const override { return rank_; }
  std::span<const int> members() const override { return members_; }
  const FabricCapabilities& capabilities() const override { return capabilities_; }
  std::string_view name() const override { return "fake"; }
  std::shared_ptr<Group> split(int, int, std::string_view) override { return nullptr; }

  Receipt run(const Call& call) override {
    calls.push_back(call.descriptor);
    if (failure) std::rethrow_exception(failure);
    if (!call.in.empty() && call.in.data() != call.out.data()) {
      std::memmove(call.out.data(), call.in.data(), std::min(call.in.size(), call.out.size()));
    }
    return {calls.size() - 1, lie.value_or(std::max(call.descriptor.ready_ns, peers_ready))};
  }

  std::vector<Descriptor> calls;
  std::int64_t peers_ready = 0;       ///< the latest ready time of the peers
  std::optional<std::int64_t> lie;    ///< replaces the result
  std::exception_ptr failure;         ///< thrown by every call

 private:
  int rank_;
  std::vector<int> members_;
  FabricCapabilities capabilities_;
};

/// Ranks of one world as threads; all-gathers only.
class Crowd {
 public:
  explicit Crowd(int size) : contributions_(static_cast<std::size_t>(size)) {
    for (int rank = 0; rank < size; ++rank) members_.push_back(rank);
  }

  /// Runs the body once per rank, and returns when all ranks have finished.
  void run(const std::function<void(Group& group)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < static_cast<int>(members_.size()); ++rank) {
      threads.emplace_back([&, rank] {
        EngineContext engine_context(*this, rank);
        body(engine_context);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  class EngineContext final : public Group {
   public:
    EngineContext(Crowd& crowd, int rank) : crowd_(crowd), rank_(rank) {}
    int rank() const override { return rank_; }
    std::span<const int> members() const override { return crowd_.members_; }
    const FabricCapabilities& capabilities() const override { return capabilities_; }
    std::string_view name() const override { return "crowd"; }
    std::shared_ptr<Group> split(int, int, std::string_view) override { return nullptr; }
    Receipt run(const Call& call) override { return crowd_.exchange(rank_, call); }

   private:
    Crowd& crowd_;
    int rank_;
    FabricCapabilities capabilities_;
  };

  // All ranks arrive, all copy, all leave, so that no rank overwrites bytes that another rank still reads.
  Receipt exchange(int rank, const Call& call) {
    contributions_[static_cast<std::size_t>(rank)] = call;
    meet();
    Receipt receipt{calls_, 0};
    std::byte* out = call.out.data();
    for (const Call& contribution : contributions_) {
      receipt.latest_ready_ns = std::max(receipt.latest_ready_ns, contribution.descriptor.ready_ns);
      std::memmove(out, contribution.in.data(), contribution.in.size());
      out += contribution.in.size();
    }
    meet();
    return receipt;
  }

  void meet() {
    std::unique_lock lock(mutex_);
    const std::uint64_t meeting = meetings_;
    if (++present_ == members_.size()) {
      present_ = 0;
      calls_ = ++meetings_ / 2;
      all_here_.notify_all();
    } else {
      all_here_.wait(lock, [&] { return meetings_ != meeting; });
    }
  }

  std::vector<int> members_;
  std::vector<Call> contributions_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::size_t present_ = 0;
  std::uint64_t meetings_ = 0, calls_ = 0;
};

}  // namespace shardproof::test
