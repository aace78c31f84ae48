// A network file system that shows files of other hosts late, for tests of a file store.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>

#include "harness/rendezvous/file_layer.hpp"

namespace shardproof::testing {

/// The files of a server. A second file of the same name is refused.
class FileServer {
 public:
  bool add(const std::string& name, std::string_view content) {
    const std::scoped_lock lock(mutex_);
    return files_.emplace(name, content).second;
  }
  std::optional<std::string> content_of(const std::string& name) const {
    const std::scoped_lock lock(mutex_);
    const auto file = files_.find(name);
    return file == files_.end() ? std::nullopt : std::optional(file->second);
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> files_;
};

/// One host's own view of the files. A file that did not exist at a look stays absent until the host refreshes its view
/// of the directory. A file of another host also stays absent for up to `most_looks` looks. Then up to `most_looks`
/// looks show a part of its content. `seed` decides both numbers.
class LateFiles final : public rendezvous::FileLayer {
 public:
  LateFiles(FileServer& server, int most_looks, std::uint64_t seed)
      : server_(server), most_looks_(most_looks), random_(seed) {}

  void make_directory(const std::filesystem::path& /*directory*/) const override {}

  bool publish(const std::filesystem::path& /*unfinished*/, int /*rank*/, std::string_view content,
               const std::filesystem::path& file) const override {
    if (!server_.add(file.string(), content)) return false;
    views_[file.string()] = {};
    absent_.erase(file.string());
    return true;
  }

  std::optional<std::string> read(const std::filesystem::path& file) const override {
    if (absent_.contains(file.string())) return std::nullopt;
    std::optional<std::string> content = server_.content_of(file.string());
    if (!content) {
      absent_.insert(file.string());
      return content;
    }
    const auto draw = [&] { return std::uniform_int_distribution(0, most_looks_)(random_); };
    const auto [view, is_new] = views_.try_emplace(file.string());
    if (is_new) view->second = {.absent = draw(), .partial = draw()};
    if (view->second.absent > 0) {
      --view->second.absent;
      return std::nullopt;
    }
    if (view->second.partial > 0) {
      --view->second.partial;
      content->resize(random_() % content->size());
    }
    return content;
  }

  void refresh(const std::filesystem::path& directory) const override {
    std::erase_if(absent_,
                  [&](const std::string& file) { return std::filesystem::path(file).parent_path() == directory; });
  }

 private:
  struct View {
    int absent = 0;  ///< the number of looks that do not show the file yet
    int partial = 0;  ///< and then the number of looks that show a part of it
  };

  FileServer& server_;
  int most_looks_;
  mutable std::mt19937_64 random_;
  mutable std::map<std::string, View> views_;
  mutable std::set<std::string> absent_;  ///< what this host believes does not exist
};

}  // namespace shardproof::testing
