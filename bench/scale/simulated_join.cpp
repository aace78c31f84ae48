#include "bench/scale/simulated_join.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "harness/rendezvous/file_layer.hpp"
#include "harness/rendezvous/file_store.hpp"

namespace shardproof::bench {

namespace {

/// Each function counts the calls that the function of the same name in system_files makes.
class CountedFiles final : public rendezvous::FileLayer {
 public:
  void make_directory(const std::filesystem::path& directory) const override {
    ++calls_[FileCall::stat];
    if (directories_.insert(directory.native()).second) ++calls_[FileCall::make_directory];
  }

  bool publish(const std::filesystem::path& /*unfinished*/, int /*rank*/, std::string_view content,
               const std::filesystem::path& file) const override {
    for (const FileCall call : {FileCall::create, FileCall::write, FileCall::link, FileCall::unlink}) ++calls_[call];
    return files_.emplace(file.native(), content).second;
  }

  std::optional<std::string> read(const std::filesystem::path& file) const override {
    const auto found = files_.find(file.native());
    if (found == files_.end()) {
      ++calls_[FileCall::missed_open];
      return std::nullopt;
    }
    ++calls_[FileCall::open];
    calls_[FileCall::read] += 2;  // the second one finds the end
    return found->second;
  }

  void refresh(const std::filesystem::path& /*directory*/) const override { ++calls_[FileCall::open]; }

  const FileCalls& calls() const { return calls_; }
  void forget_calls() { calls_ = {}; }

 private:
  mutable FileCalls calls_;
  mutable std::unordered_set<std::string> directories_;
  mutable std::unordered_map<std::string, std::string> files_;
};

}  // namespace

FileCalls simulate_join(int ranks) {
  using rendezvous::FileStore;
  const auto files = std::make_shared<CountedFiles>();
  const auto store_of = [&](int rank) { return FileStore("/world/store", "nonce", rank, files); };
  store_of(-1);  // the launcher makes the directories
  files->forget_calls();

  // As in World (harness/world) and ShmFabric.
  std::vector<FileStore> stores;
  for (int rank = 0; rank < ranks; ++rank) stores.push_back(store_of(rank));
  const std::string region = "fabric/world";
  if (ranks > 1) stores.front().put(region, "name");
  // The ranks agree here that they are of one kind, without files. So the name of the region exists.
  for (int rank = 1; rank < ranks; ++rank)
    stores[static_cast<std::size_t>(rank)].wait(region, std::chrono::steady_clock::now());
  return files->calls();
}

}  // namespace shardproof::bench
