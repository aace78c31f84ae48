// How ranks find each other: write-once keys in a directory that belongs to one world alone.
// Needs nothing but a file system that links atomically; tells who wrote what, so that a clash names both.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "harness/control/doorbell.hpp"  // Deadline

namespace shardproof {

/// Thrown by every wait on a poisoned store: which rank poisoned it, and why.
class StorePoisoned : public std::runtime_error {
 public:
  StorePoisoned(int rank, const std::string& reason);
  int rank() const { return rank_; }

 private:
  int rank_;
};

/// Thrown when a key is written twice; names both writers. The first value stays.
class KeyExists : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class FileStore {
 public:
  /// `directory` is made when missing. `nonce` is inside every value: a value of another world is an error, never an answer.
  FileStore(std::filesystem::path directory, std::string nonce, int rank);

  /// A view in which every key is prefixed.
  FileStore with_prefix(std::string_view prefix) const;

  /// Throws KeyExists; std::invalid_argument for a key too long for a file name; std::system_error naming file and operation.
  void put(std::string_view key, std::string_view value);
  /// nullopt while nobody has written the key; std::runtime_error when its file is torn, corrupt or of another world.
  std::optional<std::string> get(std::string_view key) const;
  /// The values of all keys, in the order asked for. Throws StorePoisoned (also when all values are there), or DeadlineExceeded naming the
  /// missing keys.
  std::vector<std::string> wait(std::span<const std::string> keys, Deadline deadline) const;
  std::string wait(std::string_view key, Deadline deadline) const;
  /// Makes every wait on this store, whatever its prefix, throw. The first reason stays.
  void poison(std::string_view reason);

 private:
  std::filesystem::path file_of(std::string_view key) const;
  bool write_once(const std::filesystem::path& file, std::string_view value) const;  ///< false when the file is there
  void throw_if_poisoned() const;

  std::filesystem::path directory_;
  std::string nonce_;
  std::string prefix_;
  int rank_;
};

}  // namespace shardproof
