// A library for LD_PRELOAD. It counts the calls of a process that reach the files of its run and of its file store.
//
// Each function here has the name and the type of a function of the C library, and calls it.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "bench/scale/calls.hpp"

namespace {

using namespace shardproof::bench;

CountedCalls* counted() {
  static CountedCalls* const calls = [] {
    const char* file = std::getenv(counts_variable);
    if (file == nullptr) return static_cast<CountedCalls*>(nullptr);
    const auto real_open = reinterpret_cast<int (*)(const char*, int, ...)>(::dlsym(RTLD_NEXT, "open"));
    const int descriptor = real_open(file, O_RDWR | O_CLOEXEC);
    void* mapped = ::mmap(nullptr, sizeof(CountedCalls), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    return mapped == MAP_FAILED ? nullptr : static_cast<CountedCalls*>(mapped);
  }();
  return calls;
}

std::optional<CountedCalls::Place> place_of(std::string_view path) {
  static const char* const run = std::getenv(run_variable);
  if (run == nullptr) return std::nullopt;
  if (path.starts_with(run)) return CountedCalls::run;
  // The store is a directory in the directory where ranks meet.
  if (path.find("/store/") != std::string_view::npos) return CountedCalls::store;
  return std::nullopt;
}

void count(FileCall kind, std::optional<CountedCalls::Place> place) {
  if (place && counted() != nullptr) counted()->counts[*place][static_cast<std::size_t>(kind)].fetch_add(1);
}

/// The places of open files. 0: no counted file.
constexpr int most_descriptors = 4096;
std::array<std::atomic<std::uint8_t>, most_descriptors> open_files;

std::optional<CountedCalls::Place> place_of(int descriptor) {
  const int place = descriptor < 0 || descriptor >= most_descriptors ? 0 : open_files[descriptor].load();
  return place == 0 ? std::nullopt : std::optional(static_cast<CountedCalls::Place>(place - 1));
}

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

int opened(const char* path, int flags, int descriptor) {
  const int error = errno;
  const auto place = place_of(path);
  count(descriptor < 0 ? FileCall::missed_open : (flags & O_CREAT) != 0 ? FileCall::create : FileCall::open, place);
  if (descriptor >= 0 && descriptor < most_descriptors)
    open_files[descriptor].store(place ? static_cast<std::uint8_t>(*place + 1) : 0);
  errno = error;
  return descriptor;
}

int with_mode(const char* name, const char* path, int flags, mode_t mode) {
  return opened(path, flags, next<int (*)(const char*, int, ...)>(name)(path, flags, mode));
}

FILE* stream_of(const char* name, const char* path, const char* mode) {
  FILE* stream = next<FILE* (*)(const char*, const char*)>(name)(path, mode);
  opened(path, *mode == 'r' ? O_RDONLY : O_CREAT, stream == nullptr ? -1 : ::fileno(stream));
  return stream;
}

void forget(int descriptor) {
  if (descriptor >= 0 && descriptor < most_descriptors) open_files[descriptor].store(0);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = static_cast<mode_t>((flags & O_CREAT) != 0 ? va_arg(more, int) : 0);
  va_end(more);
  return with_mode("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = static_cast<mode_t>((flags & O_CREAT) != 0 ? va_arg(more, int) : 0);
  va_end(more);
  return with_mode("open64", path, flags, mode);
}

FILE* fopen(const char* path, const char* mode) { return stream_of("fopen", path, mode); }

FILE* fopen64(const char* path, const char* mode) { return stream_of("fopen64", path, mode); }

int fclose(FILE* stream) {
  forget(::fileno(stream));
  return next<int (*)(FILE*)>("fclose")(stream);
}

int close(int descriptor) {
  forget(descriptor);
  return next<int (*)(int)>("close")(descriptor);
}

ssize_t read(int descriptor, void* to, size_t size) {
  count(FileCall::read, place_of(descriptor));
  return next<ssize_t (*)(int, void*, size_t)>("read")(descriptor, to, size);
}

ssize_t write(int descriptor, const void* from, size_t size) {
  count(FileCall::write, place_of(descriptor));
  return next<ssize_t (*)(int, const void*, size_t)>("write")(descriptor, from, size);
}

int stat(const char* path, struct stat* status) {
  count(FileCall::stat, place_of(path));
  return next<int (*)(const char*, struct stat*)>("stat")(path, status);
}

int stat64(const char* path, struct stat64* status) {
  count(FileCall::stat, place_of(path));
  return next<int (*)(const char*, struct stat64*)>("stat64")(path, status);
}

int lstat(const char* path, struct stat* status) {
  count(FileCall::stat, place_of(path));
  return next<int (*)(const char*, struct stat*)>("lstat")(path, status);
}

int mkdir(const char* path, mode_t mode) {
  count(FileCall::make_directory, place_of(path));
  return next<int (*)(const char*, mode_t)>("mkdir")(path, mode);
}

int link(const char* from, const char* to) {
  count(FileCall::link, place_of(to));
  return next<int (*)(const char*, const char*)>("link")(from, to);
}

int unlink(const char* path) {
  count(FileCall::unlink, place_of(path));
  return next<int (*)(const char*)>("unlink")(path);
}

int rename(const char* from, const char* to) {
  count(FileCall::rename, place_of(to));
  return next<int (*)(const char*, const char*)>("rename")(from, to);
}

int inotify_add_watch(int descriptor, const char* path, std::uint32_t mask) {
  count(FileCall::watch, place_of(path));
  return next<int (*)(int, const char*, std::uint32_t)>("inotify_add_watch")(descriptor, path, mask);
}

int posix_fallocate(int descriptor, off_t offset, off_t size) {
  if (counted() != nullptr) counted()->reserved.fetch_add(static_cast<std::uint64_t>(size));
  return next<int (*)(int, off_t, off_t)>("posix_fallocate")(descriptor, offset, size);
}

int posix_fallocate64(int descriptor, off64_t offset, off64_t size) {
  if (counted() != nullptr) counted()->reserved.fetch_add(static_cast<std::uint64_t>(size));
  return next<int (*)(int, off64_t, off64_t)>("posix_fallocate64")(descriptor, offset, size);
}

}  // extern "C"
