// Prepares a subject whose runtime starts slowly, in a warm process (harness/runner/warm.hpp).
#pragma once

#include "harness/protocol/warm_socket.hpp"
#include "harness/subject/subject.hpp"

namespace shardproof::runner {

/// The answer has the subject's warnings, and its error if the subject cannot be prepared.
protocol::CopyAnswer prepare(Subject& subject);

}  // namespace shardproof::runner
