#include "harness/device/cuda/vendor_error.hpp"

#include <fmt/format.h>

#include <string>

namespace shardproof::device::cuda {

namespace {

std::string text_of(std::string_view library, Status status, std::string_view in_words, const CallSite& site) {
  const std::string on = site.stream.empty() ? std::string() : fmt::format(", stream {}", site.stream);
  return fmt::format("{} on rank {}, {}{}: {} status {}, {} ({}:{})", site.operation, site.rank, site.gpu, on, library,
                     status, in_words, site.location.file_name(), site.location.line());
}

}  // namespace

VendorError::VendorError(std::string_view library, Status status, std::string_view in_words, const CallSite& site)
    : std::runtime_error(text_of(library, status, in_words, site)) {}

}  // namespace shardproof::device::cuda
