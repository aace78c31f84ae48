// FileStore lets ranks find each other: it holds write-once keys in a directory that belongs to one world alone. It
// needs only a file system that links atomically. It records the writer of each value, so an error about a clash names
// both writers.
//
// The room `rendezvous` has the way in which ranks find each other. Bytes of collectives may not enter.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "harness/control/doorbell.hpp"  // Deadline
#include "harness/rendezvous/file_layer.hpp"
#include "harness/rendezvous/value_file.hpp"

namespace shardproof::rendezvous {

/// Every wait on a poisoned store throws it. It names the rank that poisoned the store, and the reason.
class StorePoisoned : public std::runtime_error {
 public:
  StorePoisoned(int rank, const std::string& reason);
  int rank() const { return rank_; }

 private:
  int rank_;
};

/// The second write of a key throws it. It names both writers. The first value stays.
class KeyExists : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class FileStore {
 public:
  /// Makes `directory` when it is missing. Every value contains `nonce`, so another world's value is an error, never an
  /// answer.
  FileStore(std::filesystem::path directory, std::string nonce, int rank,
            std::shared_ptr<const FileLayer> files = system_files());

  /// A view in which every key is prefixed.
  FileStore with_prefix(std::string_view prefix) const;

  /// Throws KeyExists. Throws std::invalid_argument for a key that is too long for a file name, and std::system_error,
  /// which names file and operation.
  void put(std::string_view key, std::string_view value);
  /// Returns nullopt while this host sees no value of the key. Throws TornValue (value_file.hpp) when the key's file is
  /// not whole, and std::runtime_error when it is from another world.
  std::optional<std::string> get(std::string_view key) const;
  /// Lets this host see new keys: a network file system may keep in its cache that a key does not exist. Call it
  /// between two calls of `get` for a missing key (FileLayer::refresh).
  void refresh() const;
  /// Waits for the whole values of all keys and returns them in the order of `keys`. Throws StorePoisoned, also when
  /// all values exist. Throws DeadlineExceeded, which names the missing keys, or TornValue if one is not whole then.
  std::vector<std::string> wait(std::span<const std::string> keys, control::Deadline deadline) const;
  std::string wait(std::string_view key, control::Deadline deadline) const;
  /// Makes every wait on this store throw, whatever its prefix. The first reason stays.
  void poison(std::string_view reason);

 private:
  std::filesystem::path file_of(std::string_view key) const;
  std::optional<Value> read_value(const std::filesystem::path& file) const;  ///< nullopt: this host sees no such file
  bool write_once(const std::filesystem::path& file, std::string_view value) const;  ///< false when the file exists
  void throw_if_poisoned() const;

  std::filesystem::path directory_;
  std::string nonce_;
  std::string prefix_;
  int rank_;
  std::shared_ptr<const FileLayer> files_;
};

}  // namespace shardproof::rendezvous
