// Proves that a side of a connection knows the secret of the world, without sending the secret. Each side answers a
// fresh nonce of the other one. The messages after that are not protected: a machine that can change packets on their
// way can change them.
#pragma once

#include <cstdint>
#include <string_view>

#include "harness/control/link/message.hpp"

namespace shardproof::control::link {

/// The side that accepts a connection is the hub's, also between two ranks. The other one is the page's.
enum class Side : std::uint8_t { hub, page };

/// Throws std::system_error where the system has no random bytes.
Bytes32 fresh_nonce();

/// The answer of `side` to both nonces. The sides have different answers, so none can send the other's own answer back.
Bytes32 prove(std::string_view secret, Side side, const Bytes32& of_hub, const Bytes32& of_page);

}  // namespace shardproof::control::link
