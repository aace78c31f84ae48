#include <array>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

#include "tests/golden_tables/golden_tables.hpp"

namespace shardproof::oracles::golden {

std::uint32_t crc32(std::string_view bytes) {
  static constexpr auto table = [] {
    std::array<std::uint32_t, 256> remainders{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      std::uint32_t rest = byte;
      for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1u) != 0 ? 0xEDB88320u : 0u);
      remainders[byte] = rest;
    }
    return remainders;
  }();
  std::uint32_t rest = ~0u;
  for (const char c : bytes) rest = (rest >> 8) ^ table[(rest ^ static_cast<std::uint8_t>(c)) & 0xFFu];
  return ~rest;
}

std::vector<ManifestEntry> manifest() { return manifest_of(text("MANIFEST")); }

std::vector<ManifestEntry> manifest_of(std::string_view text) {
  std::vector<ManifestEntry> entries;
  while (!text.empty()) {
    const std::string line(text.substr(0, text.find('\n')));
    std::istringstream fields(line);
    std::string digits, name;
    std::size_t bytes = 0;
    fields >> digits >> bytes >> name;
    // Writes the entry again and compares it, so that another spelling of the same entry is an error.
    const std::string whole = fmt::format("{} {:7} {}\n", digits, bytes, name);
    if (!text.starts_with(whole) || digits.size() != 8 ||
        digits.find_first_not_of("0123456789abcdef") != std::string::npos) {
      throw std::invalid_argument(fmt::format("golden manifest: \"{}\" is not a checksum, a size and a name", line));
    }
    entries.push_back({name, static_cast<std::uint32_t>(std::stoul(digits, nullptr, 16)), bytes});
    text.remove_prefix(whole.size());
  }
  return entries;
}

}  // namespace shardproof::oracles::golden
