// The shared object that fills the vendor's tables, found and loaded at run time: whoever needs no GPU never pays for it.
#pragma once

#include <filesystem>

#include "harness/device/cuda/vendor.hpp"

namespace shardproof::cuda {

/// Loads it, for the life of the process. Throws std::runtime_error naming the file and what is wrong with it: it is not there, cannot be
/// loaded, is of another version of shardproof, or finds no driver.
const VendorTables& load_vendor(const std::filesystem::path& module);

}  // namespace shardproof::cuda
