// Worlds for tests of fabrics of messages: ranks are threads that send messages to each other.
#pragma once

#include <string>
#include <vector>

#include "tests/fabric/mailboxes.hpp"
#include "tests/fabric/worlds.hpp"

namespace shardproof::testing {

/// As `run_threads`, on two fabrics of messages: between mailboxes, whose delays are drawn by the seed of the test
/// program, and then over TCP. Returns the errors of the first fabric that has any.
std::vector<std::string> run_messages(int size, const Body& body, const Settings& settings = {});
/// Only between these mailboxes. The test can ask them afterwards.
std::vector<std::string> run_messages(int size, const Body& body, Mailboxes& mailboxes, const Settings& settings = {});
std::vector<std::string> run_tcp(int size, const Body& body, const Settings& settings = {});

}  // namespace shardproof::testing
