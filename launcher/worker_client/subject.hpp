// Which engine is under test: what `--subject` says, and the worker that has it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "harness/protocol/case_info.hpp"
#include "launcher/process/signal_watch.hpp"
#include "launcher/run/plan.hpp"
#include "launcher/worker_client/worker.hpp"

namespace shardproof::launcher {

struct ChosenSubject {
  Worker worker;                  ///< asked for its cases
  std::string name;               ///< as plans and reports call it; empty: the worker has none
  std::filesystem::path library;  ///< the shared object that it is in; empty: the worker itself
};

/// `--subject NAME+FAULT`: a subject, and the fault that breaks it. In a path, FAULT is what follows the last `+`, if it could be the name
/// of a fault. Without one, `fault` is empty.
struct NamedSubject {
  std::string subject, fault;
  friend bool operator==(const NamedSubject&, const NamedSubject&) = default;
};
NamedSubject named_subject(std::string_view asked);

/// `asked` is empty for the worker's first; a path of a shared object (with a slash, or ending in .so), which the worker
/// loads; `pytorch`, which brings a worker of its own, in an environment without PYTHONPATH and PYTHONHOME; or a name of the
/// worker's, such as `reference`. `worker` is the value of `--worker`; if it is empty, the worker that belongs to the subject is used.
/// Throws CommandError: usage for what does not exist, with what comes closest; infrastructure as `ask_worker`, and where PyTorch is
/// not installed.
ChosenSubject choose_subject(const std::string& asked, const std::filesystem::path& worker, SignalWatch& signals);

/// The same for what the options ask for; puts into them what plans are to say of it.
Worker find_subject(PlanOptions& options, const std::filesystem::path& worker, SignalWatch& signals);

/// What plans call the subject of a worker that is asked for this one, with no path. Pure. Throws CommandError (usage).
std::string subject_name(const Listing& listing, const std::string& asked);

/// The worker of the private environment that has PyTorch: where SHARDPROOF_PYTORCH names the folder of one there, else among what was
/// built or installed with this executable, whether or not it is there.
std::filesystem::path pytorch_worker();
/// Whether SHARDPROOF_PYTORCH does.
bool names_pytorch();

}  // namespace shardproof::launcher
