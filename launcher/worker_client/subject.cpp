#include "launcher/worker_client/subject.hpp"

#include <elf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string_view>
#include <system_error>

#include "harness/base/closest.hpp"
#include "harness/protocol/subject_name.hpp"
#include "launcher/launcher.hpp"
#include "launcher/process/home.hpp"

namespace shardproof::launcher {

using protocol::pytorch_subject;
using protocol::reference_subject;

namespace {

constexpr char pytorch_variable[] = "SHARDPROOF_PYTORCH";
/// The path of the harness library, for a worker that is not linked to it.
constexpr char library_variable[] = "SHARDPROOF_WORKER_LIBRARY";
/// The folder for PyTorch's compiled code. PyTorch always makes the folder and does not remove it. By default, it is
/// among temporary files.
constexpr char cache_variable[] = "TORCHINDUCTOR_CACHE_DIR";

/// Advice if the user may have meant a Python program.
std::string python_hint(const std::string& requested) {
  return requested.ends_with(".py") ? fmt::format("; an engine in Python brings its own worker: --worker {}", requested)
                                    : std::string();
}

/// Whether the text is an identifier of C++.
bool may_be_fault(std::string_view text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !text.empty() && std::ranges::all_of(text, is_plain);
}

/// The option for the fault of a single subject.
std::string fault_advice(const NamedSubject& named) {
  return fmt::format("--subject {0}+{1}: name the fault of a single subject with --fault: `--subject {0} --fault {1}`",
                     named.subject, named.fault);
}

/// Why the file is not a shared object. Empty: its beginning looks like a shared object. Opening a special file, such
/// as a pipe, would block the worker.
std::string why_no_shared_object(const std::filesystem::path& file) {
  std::error_code unknown;
  const auto there = std::filesystem::status(file, unknown).type();
  if (there == std::filesystem::file_type::directory)
    return fmt::format("{} is a directory, not a shared object", file.string());
  if (unknown) return fmt::format("cannot find the shared object {}: {}", file.string(), unknown.message());
  if (there != std::filesystem::file_type::regular)
    return fmt::format("{} cannot be loaded: it is a pipe, a socket or a device", file.string());
  constexpr std::string_view magic(ELFMAG, SELFMAG);
  std::string beginning(magic.size(), '\0');
  std::ifstream in(file, std::ios::binary);
  if (!in) return fmt::format("cannot read {}: {}", file.string(), std::generic_category().message(errno));
  in.read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  if (beginning == magic) return {};
  return fmt::format("{} is not a shared object: it has no ELF header", file.string());
}

std::filesystem::path found_library(const std::string& requested) {
  std::error_code unknown;
  const std::filesystem::path whole = std::filesystem::absolute(requested);
  // Resolves links in the folder: the path's text alone does not show where a link's `..` leads. The file keeps the
  // name that the user gave.
  const std::filesystem::path folder = std::filesystem::weakly_canonical(whole.parent_path(), unknown);
  const std::filesystem::path file = unknown ? whole : folder / whole.filename();
  const std::string why = why_no_shared_object(file);
  if (why.empty()) return file;
  if (const NamedSubject named = named_subject(requested);
      !named.fault.empty() && why_no_shared_object(std::filesystem::absolute(named.subject)).empty())
    throw CommandError(usage, fault_advice(named));
  throw CommandError(usage, fmt::format("--subject {}: {}{}", requested, why, python_hint(requested)));
}

Worker find_pytorch() {
  const std::filesystem::path program = pytorch_worker();
  std::error_code unknown;
  if (!std::filesystem::exists(program, unknown)) {
    const bool is_named = names_pytorch();
    throw CommandError(
        infrastructure,
        fmt::format(
            "--subject {}: PyTorch is not installed: {} does not exist. {}", pytorch_subject, program.string(),
            is_named ? fmt::format(
                           "{} names that folder. Without this variable, `./run --subject {}` installs PyTorch into a "
                           "private environment",
                           pytorch_variable, pytorch_subject)
                     : fmt::format("In shardproof's source tree, `./run --subject {}` installs it into a private "
                                   "environment. {} can name another environment",
                                   pytorch_subject, pytorch_variable)));
  }
  Worker worker = find_worker(program);
  const auto says = [](std::string_view name) {
    return [=](std::string_view variable) { return variable.substr(0, variable.find('=')) == name; };
  };
  // These variables take precedence over the private environment: another torch than the installed one would be tested.
  for (const std::string_view name : {"PYTHONPATH", "PYTHONHOME"}) std::erase_if(worker.environment, says(name));
  if (std::ranges::none_of(worker.environment, says(cache_variable))) worker.cache_variable = cache_variable;
  if (std::ranges::none_of(worker.environment, says(library_variable))) {
    worker.environment.push_back(
        fmt::format("{}={}", library_variable, (launcher_home() / "lib/libshardproof-worker.so").string()));
  }
  return worker;
}

}  // namespace

NamedSubject named_subject(std::string_view requested) {
  const std::size_t plus = requested.rfind('+');
  if (plus == std::string_view::npos || !may_be_fault(requested.substr(plus + 1))) return {std::string(requested), {}};
  return {std::string(requested.substr(0, plus)), std::string(requested.substr(plus + 1))};
}

bool names_pytorch() {
  const char* const folder = std::getenv(pytorch_variable);
  return folder != nullptr && *folder != '\0';
}

std::filesystem::path pytorch_worker() {
  const std::filesystem::path program = std::filesystem::path("bin") / protocol::pytorch_worker_program;
  if (names_pytorch()) return std::filesystem::absolute(std::getenv(pytorch_variable)) / program;
  const std::filesystem::path built = launcher_home() / pytorch_subject / program;
  const std::filesystem::path installed = launcher_home() / "lib/shardproof" / pytorch_subject / program;
  std::error_code unknown;
  return std::filesystem::exists(installed, unknown) ? installed : built;
}

std::string subject_name(const protocol::Listing& listing, const std::string& requested) {
  std::vector<std::string> names;
  for (const protocol::SubjectInfo& subject : listing.subjects) names.push_back(subject.name);
  if (requested.empty() && names.empty()) return {};  // a program of plain multi-rank tests
  if (names.empty())
    throw CommandError(
        usage, fmt::format("unknown subject '{}': this worker has no subject{}", requested, python_hint(requested)));
  const auto has = [&](std::string_view name) { return std::ranges::find(names, name) != names.end(); };
  if (requested.empty()) return names.front();
  if (has(requested)) return requested;
  if (requested == reference_subject)
    throw CommandError(
        usage, fmt::format("this worker has no engine '{}'; it has: {}", reference_subject, fmt::join(names, ", ")));
  if (const NamedSubject named = named_subject(requested);
      !named.fault.empty() &&
      (has(named.subject) || named.subject == pytorch_subject || protocol::is_shared_object(named.subject)))
    throw CommandError(usage, fault_advice(named));
  const bool has_reference = has(reference_subject);
  const bool is_former = requested == protocol::former_reference_subject && has_reference;
  std::set<std::string> candidates(names.begin(), names.end());
  candidates.insert(std::string(pytorch_subject));
  const std::string hint =
      is_former ? fmt::format("it is called '{}' now; ", reference_subject) : base::closest_hint(candidates, requested);
  std::erase_if(names, [](const std::string& name) { return name == reference_subject || name == pytorch_subject; });
  if (has_reference) names.emplace_back(reference_subject);
  names.emplace_back(pytorch_subject);
  throw CommandError(usage, fmt::format("unknown subject '{}'; {}there are {}, and paths of shared objects{}",
                                        requested, hint, fmt::join(names, ", "), python_hint(requested)));
}

ChosenSubject choose_subject(const std::string& requested, const std::filesystem::path& worker, SignalWatch& signals) {
  ChosenSubject chosen;
  if (protocol::is_shared_object(requested)) chosen.library = found_library(requested);
  chosen.worker = requested == pytorch_subject && worker.empty() ? find_pytorch() : find_worker(worker);
  ask_for_cases(chosen.worker, chosen.library, signals);
  chosen.name = subject_name(chosen.worker.listing, chosen.library.empty() ? requested : std::string());
  return chosen;
}

}  // namespace shardproof::launcher
