#include "harness/rendezvous/file_store.hpp"

#include <fmt/format.h>

#include <utility>

#include "harness/rendezvous/directory_watch.hpp"
#include "harness/rendezvous/value_file.hpp"

namespace shardproof::rendezvous {

namespace {

/// Next to the directory of values, so that only finished values wake the watchers of that directory.
constexpr const char* unfinished = "unfinished";
constexpr const char* values = "values";
constexpr const char* poison_file = "poison";  // not the name of a key: those begin with `key.`

/// A wait for more keys than this only looks at intervals. With inotify, every new value would wake every waiting rank.
constexpr std::size_t most_notified_keys = 16;

}  // namespace

StorePoisoned::StorePoisoned(int rank, const std::string& reason)
    : std::runtime_error(fmt::format("file store poisoned by rank {}: {}", rank, reason)), rank_(rank) {}

FileStore::FileStore(std::filesystem::path directory, std::string nonce, int rank,
                     std::shared_ptr<const FileLayer> files)
    : directory_(std::move(directory)), nonce_(std::move(nonce)), rank_(rank), files_(std::move(files)) {
  files_->make_directory(directory_ / unfinished);
  files_->make_directory(directory_ / values);
}

FileStore FileStore::with_prefix(std::string_view prefix) const {
  FileStore view = *this;
  view.prefix_ += prefix;
  return view;
}

std::filesystem::path FileStore::file_of(std::string_view key) const {
  const std::string name = "key." + percent_encode(prefix_) + percent_encode(key);
  if (name.size() > 255) {
    throw std::invalid_argument(
        fmt::format("file store: key \"{}{}\" needs a file name of {} bytes; 255 fit", prefix_, key, name.size()));
  }
  return directory_ / values / name;
}

std::optional<Value> FileStore::read_value(const std::filesystem::path& file) const {
  const std::optional<std::string> content = files_->read(file);
  if (!content) return std::nullopt;
  const auto at_file = [&](const std::exception& wrong) {
    return fmt::format("file store: {}: {}", file.native(), wrong.what());
  };
  try {
    return decode(*content, nonce_);
  } catch (const TornValue& torn) {
    throw TornValue(at_file(torn));
  } catch (const std::runtime_error& wrong) {
    throw std::runtime_error(at_file(wrong));
  }
}

bool FileStore::write_once(const std::filesystem::path& file, std::string_view value) const {
  return files_->publish(directory_ / unfinished, rank_, encode({rank_, std::string(value)}, nonce_), file);
}

void FileStore::put(std::string_view key, std::string_view value) {
  const auto file = file_of(key);
  if (write_once(file, value)) return;
  constexpr std::string_view unseen = "a rank that this host does not see yet";
  std::string first;
  try {
    const auto written = read_value(file);
    first = written ? fmt::format("rank {}", written->writer) : std::string(unseen);
  } catch (const TornValue&) {
    first = unseen;  // this host sees the name of the file before its content
  }
  throw KeyExists(
      fmt::format("file store: rank {} writes key \"{}{}\", which {} has written already", rank_, prefix_, key, first));
}

std::optional<std::string> FileStore::get(std::string_view key) const {
  auto value = read_value(file_of(key));
  if (!value) return std::nullopt;
  return std::move(value->bytes);
}

void FileStore::refresh() const { files_->refresh(directory_ / values); }

std::vector<std::string> FileStore::wait(std::span<const std::string> keys, control::Deadline deadline) const {
  DirectoryWatch watch(directory_ / values, keys.size() <= most_notified_keys);
  std::vector<std::string> found;
  while (true) {
    const bool last_look = std::chrono::steady_clock::now() >= deadline;
    const std::size_t before = found.size();
    try {
      throw_if_poisoned();
      while (found.size() < keys.size()) {
        auto value = get(keys[found.size()]);
        if (!value) break;
        found.push_back(std::move(*value));
      }
    } catch (const TornValue&) {
      if (last_look) throw;  // a network file system may show the rest of the value later
    }
    if (found.size() == keys.size()) return found;
    if (last_look) break;
    if (found.size() > before) watch.reset();
    watch.wait(deadline);
    refresh();
  }

  std::size_t missing = 0;
  std::string names;
  for (std::size_t i = found.size(); i < keys.size(); ++i) {
    if (i > found.size() && get(keys[i])) continue;
    if (++missing <= 8) fmt::format_to(std::back_inserter(names), " \"{}{}\"", prefix_, keys[i]);
  }
  if (missing > 8) fmt::format_to(std::back_inserter(names), " and {} more", missing - 8);
  throw control::DeadlineExceeded(
      fmt::format("rank {}: file store {}: no rank wrote{} before the deadline", rank_, directory_.native(), names));
}

std::string FileStore::wait(std::string_view key, control::Deadline deadline) const {
  const std::string name(key);
  return std::move(wait(std::span(&name, 1), deadline).front());
}

void FileStore::poison(std::string_view reason) {
  // A second reason finds the file in place, and the first reason stays.
  write_once(directory_ / values / poison_file, reason);
}

void FileStore::throw_if_poisoned() const {
  if (const auto poison = read_value(directory_ / values / poison_file))
    throw StorePoisoned(poison->writer, poison->bytes);
}

}  // namespace shardproof::rendezvous
