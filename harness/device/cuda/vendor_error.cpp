#include "harness/device/cuda/vendor_error.hpp"

#include <fmt/format.h>

namespace shardproof::cuda {

namespace {

std::string text_of(Library library, Status status, std::string_view in_words, const CallSite& site) {
  const std::string on = site.stream.empty() ? std::string() : fmt::format(", stream {}", site.stream);
  return fmt::format("{} on rank {}, {}{}: {} status {}, {} ({}:{})", site.operation, site.rank, site.gpu, on,
                     name_of(library), status, in_words, site.location.file_name(), site.location.line());
}

}  // namespace

std::string_view name_of(Library library) {
  switch (library) {
    case Library::cuda: return "CUDA";
    case Library::cublas: return "cuBLAS";
    case Library::nccl: return "NCCL";
    case Library::cupti: return "CUPTI";
  }
  return "?";
}

VendorError::VendorError(Library library, Status status, std::string_view in_words, const CallSite& site)
    : std::runtime_error(text_of(library, status, in_words, site)), library_(library), status_(status) {}

}  // namespace shardproof::cuda
