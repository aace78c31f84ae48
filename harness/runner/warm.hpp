// The worker's side of a warm process (harness/protocol/warm_socket.hpp): a subject whose runtime takes long to start is prepared once, and
// each rank is a copy of the process that has done so.
#pragma once

#include <optional>

#include "harness/subject/subject.hpp"

namespace shardproof {

/// Prepares the subject, says so, and makes ranks of copies of this process, made by the subject's `fork`, until the launcher is gone:
/// then, and where it cannot be prepared, gives the exit code of this process. In a copy that is to be a rank it gives nothing; there the
/// environment, standard output and error, the parent and the process group are the rank's own, and all else is as it was. Throws
/// std::system_error where descriptor 3 is no socket of a launcher's.
std::optional<int> stay_warm(Subject& subject);

}  // namespace shardproof
