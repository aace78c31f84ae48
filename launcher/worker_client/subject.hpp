// The engine under test: finds the subject that `--subject` names, and the worker that has it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "harness/protocol/case_info.hpp"
#include "launcher/process/signal_watch.hpp"
#include "launcher/worker_client/worker.hpp"

namespace shardproof::launcher {

struct ChosenSubject {
  Worker worker;                  ///< has listed its cases
  std::string name;               ///< its name in plans and reports; empty: the worker has no subject
  std::filesystem::path library;  ///< the shared object with the subject; empty: the worker has it
};

/// `--subject NAME+FAULT`: a subject, and the fault that breaks it. If NAME is a path, FAULT is the text after the last
/// `+`, if it could be the name of a fault. Without a fault, `fault` is empty.
struct NamedSubject {
  std::string subject, fault;
  friend bool operator==(const NamedSubject&, const NamedSubject&) = default;
};
NamedSubject named_subject(std::string_view requested);

/// Finds the subject `requested` and its worker:
///   - Empty: the worker's first subject.
///   - The path of a shared object, with a slash or ending in .so: the worker loads it.
///   - `pytorch`: has its own worker, in an environment without PYTHONPATH and PYTHONHOME.
///   - A name that the worker lists, such as `reference`.
///
/// `worker` is the value of `--worker`. If it is empty, the subject's own worker is used. Throws CommandError:
///   - usage for a subject or a file that does not exist, with the closest match,
///   - infrastructure like `ask_worker`, and if PyTorch is not installed.
ChosenSubject choose_subject(const std::string& requested, const std::filesystem::path& worker, SignalWatch& signals);

/// The name in plans of the subject that the user asked for, without a path. Pure. Throws CommandError (usage).
std::string subject_name(const protocol::Listing& listing, const std::string& requested);

/// The PyTorch worker in its private environment. If SHARDPROOF_PYTORCH names the environment's folder, the worker is
/// there. Else it is below the launcher's home, from a build or an installation. The file may be missing.
std::filesystem::path pytorch_worker();
/// Whether SHARDPROOF_PYTORCH is set.
bool names_pytorch();

}  // namespace shardproof::launcher
