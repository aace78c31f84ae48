// Finds and loads the shared object that fills the vendor's tables, at run time. A program that needs no GPU does not
// load it.
#pragma once

#include <filesystem>

#include "harness/device/cuda/vendor.hpp"

namespace shardproof::device::cuda {

/// Loads the module, for the life of the process. Throws std::runtime_error naming the file and the reason: it does not
/// exist, cannot be loaded, is from another version of shardproof, or finds no driver.
const VendorTables& load_vendor(const std::filesystem::path& module);

}  // namespace shardproof::device::cuda
