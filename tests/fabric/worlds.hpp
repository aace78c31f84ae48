// Worlds for tests of the fabric: the same body on every rank, as threads or as processes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/control/control_page.hpp"
#include "harness/fabric/group.hpp"

namespace shardproof::testing {

/// What a body sees. `expect` throws; a body that throws makes its rank fail with that text.
struct Side {
  int rank;
  int size;
  ControlPage& control;
  std::shared_ptr<Group> world;
  std::atomic<std::uint32_t>& epoch;
  std::string directory;  ///< of a world of processes

  /// What lies between two cases: nobody takes the next one before all have left this one.
  void next_case();
};

using Body = std::function<void(Side&)>;

struct Settings {
  std::chrono::milliseconds timeout{20'000};
};

/// What went wrong, by rank; empty texts for ranks that did well.
std::vector<std::string> run_threads(int size, const Body& body, const Settings& settings = {});
/// A rank that dies has the text `signal N`, and dooms the world as a launcher would.
std::vector<std::string> run_processes(int size, const Body& body, const Settings& settings = {});

/// For comparing with the above.
inline std::vector<std::string> all_well(int size) { return std::vector<std::string>(static_cast<std::size_t>(size)); }

void expect(bool holds, const std::string& what);

/// The text of the exception that `f` must throw; throws when it throws another or none.
template <class Exception, class F>
std::string thrown_by(F f) {
  try {
    f();
  } catch (const Exception& exception) {
    return exception.what();
  }
  throw std::runtime_error("nothing was thrown");
}

/// A private directory that goes with its object.
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
