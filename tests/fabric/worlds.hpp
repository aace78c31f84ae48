// Worlds for tests of the fabric: every rank runs the same body, as a thread or as a process.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/control/control_page.hpp"
#include "harness/fabric/group.hpp"

namespace shardproof::testing {

/// The context of a body on one rank. `expect` throws. If a body throws, its rank fails with the exception's text.
struct Side {
  int rank;
  int size;
  control::ControlPage& control;
  std::shared_ptr<Group> world;
  std::atomic<std::uint32_t>& epoch;
  std::string directory;  ///< of a world of processes

  /// Separates two cases: no rank begins the next case before all ranks have left this one.
  void next_case();
};

using Body = std::function<void(Side&)>;

struct Settings {
  std::chrono::milliseconds timeout{20'000};
};

/// Makes the world's group of a rank, in the rank's own thread.
using GroupOf = std::function<std::shared_ptr<Group>(int rank, std::atomic<std::uint32_t>& epoch)>;
/// Runs the body on threads, on any fabric.
std::vector<std::string> run_on_threads(control::ControlPage& control, const Body& body, const GroupOf& group_of);
/// Runs the body on threads. Returns each rank's error, with empty texts for ranks without an error.
std::vector<std::string> run_threads(int size, const Body& body, const Settings& settings = {});
/// Runs the body in processes. A rank that dies has the error `signal N`, and dooms the world as a launcher would.
std::vector<std::string> run_processes(int size, const Body& body, const Settings& settings = {});

/// The result of a world in which no rank fails, for comparison with the results above.
inline std::vector<std::string> all_well(int size) { return std::vector<std::string>(static_cast<std::size_t>(size)); }

void expect(bool holds, const std::string& what);
void expect_contains(const std::string& text, const std::string& part);
/// Calls `holds` until it returns true, because messages may be on their way. Throws `what` after 20 s.
void await(const std::function<bool()>& holds, const std::string& what);

/// The memory that this process has from the system.
std::size_t resident_bytes();
/// A sanitizer finds uses of freed memory, so the system does not get that memory back.
bool keeps_freed_memory();

/// The text of the exception that `f` must throw. Throws if `f` throws another exception or none.
template <class Exception, class F>
std::string thrown_by(F f) {
  try {
    f();
  } catch (const Exception& exception) {
    return exception.what();
  }
  throw std::runtime_error("nothing was thrown");
}

/// A private directory. The destructor removes it.
class ScratchDirectory {
 public:
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace shardproof::testing
