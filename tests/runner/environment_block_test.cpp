// The environment of a process, as the process and as other processes see it.
#include "harness/runner/environment_block.hpp"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

namespace shardproof {
namespace {

using runner::EnvironmentBlock;
using Variables = std::vector<std::string>;

/// Whether `body` returns true in a child of this process, which keeps its own environment.
bool holds_in_child(const std::function<bool(EnvironmentBlock&)>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    EnvironmentBlock block;
    ::_exit(body(block) ? 0 : 1);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

Variables own() {
  Variables all;
  for (char** variable = ::environ; variable != nullptr && *variable != nullptr; ++variable)
    all.emplace_back(*variable);
  return all;
}

/// What another process sees, without the zeros at the end.
Variables shown() {
  std::ifstream file("/proc/self/environ");
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  Variables all;
  for (std::size_t begin = 0; begin < bytes.size() && bytes[begin] != '\0';) {
    const std::size_t end = bytes.find('\0', begin);
    all.push_back(bytes.substr(begin, end - begin));
    begin = end + 1;
  }
  return all;
}

bool is_value(const char* name, const std::string& value) {
  const char* const found = ::getenv(name);
  return found != nullptr && found == value;
}

}  // namespace

TEST_CASE("an environment that fits is what the process and other processes see") {
  CHECK(holds_in_child([](EnvironmentBlock& block) {
    block.set(Variables{"A=1", "B=2", "C=3"});
    block.add(Variables{"RANK=4"});
    const Variables wanted{"A=1", "B=2", "C=3", "RANK=4"};
    return own() == wanted && shown() == wanted;
  }));
}

TEST_CASE("variables that are gone, or have moved, are right") {
  CHECK(holds_in_child([](EnvironmentBlock& block) {
    block.set(Variables{"A=1", "LONG=a value of some length", "C=3"});
    block.set(Variables{"C=3", "B=2"});
    return own() == Variables{"C=3", "B=2"} && shown() == own() && ::getenv("LONG") == nullptr && is_value("B", "2");
  }));
}

TEST_CASE("a variable that stays in its place keeps its memory") {
  CHECK(holds_in_child([](EnvironmentBlock& block) {
    block.set(Variables{"A=1", "B=2"});
    const char* const kept = ::getenv("A");
    block.set(Variables{"A=1", "C=3"});
    return ::getenv("A") == kept && is_value("A", "1") && is_value("C", "3");
  }));
}

TEST_CASE("an environment that does not fit is still right for the process") {
  CHECK(holds_in_child([](EnvironmentBlock& block) {
    const std::string large(std::size_t{1} << 20, 'x');
    block.set(Variables{"A=1", "LARGE=" + large});
    block.add(Variables{"RANK=4"});
    return is_value("A", "1") && is_value("LARGE", large) && is_value("RANK", "4") && own().size() == 3;
  }));
}

TEST_CASE("many added variables, and variables that the program has set, are kept") {
  CHECK(holds_in_child([](EnvironmentBlock& block) {
    block.set(Variables{"A=1"});
    Variables many;
    for (int i = 0; i < 100; ++i) many.push_back("V" + std::to_string(i) + "=" + std::to_string(i));
    block.add(many);
    return is_value("A", "1") && is_value("V0", "0") && is_value("V99", "99") && own().size() == 101;
  }));
  CHECK(holds_in_child([](EnvironmentBlock& block) {
    block.set(Variables{"A=1"});
    ::setenv("MINE", "yes", 1);
    block.add(Variables{"RANK=4"});
    return is_value("A", "1") && is_value("MINE", "yes") && is_value("RANK", "4");
  }));
}

}  // namespace shardproof
