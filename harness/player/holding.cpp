#include "harness/player/holding.hpp"

#include <algorithm>
#include <set>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "harness/device/wrappers.hpp"

namespace shardproof::player {

// Sees every piece as it is issued, on the device or a communicator. It knows which streams and events are ordered
// after the held piece.
class HeldPlatform::Watch {
 public:
  // Makes the gate before any work runs: making a gate may wait for the device.
  Watch(Platform& platform, Hold hold) : device_(platform.device()), gate_(platform.gate()), hold_(std::move(hold)) {}

  template <class Issue>
  void issue(std::variant<WorkKind, CollectiveKind> kind, std::string_view label, Stream stream, Issue&& issue) {
    this->issue({counter_.next(kind, label)}, stream, issue);
    if (std::holds_alternative<CollectiveKind>(kind)) keep_order(stream);
  }
  template <class Issue>
  void issue(std::span<const Collective> collectives, Stream stream, Issue&& issue) {
    std::vector<trace::Piece> pieces;
    for (const Collective& collective : collectives) pieces.push_back(counter_.next(collective.kind, collective.tag));
    this->issue(pieces, stream, issue);
    keep_order(stream);
  }
  void recorded(Stream stream, Event event) {
    if (ordered_after_.contains(stream.id)) events_after_.insert(event.id);
  }
  void waits(Stream stream, Event event) {
    if (events_after_.contains(event.id)) ordered_after_.insert(stream.id);
  }
  bool has_gate() const { return gate_ != nullptr; }
  bool is_ordered_after(Stream stream) const { return ordered_after_.contains(stream.id); }
  bool is_ordered_after(Event event) const { return events_after_.contains(event.id); }
  bool is_anything_ordered_after() const { return !ordered_after_.empty(); }

  // Called when the host is about to wait for the held piece.
  void conclude() {
    if (!gate_ || has_passed_) return;
    has_passed_ = false;
    if (passing_) {
      device_.synchronize(*passing_);
      has_passed_ = gate_->holds();
    }
    gate_->open();
  }

  // Without a held piece, or without the other piece, the test proves nothing: false.
  std::optional<bool> has_passed() const { return gate_ ? std::optional(has_passed_.value_or(false)) : std::nullopt; }

 private:
  // Issues the pieces of one call.
  template <class Issue>
  void issue(const std::vector<trace::Piece>& pieces, Stream stream, Issue&& issue) {
    if (std::ranges::find(pieces, hold_.held) != pieces.end()) {
      if (gate_) gate_->hold(stream);
      ordered_after_.insert(stream.id);
    }
    issue();
    if (std::ranges::find(pieces, hold_.passes) != pieces.end()) passing_ = device_.record(stream);
  }
  // Collectives of a group run in the order of their issue: a collective after a waiting one waits, too.
  void keep_order(Stream stream) {
    if (ordered_after_.contains(stream.id)) collectives_wait_ = true;
    if (collectives_wait_) ordered_after_.insert(stream.id);
  }

  Device& device_;
  std::unique_ptr<StreamGate> gate_;
  Hold hold_;
  trace::PieceCounter counter_;
  std::set<std::uint32_t> ordered_after_;  // ids of streams that are ordered after the held piece
  std::set<std::uint64_t> events_after_;
  bool collectives_wait_ = false;
  std::optional<Event> passing_;
  std::optional<bool> has_passed_;
};

class HeldPlatform::HeldDevice final : public DeviceWrapper {
 public:
  HeldDevice(Device& inner, std::shared_ptr<Watch> watch) : DeviceWrapper(inner), watch_(std::move(watch)) {}

  using DeviceWrapper::wait;

  void submit(Stream stream, Work work) override {
    const WorkKind kind = work.kind;
    const std::string label = work.label;
    watch_->issue(kind, label, stream, [&] { inner_.submit(stream, std::move(work)); });
  }
  Event record(Stream stream) override {
    const Event event = inner_.record(stream);
    watch_->recorded(stream, event);
    return event;
  }
  void wait(Stream stream, Event event) override {
    inner_.wait(stream, event);
    watch_->waits(stream, event);
  }
  void synchronize(Stream stream) override {
    if (watch_->is_ordered_after(stream)) watch_->conclude();
    inner_.synchronize(stream);
  }
  void synchronize(Event event) override {
    if (watch_->is_ordered_after(event)) watch_->conclude();
    inner_.synchronize(event);
  }
  void synchronize() override {
    if (watch_->is_anything_ordered_after()) watch_->conclude();
    inner_.synchronize();
  }
  // Copies are made on the compute stream.
  Tensor to_host(const Tensor& tensor) override {
    if (watch_->is_ordered_after(Device::compute)) watch_->conclude();
    return inner_.to_host(tensor);
  }

 private:
  std::shared_ptr<Watch> watch_;
};

class HeldPlatform::HeldCommunicator final : public CommunicatorWrapper {
 public:
  HeldCommunicator(Communicator& inner, std::shared_ptr<Watch> watch)
      : CommunicatorWrapper(inner), watch_(std::move(watch)) {}

  void run(Stream stream, const Collective& collective) override {
    watch_->issue(collective.kind, collective.tag, stream, [&] { inner_.run(stream, collective); });
  }
  void run_coalesced(Stream stream, std::span<const Collective> collectives) override {
    watch_->issue(collectives, stream, [&] { inner_.run_coalesced(stream, collectives); });
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
bool HeldPlatform::has_gate() const { return watch_->has_gate(); }
std::optional<bool> HeldPlatform::has_passed() const { return watch_->has_passed(); }

}  // namespace shardproof::player
