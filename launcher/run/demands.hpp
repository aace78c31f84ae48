// What the user demands of a run beyond verdicts, and which failures are known: from the command line to the head of a report.
#pragma once

#include <filesystem>
#include <vector>

#include "harness/protocol/case_info.hpp"
#include "launcher/commands/options.hpp"
#include "reports/model/report.hpp"

namespace shardproof::launcher {

/// Puts into the head what was given; what was not stays as it is. `listing`: what the worker says of its clauses; nullptr: nobody knows.
/// Throws CommandError (usage) for a clause that the worker does not know, with the closest that it does, and for a file of waivers that is
/// none, naming file, waiver and field.
void put_demands(reports::RunHead& head, const DemandOptions& options, const Listing* listing);

}  // namespace shardproof::launcher
