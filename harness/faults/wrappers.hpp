// What stands between a faulty subject and its surroundings: each wrapper passes everything on, and a fault overrides the one thing it
// breaks.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harness/device/device.hpp"
#include "harness/subject/subject.hpp"

namespace shardproof {

class DeviceWrapper : public Device {
 public:
  explicit DeviceWrapper(Device& inner) : inner_(inner) {}

  using Device::wait;
  Stream create_stream(StreamRole role, std::string_view name) override { return inner_.create_stream(role, name); }
  void submit(Stream stream, Work work) override { inner_.submit(stream, std::move(work)); }
  Event record(Stream stream) override { return inner_.record(stream); }
  void wait(Stream stream, Event event) override { inner_.wait(stream, event); }
  void synchronize(Stream stream) override { inner_.synchronize(stream); }
  void synchronize(Event event) override { inner_.synchronize(event); }
  void synchronize() override { inner_.synchronize(); }
  std::shared_ptr<Storage> allocate(Stream stream, std::size_t bytes, MemoryClass memory, std::string_view label) override {
    return inner_.allocate(stream, bytes, memory, label);
  }
  void release(Stream stream, const std::shared_ptr<Storage>& storage) override { inner_.release(stream, storage); }
  void host_access(std::string_view label, const std::vector<Tensor>& reads, const std::vector<Tensor>& writes) override {
    inner_.host_access(label, reads, writes);
  }
  Tensor to_host(const Tensor& tensor) override { return inner_.to_host(tensor); }
  void mark(std::string_view text) override { inner_.mark(text); }

 protected:
  Device& inner_;
};

class CommunicatorWrapper : public Communicator {
 public:
  explicit CommunicatorWrapper(Communicator& inner) : inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  std::span<const int> members() const override { return inner_.members(); }
  const FabricCapabilities& capabilities() const override { return inner_.capabilities(); }
  void run(Stream stream, const Collective& collective) override { inner_.run(stream, collective); }
  std::unique_ptr<Communicator> split(int color, int key, std::string_view name) override { return inner_.split(color, key, name); }

 protected:
  Communicator& inner_;
};

class TrainerWrapper : public Trainer {
 public:
  explicit TrainerWrapper(std::unique_ptr<Trainer> inner) : inner_(std::move(inner)) {}

  Reply perform(const scenario::Action& action, const Batch& batch) override { return inner_->perform(action, batch); }
  Reply loss(Tensor& out) override { return inner_->loss(out); }
  Reply parameters(std::vector<ParameterView>& out) override { return inner_->parameters(out); }

 protected:
  std::unique_ptr<Trainer> inner_;
};

/// What a fault changes about a subject; an empty member changes nothing.
struct Alteration {
  std::function<void(scenario::Model&)> model;
  std::function<void(scenario::Plan&)> plan;
  std::function<std::unique_ptr<Device>(Device&)> device;
  /// The device is the altered one. Called for the world, and again for every group that is split off: the defect is in those too.
  std::function<std::unique_ptr<Communicator>(Communicator&, Device&)> communicator;
  std::function<std::unique_ptr<Trainer>(std::unique_ptr<Trainer>)> trainer;
};

/// The subject with the alteration in place; it keeps its name, version and claims.
std::unique_ptr<Subject> altered(std::unique_ptr<Subject> subject, Alteration alteration);

/// A wait that is about to be issued: `stream` waits for an event that was recorded right after `after` (the label or tag with it), on the
/// stream of role `recorded_on`.
struct Wait {
  StreamRole stream = StreamRole::compute;
  StreamRole recorded_on = StreamRole::compute;
  std::optional<CollectiveKind> after_collective;
  std::optional<WorkKind> after_work;
};

/// The subject without the waits for which `drop` holds.
std::unique_ptr<Subject> drop_waits(std::unique_ptr<Subject> subject, std::function<bool(const Wait&)> drop);

}  // namespace shardproof
