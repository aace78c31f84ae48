#include "harness/runner/environment_block.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <system_error>
#include <vector>

namespace shardproof::runner {

EnvironmentBlock::EnvironmentBlock() {
  // The name of the process, in parentheses, may contain spaces. It is the second field.
  constexpr int first_after_name = 3, field_of_begin = 50;
  std::ifstream file("/proc/self/stat");
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return;
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  for (int field = first_after_name; field < field_of_begin; ++field) fields >> skipped;
  std::uintptr_t begin = 0, end = 0;
  if (!(fields >> begin >> end) || begin == 0 || end <= begin) return;
  begin_ = reinterpret_cast<char*>(begin);
  size_ = used_ = end - begin;
}

namespace {

std::size_t bytes_of(std::span<const std::string> variables) {
  std::size_t bytes = 0;
  for (const std::string& variable : variables) bytes += variable.size() + 1;
  return bytes;
}

}  // namespace

void EnvironmentBlock::set(std::span<const std::string> variables) {
  if (set_in_place(variables)) return;
  ::clearenv();
  for (const std::string& variable : variables) {
    const std::size_t equals = variable.find('=');
    if (equals == std::string::npos) continue;
    if (::setenv(variable.substr(0, equals).c_str(), variable.c_str() + equals + 1, 1) != 0)
      throw std::system_error(errno, std::generic_category(), "setenv");
  }
}

void EnvironmentBlock::add(std::span<const std::string> variables) {
  if (add_in_place(variables)) return;
  std::vector<std::string> all;
  for (char** variable = ::environ; variable != nullptr && *variable != nullptr; ++variable)
    all.emplace_back(*variable);
  all.insert(all.end(), variables.begin(), variables.end());
  set(all);
}

bool EnvironmentBlock::set_in_place(std::span<const std::string> variables) {
  constexpr std::size_t more = 64;
  if (bytes_of(variables) > size_) return false;
  char** const pointers = new char*[variables.size() + more + 1];
  char* at = begin_;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const std::size_t bytes = variables[i].size() + 1;
    // A write would give this process its own copy of the memory.
    if (std::memcmp(at, variables[i].c_str(), bytes) != 0) std::memcpy(at, variables[i].c_str(), bytes);
    pointers[i] = at;
    at += bytes;
  }
  pointers[variables.size()] = nullptr;
  const auto used = static_cast<std::size_t>(at - begin_);
  if (used < used_) std::fill(at, begin_ + used_, '\0');
  used_ = used;
  ::environ = pointers;
  delete[] pointers_;
  pointers_ = pointers;
  count_ = variables.size();
  capacity_ = count_ + more;
  return true;
}

bool EnvironmentBlock::add_in_place(std::span<const std::string> variables) {
  if (pointers_ == nullptr || ::environ != pointers_ || used_ + bytes_of(variables) > size_ ||
      count_ + variables.size() > capacity_)
    return false;
  for (const std::string& variable : variables) {
    char* const at = begin_ + used_;
    std::memcpy(at, variable.c_str(), variable.size() + 1);
    pointers_[count_++] = at;
    used_ += variable.size() + 1;
  }
  pointers_[count_] = nullptr;
  return true;
}

}  // namespace shardproof::runner
