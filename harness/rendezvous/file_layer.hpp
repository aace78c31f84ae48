// The functions of a file system that FileStore needs. Tests use one that shows files late, as network file systems do.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace shardproof::rendezvous {

/// Each function throws std::system_error, which names file and operation. It is base::NoRoom on a full file system.
class FileLayer {
 public:
  FileLayer() = default;
  FileLayer(const FileLayer&) = delete;
  FileLayer& operator=(const FileLayer&) = delete;
  virtual ~FileLayer() = default;

  /// Makes the directory and its parents, unless they exist.
  virtual void make_directory(const std::filesystem::path& directory) const = 0;
  /// Writes a file of its own in the directory `unfinished`, and then gives it the name `file`. Returns false if
  /// another file has this name. No process of this host sees a part of the content under that name.
  virtual bool publish(const std::filesystem::path& unfinished, int rank, std::string_view content,
                       const std::filesystem::path& file) const = 0;
  /// The content of the file. Returns nullopt if this host sees no such file. On a network file system, a file of
  /// another host may appear late, and with a part of its content.
  virtual std::optional<std::string> read(const std::filesystem::path& file) const = 0;
  /// Makes this host compare its view of the directory with the server's. A network file system may keep in its cache
  /// that a file does not exist, for half a minute on NFS. Such a wait would only see the file then.
  virtual void refresh(const std::filesystem::path& directory) const = 0;
};

/// The files of the operating system. The file system needs hard links.
std::shared_ptr<const FileLayer> system_files();

}  // namespace shardproof::rendezvous
