#include "harness/faults/wrappers.hpp"

#include <unordered_map>
#include <utility>

namespace shardproof {

namespace {

// A communicator whose calls go through an altered one. Groups that are split off it are altered, too.
class AlteredCommunicator final : public Communicator {
 public:
  using Factory = decltype(AlteredParts::communicator);

  AlteredCommunicator(std::shared_ptr<Communicator> inner, Factory factory)
      : inner_(std::move(inner)), factory_(std::move(factory)), acting_(factory_(*inner_)) {}

  int rank() const override { return acting_->rank(); }
  std::span<const int> members() const override { return acting_->members(); }
  const FabricCapabilities& capabilities() const override { return acting_->capabilities(); }
  void run(Stream stream, const Collective& collective) override { acting_->run(stream, collective); }
  void run_coalesced(Stream stream, std::span<const Collective> collectives) override {
    acting_->run_coalesced(stream, collectives);
  }
  std::unique_ptr<Communicator> split(int color, int key, std::string_view name) override {
    std::shared_ptr<Communicator> part = inner_->split(color, key, name);
    return part ? std::make_unique<AlteredCommunicator>(std::move(part), factory_) : nullptr;
  }

 private:
  std::shared_ptr<Communicator> inner_;
  Factory factory_;
  std::unique_ptr<Communicator> acting_;
};

// A trainer with its altered device and communicator, which must outlive it.
class AlteredTrainer final : public TrainerWrapper {
 public:
  AlteredTrainer(std::unique_ptr<Trainer> inner, std::unique_ptr<Device> device,
                 std::unique_ptr<Communicator> communicator)
      : TrainerWrapper(std::move(inner)), device_(std::move(device)), communicator_(std::move(communicator)) {}
  ~AlteredTrainer() override { inner_.reset(); }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Communicator> communicator_;
};

class AlteredSubject final : public Subject {
 public:
  AlteredSubject(std::unique_ptr<Subject> inner, Alteration alteration)
      : inner_(std::move(inner)), alteration_(std::move(alteration)) {}

  std::string_view name() const override { return inner_->name(); }
  std::string_view version() const override { return inner_->version(); }
  Claims claims() const override { return inner_->claims(); }
  Reply take_teardown_failure() override { return inner_->take_teardown_failure(); }

  Reply create(const Model& model, const Plan& plan, const EngineContext& engine_context,
               std::unique_ptr<Trainer>& out) override {
    Model altered_model = model;
    if (alteration_.model) alteration_.model(altered_model);
    Plan altered_plan = plan;
    if (alteration_.plan) alteration_.plan(altered_plan);
    if (alteration_.plan_of_rank) alteration_.plan_of_rank(altered_plan, engine_context.rank);
    AlteredParts parts = alteration_.parts ? alteration_.parts(engine_context) : AlteredParts{};
    std::unique_ptr<Communicator> communicator;
    if (parts.communicator) {
      communicator = std::make_unique<AlteredCommunicator>(std::make_shared<CommunicatorWrapper>(engine_context.world),
                                                           parts.communicator);
    }
    std::unique_ptr<Trainer> trainer;
    Reply reply =
        inner_->create(altered_model, altered_plan,
                       EngineContext{parts.device ? *parts.device : engine_context.device,
                                     communicator ? *communicator : engine_context.world, engine_context.rank},
                       trainer);
    if (!reply.ok()) return reply;
    if (parts.trainer) trainer = parts.trainer(std::move(trainer));
    out = std::make_unique<AlteredTrainer>(std::move(trainer), std::move(parts.device), std::move(communicator));
    return reply;
  }

 private:
  std::unique_ptr<Subject> inner_;
  Alteration alteration_;
};

// Remembers the last work on every stream, so that a wait can be identified by the work that it waits for.
class WaitDroppingDevice final : public DeviceWrapper {
 public:
  WaitDroppingDevice(Device& inner, std::function<bool(const Wait&)> drop)
      : DeviceWrapper(inner), drop_(std::move(drop)) {}

  using DeviceWrapper::wait;

  void issued(Stream stream, CollectiveKind kind) { last_[stream.id] = Wait{.after_collective = kind}; }

  void submit(Stream stream, Work work) override {
    last_[stream.id] = Wait{.after_work = work.kind};
    DeviceWrapper::submit(stream, std::move(work));
  }

  Event record(Stream stream) override {
    const Event event = DeviceWrapper::record(stream);
    Wait wait = last_[stream.id];
    wait.recorded_on = stream.role;
    recorded_[event.id] = wait;
    return event;
  }

  void wait(Stream stream, Event event) override {
    Wait candidate = recorded_[event.id];
    candidate.stream = stream.role;
    if (!drop_(candidate)) DeviceWrapper::wait(stream, event);
  }

 private:
  std::function<bool(const Wait&)> drop_;
  std::unordered_map<std::uint32_t, Wait> last_;
  std::unordered_map<std::uint64_t, Wait> recorded_;
};

class NotingCommunicator final : public CommunicatorWrapper {
 public:
  NotingCommunicator(Communicator& inner, WaitDroppingDevice& device) : CommunicatorWrapper(inner), device_(device) {}

  void run(Stream stream, const Collective& collective) override {
    CommunicatorWrapper::run(stream, collective);
    device_.issued(stream, collective.kind);
  }
  void run_coalesced(Stream stream, std::span<const Collective> collectives) override {
    CommunicatorWrapper::run_coalesced(stream, collectives);
    if (!collectives.empty()) device_.issued(stream, collectives.front().kind);
  }

 private:
  WaitDroppingDevice& device_;
};

}  // namespace

Reply reworded(Reply reply, const std::function<std::string(const std::string&)>& change) {
  if (reply.ok()) return reply;
  Reply changed = Reply::of(reply.status(), change(reply.error()));
  changed.warnings = std::move(reply.warnings);
  return changed;
}

std::unique_ptr<Subject> altered(std::unique_ptr<Subject> subject, Alteration alteration) {
  return std::make_unique<AlteredSubject>(std::move(subject), std::move(alteration));
}

std::unique_ptr<Subject> drop_waits(std::unique_ptr<Subject> subject, std::function<bool(const Wait&)> drop) {
  return altered(std::move(subject), {.parts = [drop = std::move(drop)](const EngineContext& context) {
                   auto device = std::make_unique<WaitDroppingDevice>(context.device, drop);
                   WaitDroppingDevice& dropping = *device;
                   return AlteredParts{.device = std::move(device), .communicator = [&dropping](Communicator& inner) {
                                         return std::make_unique<NotingCommunicator>(inner, dropping);
                                       }};
                 }});
}

}  // namespace shardproof
