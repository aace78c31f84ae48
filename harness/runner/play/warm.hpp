// The worker's side of a warm process (harness/protocol/warm_socket.hpp). A subject whose runtime starts slowly is
// prepared once. Each rank is then a copy of the prepared process.
#pragma once

#include <optional>

#include "harness/subject/subject.hpp"

namespace shardproof::runner {

/// Prepares the subject, and reports this to the launcher. Then makes ranks from copies of this process with the
/// subject's `fork`, until the launcher is gone.
///
/// Returns the exit code of this process when the launcher is gone, or when the subject cannot be prepared. Returns
/// nullopt in a copy that must now run as a rank. The copy has its own environment, standard output, standard error,
/// parent and process group; all else is unchanged.
///
/// Throws std::system_error if descriptor 3 is not a launcher's socket.
std::optional<int> stay_warm(Subject& subject);

}  // namespace shardproof::runner
