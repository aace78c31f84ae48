// Where GPUs stand, on machines that are only folders, and what a list of GPUs says of it.
#include "harness/device/cuda/pci.hpp"

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "harness/device/cuda/gpu_listing.hpp"
#include "tests/device/cuda/planted.hpp"
#include "tests/launcher/temporary.hpp"

using namespace shardproof;
using namespace shardproof::device::cuda;
using shardproof::launcher::testing::TemporaryDirectory;

namespace {

/// A machine's /sys: devices in a tree of bridges, and links to them by their addresses.
class Machine {
 public:
  void add(const std::string& path, const std::string& numa_node) {
    const auto device = root() / "devices" / path;
    std::filesystem::create_directories(device);
    if (!numa_node.empty()) std::ofstream(device / "numa_node") << numa_node << '\n';
    std::filesystem::create_directories(root() / "bus/pci/devices");
    std::filesystem::create_symlink(device, root() / "bus/pci/devices" / device.filename());
  }
  const std::filesystem::path& root() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_;
};

PciPlace at(const std::string& path, int numa_node) { return {.numa_node = numa_node, .path = path}; }

}  // namespace

TEST_CASE("a GPU's place is what the kernel says, whatever letters its address is written in") {
  Machine machine;
  machine.add("pci0000:16/0000:16:01.0/0000:c1:00.0", "1");
  machine.add("platform/a-controller/pci0004:00/0004:00:00.0/0004:01:00.0", "0");
  const PciPlace place = pci_place(machine.root(), "0000:C1:00.0");
  CHECK(place.numa_node == 1);
  CHECK(place.path == "pci0000:16/0000:16:01.0/0000:c1:00.0");
  CHECK(pci_place(machine.root(), "0004:01:00.0").path == "pci0004:00/0004:00:00.0/0004:01:00.0");
}

TEST_CASE("a GPU property that the kernel does not report stays unknown") {
  Machine machine;
  machine.add("pci0000:00/0000:02:00.0", "-1");
  machine.add("pci0000:00/0000:03:00.0", "");
  machine.add("pci0000:00/0000:04:00.0", "near");
  for (const char* bus_id : {"0000:02:00.0", "0000:03:00.0", "0000:04:00.0"}) {
    CHECK_FALSE(pci_place(machine.root(), bus_id).numa_node.has_value());
    CHECK_FALSE(pci_place(machine.root(), bus_id).path.empty());
  }
  for (const char* bus_id : {"", "0000:77:00.0", "../devices", "."})
    CHECK(pci_place(machine.root(), bus_id).path.empty());
  CHECK(pci_place(machine.root() / "nowhere", "0000:02:00.0").path.empty());
}

TEST_CASE("links between two GPUs have the names of nvidia-smi") {
  const std::string host = "pci0000:00", port = host + "/0000:00:01.0", upstream = port + "/0000:01:00.0";
  const std::string left = upstream + "/0000:02:00.0", right = upstream + "/0000:02:01.0";
  CHECK(pci_between(at(port + "/0000:01:00.0", 0), at(port + "/0000:01:00.1", 0)) == "PIX");  // of one board
  CHECK(pci_between(at(left + "/0000:03:00.0", 0), at(right + "/0000:04:00.0", 0)) == "PIX");
  CHECK(pci_between(at(left + "/0000:03:00.0/0000:05:00.0/0000:06:00.0", 0), at(right + "/0000:04:00.0", 0)) == "PXB");
  CHECK(pci_between(at(port + "/0000:01:00.0", 0), at(host + "/0000:00:02.0/0000:07:00.0", 0)) == "PHB");
  CHECK(pci_between(at("pci0000:00/0000:01:00.0", 0), at("pci0000:80/0000:81:00.0", 0)) == "NODE");
  CHECK(pci_between(at("pci0000:00/0000:01:00.0", 0), at("pci0000:80/0000:81:00.0", 1)) == "SYS");
  CHECK(pci_between({.numa_node = {}, .path = "pci0000:00/0000:01:00.0"}, at("pci0000:80/0000:81:00.0", 1)).empty());
  CHECK(pci_between({}, at("pci0000:80/0000:81:00.0", 1)).empty());
}

TEST_CASE("a list of GPUs gives each GPU's location, what slows it, and which peers it reaches") {
  Machine machine;
  machine.add("pcicccc:00/cccc:00:01.0/cccc:01:00.0", "0");
  machine.add("pcicccc:00/cccc:00:02.0/cccc:02:00.0", "0");
  const protocol::GpuListing listing = list_gpus(cpu::fragile_vendor(), machine.root());
  REQUIRE(listing.gpus.size() == 8);
  const protocol::GpuInfo &second = listing.gpus[1], &last = listing.gpus[7];
  CHECK(second.numa_node == 0);
  CHECK(second.pci_path == "pcicccc:00/cccc:00:01.0/cccc:01:00.0");
  CHECK_FALSE(second.clock_now_khz.has_value());
  CHECK(second.slowed_by == std::vector<std::string>{});  // an idle GPU is not slowed
  REQUIRE(second.peers.size() == 7);
  CHECK(second.peers[0] == protocol::GpuPeer{.uuid = listing.gpus[0].uuid,
                                             .can_access = true,
                                             .performance_rank = 0,
                                             .native_atomics = true,
                                             .nvlink = {},
                                             .pci = ""});
  CHECK(second.peers[1].pci == "PHB");
  CHECK_FALSE(second.peers[6].can_access);
  CHECK_FALSE(last.numa_node.has_value());
  CHECK(last.slowed_by == std::vector<std::string>{"heat (software)"});
  CHECK(protocol::unreachable_pairs(listing.gpus).size() == 7);
}

TEST_CASE("a GPU property that the library does not report is unknown, and the list keeps every GPU") {
  cpu::plant(cpu::Planted{.function = "peer_properties", .call = 1});
  const protocol::GpuListing one_less = list_gpus(cpu::fragile_vendor());
  CHECK(cpu::has_failed());
  REQUIRE(one_less.gpus.size() == 8);
  CHECK(one_less.gpus[0].peers.size() == 6);
  cpu::plant(cpu::Planted{.function = "device_state", .call = 8});
  const protocol::GpuListing unknown = list_gpus(cpu::fragile_vendor());
  CHECK(cpu::has_failed());
  REQUIRE(unknown.gpus.size() == 8);
  CHECK_FALSE(unknown.gpus[7].slowed_by.has_value());
  cpu::plant(std::nullopt);
}
