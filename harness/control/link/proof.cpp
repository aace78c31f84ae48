#include "harness/control/link/proof.hpp"

#include <sys/random.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "harness/base/sha256.hpp"

namespace shardproof::control::link {

Bytes32 fresh_nonce() {
  Bytes32 nonce{};
  if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size()))
    throw std::system_error(errno, std::generic_category(), "getrandom");
  return nonce;
}

Bytes32 prove(std::string_view secret, Side side, const Bytes32& of_hub, const Bytes32& of_page) {
  std::string text(side == Side::hub ? "shardproof hub " : "shardproof page ");
  text.append(of_hub.begin(), of_hub.end()).append(of_page.begin(), of_page.end());
  return base::hmac_sha256(secret, text);
}

}  // namespace shardproof::control::link
