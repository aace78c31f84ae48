#include "harness/scenario/holding.hpp"

#include <utility>

#include "harness/device/wrappers.hpp"

namespace shardproof::scenario {

// Sees every piece as it is issued, whoever issues it.
class HeldPlatform::Watch {
 public:
  Watch(Platform& platform, Hold hold) : platform_(platform), device_(platform.device()), hold_(std::move(hold)) {}

  template <class Issue>
  void issue(std::variant<WorkKind, CollectiveKind> kind, std::string_view label, Stream stream, Issue&& issue) {
    const trace::Piece piece = counter_.next(kind, label);
    if (piece == hold_.held) {
      gate_ = platform_.gate();
      if (gate_) gate_->hold(stream);
    }
    issue();
    if (piece == hold_.passes) passing_ = device_.record(stream);
  }

  // The host is about to wait for what may be held.
  void conclude() {
    if (!gate_ || has_passed_) return;
    has_passed_ = false;
    if (passing_) {
      device_.synchronize(*passing_);
      has_passed_ = gate_->holds();
    }
    gate_->open();
  }

  std::optional<bool> has_passed() const { return has_passed_; }

 private:
  Platform& platform_;
  Device& device_;
  Hold hold_;
  trace::PieceCounter counter_;
  std::unique_ptr<StreamGate> gate_;
  std::optional<Event> passing_;
  std::optional<bool> has_passed_;
};

class HeldPlatform::HeldDevice final : public DeviceWrapper {
 public:
  HeldDevice(Device& inner, std::shared_ptr<Watch> watch) : DeviceWrapper(inner), watch_(std::move(watch)) {}

  void submit(Stream stream, Work work) override {
    const WorkKind kind = work.kind;
    const std::string label = work.label;
    watch_->issue(kind, label, stream, [&] { inner_.submit(stream, std::move(work)); });
  }
  void synchronize(Stream stream) override {
    watch_->conclude();
    inner_.synchronize(stream);
  }
  void synchronize(Event event) override {
    watch_->conclude();
    inner_.synchronize(event);
  }
  void synchronize() override {
    watch_->conclude();
    inner_.synchronize();
  }
  Tensor to_host(const Tensor& tensor) override {
    watch_->conclude();
    return inner_.to_host(tensor);
  }

 private:
  std::shared_ptr<Watch> watch_;
};

class HeldPlatform::HeldCommunicator final : public CommunicatorWrapper {
 public:
  HeldCommunicator(Communicator& inner, std::shared_ptr<Watch> watch) : CommunicatorWrapper(inner), watch_(std::move(watch)) {}

  void run(Stream stream, const Collective& collective) override {
    watch_->issue(collective.kind, collective.tag, stream, [&] { inner_.run(stream, collective); });
  }
  std::unique_ptr<Communicator> split(int color, int key, std::string_view name) override {
    auto part = inner_.split(color, key, name);
    return part ? std::unique_ptr<Communicator>(new HeldCommunicator(std::move(part), watch_)) : nullptr;
  }

 private:
  HeldCommunicator(std::unique_ptr<Communicator> part, std::shared_ptr<Watch> watch)
      : CommunicatorWrapper(*part), part_(std::move(part)), watch_(std::move(watch)) {}

  std::unique_ptr<Communicator> part_;
  std::shared_ptr<Watch> watch_;
};

HeldPlatform::HeldPlatform(Platform& inner, Hold hold)
    : inner_(inner),
      watch_(std::make_shared<Watch>(inner, std::move(hold))),
      device_(std::make_unique<HeldDevice>(inner.device(), watch_)),
      world_(std::make_unique<HeldCommunicator>(inner.world(), watch_)) {}

HeldPlatform::~HeldPlatform() = default;

Device& HeldPlatform::device() { return *device_; }
Communicator& HeldPlatform::world() { return *world_; }
std::optional<bool> HeldPlatform::has_passed() const { return watch_->has_passed(); }

}  // namespace shardproof::scenario
