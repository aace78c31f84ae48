#include "harness/runner/play/subject_preparation.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>

namespace shardproof::runner {

protocol::CopyAnswer prepare(Subject& subject) {
  try {
    const Reply reply = subject.prepare();
    for (const std::string& warning : reply.warnings) fmt::print(stderr, "warning: {}\n", warning);
    protocol::CopyAnswer prepared{.warnings = reply.warnings};
    if (!reply.ok()) prepared.error = reply.error();
    return prepared;
  } catch (const std::exception& error) {
    return {.error = Reply::failed(error.what()).error()};
  }
}

}  // namespace shardproof::runner
