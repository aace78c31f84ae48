#include "harness/device/cuda/vendor_module.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>

#include "harness/device/cuda/kernels/table.hpp"

namespace shardproof::device::cuda {

const VendorTables& load_vendor(const std::filesystem::path& module) {
  const auto refuse = [&](std::string_view why) -> std::runtime_error {
    return std::runtime_error(fmt::format("backend {}: {}", module.string(), why));
  };
  if (!std::filesystem::exists(module)) {
    throw refuse("there is no such file; it is built where the CUDA Toolkit and NCCL are present");
  }
  void* const loaded = ::dlopen(module.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    // `dlerror` names the file that failed: the module itself, which `refuse` already names, or a library that it
    // needs.
    const std::string_view why = ::dlerror();
    const std::string itself = module.string() + ": ";
    throw refuse(why.starts_with(itself) ? why.substr(itself.size()) : why);
  }
  const auto function = reinterpret_cast<VendorFunction>(::dlsym(loaded, vendor_function));
  if (function == nullptr)
    throw refuse(fmt::format("it has no {}, so it is not a backend of shardproof", vendor_function));
  const char* why = "it gives no reason";
  const VendorTables* const tables = function(&why);
  if (tables == nullptr) throw refuse(why);
  if (tables->version != VendorTables::current_version) {
    throw refuse(fmt::format("it has version {} of the interface, this program has {}: build both together",
                             tables->version, VendorTables::current_version));
  }
  if (tables->bytes != vendor_table_bytes) {
    throw refuse(fmt::format("its tables take {} bytes, this program's take {}: build both together", tables->bytes,
                             vendor_table_bytes));
  }
  return *tables;
}

}  // namespace shardproof::device::cuda
