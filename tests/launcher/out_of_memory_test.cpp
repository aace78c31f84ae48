// A rank that the kernel kills because memory ran out is an ordinary crash, and its report names the reason.
#include <unistd.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "launcher/files/small_file.hpp"
#include "launcher/process/oom_kills.hpp"
#include "tests/launcher/command.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A control group whose processes have this much memory together. Empty path: this system or user can make none.
class LimitedGroup {
 public:
  explicit LimitedGroup(const std::string& bytes) {
    const std::filesystem::path counter = oom_counter_file(whole_text("/proc/self/cgroup"));
    std::error_code error;
    if (counter == "/proc/vmstat") return;
    path_ = counter.parent_path() / ("shardproof-test-" + std::to_string(::getpid()));
    if (!std::filesystem::create_directory(path_, error)) {
      path_.clear();
      return;
    }
    for (const char* const limit : {"memory.limit_in_bytes", "memory.max"}) {
      if (std::filesystem::exists(path_ / limit, error) && (std::ofstream(path_ / limit) << bytes).flush()) return;
    }
    remove();
  }
  ~LimitedGroup() { remove(); }
  LimitedGroup(const LimitedGroup&) = delete;
  LimitedGroup& operator=(const LimitedGroup&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  void remove() {
    if (!path_.empty()) eventually([this] { return ::rmdir(path_.c_str()) == 0; });
    path_.clear();
  }

  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("a rank that is killed because memory ran out is crashed, and the report names the reason") {
  const LimitedGroup group("134217728");
  if (group.path().empty()) SKIP("no control group with a memory limit can be made here");
  TemporaryDirectory directory;
  Setting setting;
  setting.prelude = "echo $$ > " + group.path().string() + "/cgroup.procs &&";
  const Said said = run_trouble(directory / "run", {"dies/without_memory", "bad/killed", "good/stays"}, setting);
  INFO(said.out << said.err);
  CHECK(said.end == code(4));
  CHECK(verdicts(directory / "run") == Verdicts{{"dies/without_memory[W=2]", "crashed"},
                                                {"bad/killed[W=2]", "crashed"},
                                                {"good/stays[W=2]", "passed"}});
  const std::string out = unwrapped(said.out);
  CHECK_THAT(out, ContainsSubstring("rank 1 died by signal 9 (SIGKILL, from the kernel: memory ran out) in "
                                    "dies/without_memory[W=2]"));
  CHECK_THAT(out, ContainsSubstring("rank 1 died by signal 9 (SIGKILL) in bad/killed[W=2]"));
}
