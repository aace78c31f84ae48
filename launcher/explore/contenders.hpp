// Contenders: subjects that play scenarios. Finds the one or two subjects that a user names, plays documents on them,
// and collects the results.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/case_info.hpp"
#include "harness/protocol/run_directory.hpp"
#include "launcher/process/signal_watch.hpp"
#include "launcher/run/plan.hpp"
#include "launcher/run/run.hpp"
#include "launcher/worker_client/subject.hpp"
#include "launcher/worker_client/worker.hpp"
#include "reports/play/play_difference.hpp"

namespace shardproof::launcher {

struct Contender {
  std::string requested;   ///< the user's name for it
  Worker worker;       ///< has listed its cases
  PlanOptions plan;    ///< includes its subject and its fault
  protocol::SubjectInfo subject;
};

/// Whether `--subject` names two subjects. A text that is the path of a file names a single subject, even with commas.
bool names_two(std::string_view requested);

/// Splits `A,B`. A name with a comma has to be the path of a file. Throws CommandError (usage) if no comma
/// or more than one separates two such names.
std::array<NamedSubject, 2> two_subjects(std::string_view requested);

/// Finds the subject's worker and makes its plan from `settings`. Ignores the subject and the fault in `settings`.
/// Throws CommandError like `find_subject`, and for a fault that does not exist.
Contender find_contender(const NamedSubject& named, const PlanOptions& settings, const std::filesystem::path& worker,
                         SignalWatch& signals);
/// Finds both subjects in `settings`, as `two_subjects` splits them. Throws CommandError (usage) if both names mean the
/// same engine.
std::array<Contender, 2> find_contenders(const PlanOptions& settings, const std::filesystem::path& worker,
                                         SignalWatch& signals);

/// A scenario on disk, and the number of ranks that play it.
struct Document {
  std::filesystem::path file;
  int ranks = 1;
};

/// Throws CommandError (usage) if no world of the document's ranks can run here.
void require_playable(const Contender& contender, const Document& document);

/// A plan with a world for each number of ranks. In its world, a document's case has the same position as the document
/// has.
struct PlayPlan {
  Plan plan;
  std::vector<std::string> ids;  ///< by document
};

/// Throws like `require_playable`.
PlayPlan plan_of(const Contender& contender, std::span<const Document> documents);

/// The result of one document on one contender.
struct DocumentPlay {
  reports::SubjectPlay play;
  reports::WorldResult world;
  std::string skipped;  ///< why such a world cannot play it; empty: it can
};

/// Why the case went wrong, in lines. Empty for a case that passed or was skipped.
std::string why_bad(const reports::CaseResult& result, const reports::Report& report);

/// The play results that ranks have left for a scenario's case. Empty if a rank did not finish it, or left an
/// unreadable result.
std::vector<protocol::PlayResult> play_results(const protocol::WorldDirectory& directory, const std::string& id,
                                               int ranks);

/// Plays all documents, with one world for each number of ranks, and leaves a run in `directory`. Throws CommandError
/// if ranks failed to work, if an output could not be written, or if the user ended the command.
std::vector<DocumentPlay> play_documents(const Contender& contender, std::span<const Document> documents,
                                         const protocol::RunDirectory& directory, const std::vector<std::string>& argv,
                                         SignalWatch& signals);

}  // namespace shardproof::launcher
