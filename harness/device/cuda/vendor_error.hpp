// The error of a failed call to a vendor's library, with everything that helps to find the place.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string_view>

#include "harness/device/cuda/vendor.hpp"

namespace shardproof::device::cuda {

/// Where a call was made. `operation` is the library's name of the call. `stream` is the name of the stream, or empty.
struct CallSite {
  std::string_view operation;
  int rank = 0;
  std::string_view gpu;
  std::string_view stream;
  std::source_location location;
};

/// `cudaMallocAsync on rank 1, GPU 0 (NVIDIA H200), stream all_gather: CUDA status 2, cudaErrorMemoryAllocation: out of
/// memory (harness/device/cuda/cuda_device.cpp:123)`
class VendorError : public std::runtime_error {
 public:
  VendorError(std::string_view library, Status status, std::string_view in_words, const CallSite& site);
};

}  // namespace shardproof::device::cuda
