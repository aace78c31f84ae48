// Modules that are no backend for this program, one way or another: which one, CMake says.
#include "harness/device/cuda/vendor.hpp"

using shardproof::device::cuda::VendorTables;

#if defined(MISFIT_OF_OTHER_VERSION)
extern "C" const VendorTables* shardproof_vendor_tables(const char**) {
  static constexpr VendorTables tables{.version = 7, .bytes = sizeof(VendorTables), .name = "of tomorrow"};
  return &tables;
}
#elif defined(MISFIT_OF_OTHER_SIZE)
extern "C" const VendorTables* shardproof_vendor_tables(const char**) {
  static constexpr VendorTables tables{.version = VendorTables::current_version, .bytes = 8, .name = "too small"};
  return &tables;
}
#elif defined(MISFIT_WITH_REASON)
extern "C" const VendorTables* shardproof_vendor_tables(const char** why) {
  *why = "the driver is on holiday; call again on Monday";
  return nullptr;
}
#elif defined(MISFIT_WITHOUT_REASON)
extern "C" const VendorTables* shardproof_vendor_tables(const char**) { return nullptr; }
#elif defined(MISFIT_UNLINKED)
extern "C" int absent_everywhere();
extern "C" const VendorTables* shardproof_vendor_tables(const char**) {
  absent_everywhere();
  return nullptr;
}
#else
extern "C" const VendorTables* something_else() { return nullptr; }
#endif
