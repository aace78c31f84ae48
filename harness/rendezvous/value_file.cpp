#include "harness/rendezvous/value_file.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>

#include "harness/base/digest.hpp"

namespace shardproof::rendezvous {

namespace {

/// In the machine's byte order: ranks of one world run the same binary.
struct Head {
  char magic[8];
  std::int32_t writer;
  std::uint32_t nonce_length;
  std::uint64_t length;
  std::uint64_t checksum;  ///< over everything else
};
static_assert(sizeof(Head) == 32);
constexpr char magic[8] = {'s', 'h', 'r', 'p', 'v', 'a', 'l', '1'};

/// The checksum of everything but its own field.
std::uint64_t checksum(std::string_view content) {
  return base::digest(content.substr(sizeof(Head)), base::digest(content.substr(0, offsetof(Head, checksum))));
}

}  // namespace

std::string encode(const Value& value, std::string_view nonce) {
  Head head{};
  std::memcpy(head.magic, magic, sizeof magic);
  head.writer = value.writer;
  head.nonce_length = static_cast<std::uint32_t>(nonce.size());
  head.length = value.bytes.size();
  std::string content(reinterpret_cast<const char*>(&head), sizeof head);
  content += nonce;
  content += value.bytes;
  const std::uint64_t sum = checksum(content);
  std::memcpy(content.data() + offsetof(Head, checksum), &sum, sizeof sum);
  return content;
}

Value decode(std::string_view content, std::string_view nonce) {
  Head head{};
  if (content.size() < sizeof head)
    throw TornValue(fmt::format("torn: {} bytes, a value has at least {}", content.size(), sizeof head));
  std::memcpy(&head, content.data(), sizeof head);
  if (std::memcmp(head.magic, magic, sizeof magic) != 0) throw TornValue("not a value of this store");
  const std::size_t rest = content.size() - sizeof head;
  if (head.nonce_length > rest || head.length != rest - head.nonce_length) {
    throw TornValue(
        fmt::format("torn: {} bytes after the head, which promises {} + {}", rest, head.nonce_length, head.length));
  }
  if (head.checksum != checksum(content)) throw TornValue("corrupt: the checksum is wrong");
  const std::string_view theirs = content.substr(sizeof head, head.nonce_length);
  if (theirs != nonce)
    throw std::runtime_error(fmt::format("stale: it belongs to the world \"{}\", not to \"{}\"", theirs, nonce));
  return {head.writer, std::string(content.substr(sizeof head + head.nonce_length))};
}

std::string percent_encode(std::string_view key) {
  std::string name;
  for (const char c : key) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    if (plain) {
      name += c;
    } else {
      fmt::format_to(std::back_inserter(name), "%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return name;
}

}  // namespace shardproof::rendezvous
