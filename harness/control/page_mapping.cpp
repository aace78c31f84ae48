#include "harness/control/page_mapping.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "harness/base/file_descriptor.hpp"
#include "harness/base/shared_memory.hpp"
#include "harness/control/control_plane.hpp"

namespace shardproof::control {

using base::FileDescriptor;

namespace {

static_assert(ControlPlane::max_world_size <= FlightRing::max_world_size);

FileDescriptor open_page(const std::filesystem::path& path, int flags) {
  FileDescriptor descriptor(::open(path.c_str(), flags | O_CLOEXEC, 0600));
  if (!descriptor)
    throw std::system_error(errno, std::generic_category(), fmt::format("control page {}: open", path.native()));
  return descriptor;
}

void* map(const FileDescriptor& descriptor, std::size_t bytes, std::string_view name) {
  return base::map_shared(descriptor.get(), bytes, fmt::format("control page {}", name));
}

void check_world_size(int world_size) {
  if (world_size < 1 || world_size > ControlPlane::max_world_size) {
    throw std::invalid_argument(
        fmt::format("control page for {} ranks: a world has 1 to {}", world_size, ControlPlane::max_world_size));
  }
}

}  // namespace

std::unique_ptr<PageMapping> PageMapping::create(const std::filesystem::path& file, int world_size,
                                                 std::string_view nonce) {
  check_world_size(world_size);
  if (nonce.size() > sizeof(page::Header::nonce)) {
    throw std::invalid_argument(fmt::format("control page {}: a nonce of {} bytes, {} fit", file.native(), nonce.size(),
                                            sizeof(page::Header::nonce)));
  }
  const page::Layout layout(world_size);
  const FileDescriptor page = open_page(file, O_RDWR | O_CREAT | O_EXCL);
  try {
    if (const int error = base::take_room(page.get(), layout.bytes); error != 0) {
      throw std::system_error(error, std::generic_category(),
                              fmt::format("control page {}: {} bytes for {} ranks (is the file system full?)",
                                          file.native(), layout.bytes, world_size));
    }
    std::unique_ptr<PageMapping> mapping(new PageMapping(map(page, layout.bytes, file.native()), world_size));
    mapping->fill_header(nonce);
    return mapping;
  } catch (...) {
    ::unlink(file.c_str());
    throw;
  }
}

std::unique_ptr<PageMapping> PageMapping::open(const std::filesystem::path& file, std::string_view nonce) {
  const FileDescriptor page = open_page(file, O_RDWR);
  struct stat status{};
  if (::fstat(page.get(), &status) != 0) {
    throw std::system_error(errno, std::generic_category(), fmt::format("control page {}: stat", file.native()));
  }
  const auto refuse = [&](const std::string& why) {
    throw std::runtime_error(fmt::format("control page {}: {}", file.native(), why));
  };
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size < sizeof(page::Header)) refuse(fmt::format("{} bytes are too few for a control page", size));

  std::uint32_t world_size = 0;
  {
    struct Unmap {
      void operator()(page::Header* mapped) const { ::munmap(mapped, sizeof(page::Header)); }
    };
    const std::unique_ptr<page::Header, Unmap> header(
        static_cast<page::Header*>(map(page, sizeof(page::Header), file.native())));
    if (header->magic.load(std::memory_order_acquire) != page::magic)
      refuse("not a control page, or its launcher has not finished it");
    if (header->version != page::version) {
      refuse(fmt::format("layout {} of another build, this one has {}; use launcher and worker of one version",
                         header->version, page::version));
    }
    const std::string_view theirs(header->nonce, std::min<std::size_t>(header->nonce_length, sizeof header->nonce));
    if (theirs != nonce) refuse(fmt::format("belongs to the world \"{}\", not to \"{}\"", theirs, nonce));
    world_size = header->world_size;
    if (world_size < 1 || world_size > ControlPlane::max_world_size ||
        header->bytes != page::Layout(static_cast<int>(world_size)).bytes || header->bytes != size) {
      refuse(fmt::format("{} bytes for {} ranks do not match this build's layout", size, world_size));
    }
  }
  return std::unique_ptr<PageMapping>(new PageMapping(map(page, size, file.native()), static_cast<int>(world_size)));
}

std::unique_ptr<PageMapping> PageMapping::anonymous(int world_size) {
  check_world_size(world_size);
  std::unique_ptr<PageMapping> mapping(
      new PageMapping(map(FileDescriptor(), page::Layout(world_size).bytes, "of threads"), world_size));
  mapping->fill_header({});
  return mapping;
}

PageMapping::~PageMapping() { ::munmap(base_, layout_.bytes); }

page::RankArea& PageMapping::area(int rank) const {
  if (rank < 0 || static_cast<std::size_t>(rank) >= layout_.ranks)
    throw std::out_of_range(fmt::format("control page: rank {} in a world of {}", rank, layout_.ranks));
  return at<page::RankArea>(layout_.areas)[rank];
}

void PageMapping::ring_all() const {
  state().agreement.ring();
  for (std::size_t rank = 0; rank < layout_.ranks; ++rank) area(static_cast<int>(rank)).bell.ring();
}

void PageMapping::fill_header(std::string_view nonce) const {
  page::Header& header = *at<page::Header>(0);
  header.version = page::version;
  header.world_size = static_cast<std::uint32_t>(layout_.ranks);
  header.bytes = layout_.bytes;
  header.nonce_length = nonce.size();
  std::copy(nonce.begin(), nonce.end(), header.nonce);
  header.magic.store(page::magic, std::memory_order_release);
}

}  // namespace shardproof::control
