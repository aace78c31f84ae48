#include "harness/world/watched_group.hpp"

#include <utility>

#include "harness/control/control_plane.hpp"

namespace shardproof::world {

namespace {

class WatchedGroup final : public Group {
 public:
  WatchedGroup(std::shared_ptr<Group> inner, GroupWatch& watch, bool is_world)
      : inner_(std::move(inner)), watch_(watch), is_world_(is_world) {}

  int rank() const override { return inner_->rank(); }
  std::span<const int> members() const override { return inner_->members(); }
  const FabricCapabilities& capabilities() const override { return inner_->capabilities(); }
  std::string_view name() const override { return inner_->name(); }
  std::string why_out_of_reach() const override { return inner_->why_out_of_reach(); }

  Receipt run(const Call& call) override {
    Receipt receipt;
    note([&] { receipt = inner_->run(call); });
    return receipt;
  }

  // Overrides the default, which would make each call a separate call of the fabric.
  Receipt run_coalesced(std::span<const Call> calls) override {
    Receipt receipt;
    note([&] { receipt = inner_->run_coalesced(calls); });
    return receipt;
  }

  std::shared_ptr<Group> split(int color, int key, std::string_view name) override {
    std::shared_ptr<Group> part;
    note([&] { part = inner_->split(color, key, name); });
    return part ? std::make_shared<WatchedGroup>(std::move(part), watch_, false) : nullptr;
  }

 private:
  template <class F>
  void note(F call) {
    if (is_world_) ++watch_.world_calls;
    try {
      call();
    } catch (const Mismatch&) {
      throw;  // all ranks end such a call alike, before bytes move
    } catch (const control::Released&) {
      watch_.released = true;
      leave_call();
      throw;
    } catch (const control::Deadlock&) {
      watch_.released = true;
      leave_call();
      throw;
    } catch (...) {
      leave_call();
      throw;
    }
  }

  void leave_call() {
    watch_.left_call = true;
    watch_.out_of_reach = inner_->why_out_of_reach();
  }

  std::shared_ptr<Group> inner_;
  GroupWatch& watch_;
  bool is_world_;
};

}  // namespace

std::shared_ptr<Group> watch_world(std::shared_ptr<Group> world, GroupWatch& watch) {
  return std::make_shared<WatchedGroup>(std::move(world), watch, true);
}

}  // namespace shardproof::world
