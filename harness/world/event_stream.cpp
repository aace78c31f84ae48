#include "harness/world/event_stream.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <string_view>
#include <system_error>
#include <utility>

namespace shardproof::world {

EventStream::EventStream(std::filesystem::path file) : file_(std::move(file)) {
  const auto open = [this] {
    return base::FileDescriptor(::open(file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644));
  };
  descriptor_ = open();
  if (!descriptor_ && errno == ENOENT) {  // our own launcher has made the folder
    std::filesystem::create_directories(file_.parent_path());
    descriptor_ = open();
  }
  if (!descriptor_)
    throw std::system_error(errno, std::generic_category(), fmt::format("event stream: open {}", file_.string()));
}

void EventStream::write(const protocol::RankEvent& event) {
  const std::string line = protocol::to_line(event) + '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(descriptor_.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0)
      throw std::system_error(errno, std::generic_category(), fmt::format("event stream: write {}", file_.string()));
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace shardproof::world
