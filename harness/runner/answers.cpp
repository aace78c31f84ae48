#include "harness/runner/answers.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "harness/base/json_text.hpp"
#include "harness/protocol/ending.hpp"
#include "harness/runner/complaint.hpp"
#include "harness/runner/listing.hpp"

namespace shardproof::runner {

int answer_with_problems(const std::vector<std::string>& problems) {
  fmt::print("{}\n", base::dump_line({{"protocol", protocol::Listing::current_protocol}, {"problems", problems}}));
  std::fflush(stdout);
  return protocol::rank_usage;
}

int answer_with_cases(const Program& program, const ProgramExtension& extension, const std::filesystem::path& library,
                      std::span<const cases::BoundCase> cases) {
  try {
    fmt::print("{}\n", base::dump_line(make_listing(program, extension, library, cases)));
  } catch (const UsageError& refused) {
    complain(refused.what());
    return answer_with_problems({refused.what()});
  }
  return std::fflush(stdout) == 0 ? protocol::rank_left : protocol::rank_usage;
}

}  // namespace shardproof::runner
