// Subjects that play scenarios, two of them the same ones: which they are, and what comes of documents on each of them.
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
  std::string asked;   ///< what its user calls it: `reference+late_gather`
  Worker worker;       ///< asked for its cases
  PlanOptions plan;    ///< its subject and its fault among them
  SubjectInfo subject;
};

/// Whether `--subject` names two: what is the path of a file as a whole names one, whatever commas are in it.
bool names_two(std::string_view asked);

/// `A,B`. Of several commas, it is the one between two names of which each that has a comma itself is the path of a file. Throws
/// CommandError (usage).
std::array<NamedSubject, 2> two_subjects(std::string_view asked);

/// With these settings, whose own subject and fault are of no account. Throws CommandError as `find_subject`, and for a fault that there is
/// not.
Contender find_contender(const NamedSubject& named, const PlanOptions& settings, const std::filesystem::path& worker, SignalWatch& signals);
/// Both that the settings name, as `two_subjects` takes them. Throws CommandError (usage) for one engine under two names.
std::array<Contender, 2> find_contenders(const PlanOptions& settings, const std::filesystem::path& worker, SignalWatch& signals);

/// A scenario on disk, and how many ranks are to play it.
struct Document {
  std::filesystem::path file;
  int ranks = 1;
};

/// One world for each number of ranks. A document's case has the place of the document among those of its world.
struct PlayPlan {
  Plan plan;
  std::vector<std::string> ids;  ///< of each document
};

/// Throws CommandError (usage) where such a world cannot be.
PlayPlan plan_of(const Contender& contender, std::span<const Document> documents);

/// What came of one document on one contender.
struct DocumentPlay {
  reports::SubjectPlay play;
  reports::WorldResult world;
  std::string skipped;  ///< why it cannot be played in such a world; empty: it can
};

/// What ranks have left of the case of a scenario; none where one of them has not come to its end, or has left what cannot be read.
std::vector<PlayResult> play_results(const WorldDirectory& directory, const std::string& id, int ranks);

/// Plays them all, those for as many ranks in one world, and leaves a run in `directory`. Throws CommandError where ranks could not do
/// their work, where not all could be written, or when the user ended it.
std::vector<DocumentPlay> play_documents(const Contender& contender, std::span<const Document> documents, const RunDirectory& directory,
                                         const std::vector<std::string>& argv, SignalWatch& signals);

}  // namespace shardproof::launcher
