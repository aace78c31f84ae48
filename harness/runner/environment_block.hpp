// The memory in which the kernel shows this process's environment to others (/proc/PID/environ). A copy of a process
// writes its own environment there. Then programs that look for the ranks of a run find it.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace shardproof::runner {

class EnvironmentBlock {
 public:
  /// Finds the block. If it finds none, `set` and `add` change the environment as setenv(3) does.
  EnvironmentBlock();

  /// Makes `variables`, NAME=value, the complete environment. Writes them into the block, if they fit. Variables that
  /// are in the same place as before keep their memory: a library may have kept a pointer to them.
  ///
  /// No other thread may use the environment meanwhile. Throws std::system_error without memory.
  void set(std::span<const std::string> variables);
  /// Adds variables that the environment does not have.
  void add(std::span<const std::string> variables);

 private:
  bool set_in_place(std::span<const std::string> variables);
  bool add_in_place(std::span<const std::string> variables);

  char* begin_ = nullptr;
  std::size_t size_ = 0;  ///< 0: there is no block
  std::size_t used_ = 0;  ///< bytes before the zeros at the end
  char** pointers_ = nullptr;  ///< in use after this object has ended
  std::size_t count_ = 0, capacity_ = 0;  ///< of the pointers, without the null pointer at their end
};

}  // namespace shardproof::runner
