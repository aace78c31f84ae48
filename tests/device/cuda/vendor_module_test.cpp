#include "harness/device/cuda/vendor_module.hpp"
#include "harness/device/cuda/kernels/table.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <stdexcept>
#include <string>

using namespace shardproof::device::cuda;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::Equals;

namespace {

const std::filesystem::path modules = MODULES;

std::string refusal(const std::filesystem::path& module) {
  try {
    load_vendor(module);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "it was loaded";
}

std::string refusal_of_misfit(const std::string& name) { return refusal(modules / ("libmisfit_" + name + ".so")); }

}  // namespace

TEST_CASE("a backend that fits is loaded") {
  const VendorTables& tables = load_vendor(CPU_MODULE);
  CHECK(std::string(tables.name) == "CUDA on the CPU");
  CHECK(&load_vendor(CPU_MODULE) == &tables);
}

TEST_CASE("a backend that does not fit this program is refused by name and with the reason") {
  CHECK(refusal(modules / "none.so") ==
        "backend " + (modules / "none.so").string() +
            ": there is no such file; it is built where the CUDA Toolkit and NCCL are present");
  CHECK_THAT(refusal(__FILE__), Equals(std::string("backend ") + __FILE__ + ": invalid ELF header"));
  CHECK_THAT(refusal(modules), ContainsSubstring("cannot read file data"));
  CHECK_THAT(refusal_of_misfit("unlinked"), ContainsSubstring("undefined symbol: absent_everywhere"));
  CHECK_THAT(refusal_of_misfit("without_symbol"),
             EndsWith("it has no shardproof_vendor_tables, so it is not a backend of shardproof"));
  CHECK_THAT(refusal_of_misfit("of_other_version"),
             EndsWith(": it has version 7 of the interface, this program has " +
                      std::to_string(VendorTables::current_version) + ": build both together"));
  CHECK_THAT(refusal_of_misfit("of_other_size"),
             EndsWith(": its tables take 8 bytes, this program's take " + std::to_string(vendor_table_bytes) +
                      ": build both together"));
  CHECK_THAT(refusal_of_misfit("with_reason"),
             EndsWith("libmisfit_with_reason.so: the driver is on holiday; call again on Monday"));
  CHECK_THAT(refusal_of_misfit("without_reason"), EndsWith(": it gives no reason"));
}
