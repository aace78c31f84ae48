// Tests which host a process is on.
#include "harness/protocol/host_identity.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <string_view>

#include "harness/protocol/environment.hpp"

namespace shardproof::protocol {
namespace {

HostIdentity on_node(const char* node) {
  return host_identity(
      [node](const char* name) { return name == std::string_view("SLURMD_NODENAME") ? node : nullptr; });
}

TEST_CASE("processes of one host have one identity", "[protocol]") {
  CHECK(on_node(nullptr) == on_node(nullptr));
  CHECK(on_node(nullptr).name == host_name());
  CHECK(on_node("").name == host_name());
  CHECK(on_node("n1") == on_node("n1"));
}

TEST_CASE("two nodes of Slurm on one machine are two hosts", "[protocol]") {
  const HostIdentity first = on_node("n1"), second = on_node("n2");
  CHECK(first.name == "n1");
  CHECK_FALSE(first == second);
  CHECK(first.boot == second.boot);
  CHECK(word_of(first) != word_of(second));
}

TEST_CASE("each part of an identity counts", "[protocol]") {
  const HostIdentity host{.name = "n1", .boot = "b", .memory = "0:25"};
  CHECK(word_of(host) == "n1/b/0:25");
  for (const HostIdentity& other : {HostIdentity{"n2", "b", "0:25"}, {"n1", "c", "0:25"}, {"n1", "b", "0:26"}}) {
    CHECK_FALSE(other == host);
    CHECK(word_of(other) != word_of(host));
  }
  CHECK(word_of({.name = "a b", .boot = "c", .memory = {}}) == "a_b/c/");
}

}  // namespace
}  // namespace shardproof::protocol
