// The guard itself: what it must find, and that it finds nothing else.
#include "tests/engines/guarded_device.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace shardproof;

namespace {

/// The findings of a device when a buffer of 100 bytes is used like this.
template <class Use>
std::vector<std::string> found(Use use) {
  device::SimDevice inner({}, 0);
  const auto findings = std::make_shared<Findings>();
  GuardedDevice device(inner, findings);
  {
    const std::shared_ptr<Storage> storage = device.allocate(Device::compute, 100, MemoryClass::other, "mine");
    use(device, storage);
  }
  CHECK(findings->buffers == 1);
  return findings->texts;
}

}  // namespace

TEST_CASE("the guarded device reports no access within a buffer") {
  const auto fill = [](Device&, const std::shared_ptr<Storage>& storage) {
    std::memset(storage->data(), 0, storage->bytes());
  };
  CHECK(found(fill).empty());
  CHECK(found([&](Device& device, const std::shared_ptr<Storage>& storage) {
          fill(device, storage);
          device.release(Device::compute, storage);
        }).empty());
}

TEST_CASE("a byte before the start, beyond the end or after the release is found") {
  for (const bool released_in_time : {false, true}) {
    CAPTURE(released_in_time);
    for (const std::ptrdiff_t offset : {-64, -1, 100, 163}) {
      CAPTURE(offset);
      const std::vector<std::string> texts = found([&](Device& device, const std::shared_ptr<Storage>& storage) {
        storage->data()[offset] = std::byte{0};
        if (released_in_time) device.release(Device::compute, storage);
      });
      REQUIRE(texts.size() == 1);
      CHECK(texts[0] == fmt::format("buffer 1 \"mine\" of 100 bytes was written to {}",
                                    offset < 0 ? "before its start" : "beyond its end"));
    }
  }
  for (const std::ptrdiff_t offset : {0, 99}) {
    const std::vector<std::string> texts = found([&](Device& device, const std::shared_ptr<Storage>& storage) {
      device.release(Device::compute, storage);
      storage->data()[offset] = std::byte{0};
    });
    REQUIRE(texts.size() == 1);
    CHECK(texts[0] == "buffer 1 \"mine\" of 100 bytes was written to after its release");
  }
}

TEST_CASE("released memory holds a value that no computation survives") {
  found([](Device& device, const std::shared_ptr<Storage>& storage) {
    const Tensor view(storage, DType::f32, {25});
    device.release(Device::compute, storage);
    for (const double value : view.to_doubles()) CHECK(value != value);
  });
}
