// An open file descriptor that closes itself.
#pragma once

#include <unistd.h>

#include <utility>

namespace shardproof::base {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileDescriptor() {
    if (number_ >= 0) ::close(number_);
  }

  /// For files whose close reports whether all written bytes have arrived. Returns the result of ::close and leaves its
  /// errno.
  int close() { return ::close(std::exchange(number_, -1)); }

  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

}  // namespace shardproof::base
