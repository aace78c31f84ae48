// SHA-256 (FIPS 180-4), and HMAC with it (RFC 2104): a proof that its maker knows a secret.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace shardproof::base {

using Sha256 = std::array<std::uint8_t, 32>;

Sha256 sha256(std::string_view bytes);
Sha256 hmac_sha256(std::string_view key, std::string_view bytes);

/// Compares in a time that does not depend on the contents.
bool is_same_secret(const Sha256& a, const Sha256& b);

}  // namespace shardproof::base
