// A device that finds writes outside of buffers, and uses of released buffers. Every buffer is between two guards, and
// is poisoned after its release. Its findings do not depend on the recorded facts of subject and device.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/device/sim/sim_device.hpp"
#include "harness/faults/wrappers.hpp"

namespace shardproof {

/// The findings on one rank, and the number of checked buffers.
struct Findings {
  std::vector<std::string> texts;
  std::size_t buffers = 0;
};

/// Wraps a simulated device. Checks a buffer at its release, and when its last view is gone.
class GuardedDevice final : public DeviceWrapper {
 public:
  static constexpr std::size_t guard = 64;
  static constexpr std::byte untouched{0xA5};

  GuardedDevice(Device& inner, std::shared_ptr<Findings> findings)
      : DeviceWrapper(inner), findings_(std::move(findings)) {}

  std::shared_ptr<Storage> allocate(Stream stream, std::size_t bytes, MemoryClass memory,
                                    std::string_view label) override {
    return std::make_shared<Buffer>(inner_.allocate(stream, bytes + 2 * guard, memory, label), bytes, label, findings_);
  }
  void release(Stream stream, const std::shared_ptr<Storage>& storage) override {
    auto& buffer = dynamic_cast<Buffer&>(*storage);
    buffer.about_to_be_released();
    inner_.release(stream, buffer.whole());
  }

 private:
  class Buffer final : public Storage {
   public:
    Buffer(std::shared_ptr<Storage> whole, std::size_t bytes, std::string_view label,
           std::shared_ptr<Findings> findings)
        : Storage(whole->data() + guard, bytes, whole->buffer()),
          whole_(std::move(whole)),
          label_(label),
          findings_(std::move(findings)) {
      std::memset(before().data(), std::to_integer<int>(untouched), guard);
      std::memset(after().data(), std::to_integer<int>(untouched), guard);
      ++findings_->buffers;
    }
    ~Buffer() override {
      if (released_)
        expect({whole_->data(), whole_->bytes()}, device::SimDevice::poison, "was written to after its release");
      else expect_guards();
    }

    const std::shared_ptr<Storage>& whole() const { return whole_; }
    void about_to_be_released() {
      expect_guards();
      released_ = true;
    }

   private:
    std::span<std::byte> before() const { return {whole_->data(), guard}; }
    std::span<std::byte> after() const { return {data() + bytes(), guard}; }
    void expect_guards() const {
      expect(before(), untouched, "was written to before its start");
      expect(after(), untouched, "was written to beyond its end");
    }
    void expect(std::span<const std::byte> found, std::byte expected, std::string_view otherwise) const {
      if (std::ranges::count(found, expected) == std::ssize(found)) return;
      findings_->texts.push_back(fmt::format("buffer {} \"{}\" of {} bytes {}", buffer(), label_, bytes(), otherwise));
    }

    std::shared_ptr<Storage> whole_;
    std::string label_;
    std::shared_ptr<Findings> findings_;
    bool released_ = false;
  };

  std::shared_ptr<Findings> findings_;
};

}  // namespace shardproof
