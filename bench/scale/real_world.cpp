#include "bench/scale/real_world.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>

#include "harness/base/file_descriptor.hpp"
#include "harness/base/shared_memory.hpp"
#include "harness/control/control_page.hpp"
#include "harness/protocol/run_directory.hpp"
#include "launcher/process/poller.hpp"
#include "launcher/run/world.hpp"

namespace shardproof::bench {

namespace {

/// Counts that this process and the ranks map.
class SharedCounts {
 public:
  explicit SharedCounts(const std::filesystem::path& file) {
    const base::FileDescriptor descriptor(::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!descriptor || ::ftruncate(descriptor.get(), sizeof(CountedCalls)) != 0)
      throw std::system_error(errno, std::generic_category(), file.string());
    calls_ = reinterpret_cast<CountedCalls*>(base::map_shared(descriptor.get(), sizeof(CountedCalls), file.string()));
  }
  SharedCounts(const SharedCounts&) = delete;
  SharedCounts& operator=(const SharedCounts&) = delete;
  ~SharedCounts() { ::munmap(calls_, sizeof(CountedCalls)); }
  const CountedCalls& calls() const { return *calls_; }

 private:
  CountedCalls* calls_;
};

std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

}  // namespace

RealWorld run_real_world(const launcher::Worker& worker, const std::filesystem::path& counter, int ranks,
                         const std::vector<std::string>& cases, const std::filesystem::path& directory) {
  using Clock = std::chrono::steady_clock;
  std::filesystem::create_directories(directory);
  const protocol::WorldDirectory place{directory / "worlds" / "0"};
  std::filesystem::create_directories(place.root.parent_path());
  const SharedCounts counts(directory / "counts");
  launcher::WorldLaunch launch{.worker = worker.program, .environment = worker.environment};
  launch.environment.push_back(fmt::format("LD_PRELOAD={}", counter.string()));
  launch.environment.push_back(fmt::format("{}={}", counts_variable, (directory / "counts").string()));
  launch.environment.push_back(fmt::format("{}={}", run_variable, place.root.string()));

  RealWorld used;
  const std::size_t before = open_descriptors();
  protocol::WorldPlan plan{
      .size = ranks, .nonce = {}, .rendezvous = {}, .directory = {}, .subject = {}, .fault = {}, .cases = cases};
  const Clock::time_point start = Clock::now();
  const auto world = launcher::start_world(plan, place, launch, {});
  launcher::Poller poller;
  poller.add(world->descriptor(), 0);
  used.descriptors = open_descriptors() - before - 1;  // `poller` is no part of the world
  while (!world->is_over()) {
    poller.wait(world->deadline());
    world->handle_events();
  }
  used.ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  if (const launcher::WorldOutcome outcome = world->outcome(); !outcome.complete) {
    throw std::runtime_error(fmt::format("a world of {} did not end in order: {} {}", ranks, outcome.cut_short,
                                         outcome.infrastructure_error));
  }

  const std::filesystem::path page = plan.rendezvous / "control";
  used.page_bytes = std::filesystem::file_size(page);
  used.agreements = control::ControlPage::open(page, plan.nonce).decided();
  used.store = counts.calls().at(CountedCalls::store);
  used.run = counts.calls().at(CountedCalls::run);
  used.region_bytes = counts.calls().reserved.load();
  for (int rank = 0; rank < ranks; ++rank) {
    used.stream_bytes += std::filesystem::file_size(place.rank_stream(rank));
    std::ifstream stream(place.rank_stream(rank));
    used.stream_lines += static_cast<std::uint64_t>(std::count(std::istreambuf_iterator<char>(stream), {}, '\n'));
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(place.root))
    used.files += entry.is_regular_file() ? 1 : 0;
  return used;
}

}  // namespace shardproof::bench
