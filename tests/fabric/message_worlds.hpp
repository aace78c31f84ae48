// Worlds for tests of the fabric `mpi` without an MPI library: ranks are threads that send messages to each other.
#pragma once

#include <string>
#include <vector>

#include "tests/fabric/mailboxes.hpp"
#include "tests/fabric/worlds.hpp"

namespace shardproof::testing {

/// As `run_threads`, on the fabric `mpi`. The delays of messages are drawn by the seed of the test program.
std::vector<std::string> run_messages(int size, const Body& body, const Settings& settings = {});
/// With these mailboxes, which the test can ask afterwards.
std::vector<std::string> run_messages(int size, const Body& body, Mailboxes& mailboxes, const Settings& settings = {});

}  // namespace shardproof::testing
