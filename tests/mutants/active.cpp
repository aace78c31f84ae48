#include "tests/mutants/active.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace shardproof::mutants {

namespace {

[[noreturn]] void give_up(const char* variable, const char* value, const char* why) {
  // Without this error, a mistyped mutant would look like a mutant that no case notices.
  std::fprintf(stderr, "%s=%s: %s\n", variable, value, why);
  std::abort();
}

std::uint32_t read_number(const char* variable, int base) {
  const char* const given = std::getenv(variable);
  if (!given) return 0;
  const std::string_view text = given;
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc{} || end != text.data() + text.size()) {
    give_up(variable, given, base == 16 ? "a hexadecimal number is expected" : "a number is expected");
  }
  return number;
}

// Ranks are processes that share one file: each line is one write at its end.
class Reached {
 public:
  Reached() {
    const char* const name = "SHARDPROOF_MUTANTS_REACHED";
    const char* const path = std::getenv(name);
    if (!path) return;
    file_ = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file_ < 0) give_up(name, path, "cannot be opened");
  }

  bool is_asked_for() const { return file_ >= 0; }

  void add(std::uint32_t mutant) {
    const std::scoped_lock lock(mutex_);
    if (!known_.insert(mutant).second) return;
    const std::string line = fmt::format("{:08x}\n", mutant);
    if (::write(file_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
  }

 private:
  int file_ = -1;
  std::mutex mutex_;
  std::set<std::uint32_t> known_;
};

struct ThreadsTrainer {
  std::uint32_t passes = 0;
  std::size_t traits = 0;
};

thread_local ThreadsTrainer trainer;

}  // namespace

void set_traits(std::size_t count) { trainer.traits = count; }

void begin_pass() { ++trainer.passes; }

void end_trainer() { trainer = {}; }

bool is_chosen(std::uint32_t mutant) {
  static const std::uint32_t choice = read_number("SHARDPROOF_MUTANT", 16);
  static const std::uint32_t from = read_number("SHARDPROOF_MUTANT_FROM", 10);
  static const std::uint32_t traits = read_number("SHARDPROOF_MUTANT_TRAITS", 10);
  static Reached reached;
  if (trainer.passes < from || trainer.traits < traits) return false;
  if (reached.is_asked_for()) reached.add(mutant);
  return mutant == choice;
}

}  // namespace shardproof::mutants
