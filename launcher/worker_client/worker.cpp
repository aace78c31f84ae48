#include "launcher/worker_client/worker.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "harness/base/json_fields.hpp"
#include "harness/base/json_parse.hpp"
#include "harness/base/json_text.hpp"
#include "harness/base/utf8.hpp"
#include "harness/protocol/ending.hpp"
#include "harness/protocol/environment.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "launcher/process/leftovers.hpp"
#include "launcher/process/poller.hpp"
#include "launcher/process/process.hpp"
#include "launcher/terminal/duration_text.hpp"
#include "reports/export/terminal.hpp"

namespace shardproof::launcher {

using base::parse_json;
using protocol::Listing;

namespace {

/// The output of an unknown program, kept in memory, at most `capacity` bytes. More output is an error of the program.
class BoundedOutput {
 public:
  explicit BoundedOutput(off_t capacity) : file_(memfd_create("shardproof-listing", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    // A limit on file sizes (ulimit -f) also holds in memory.
    if (rlimit limit{}; getrlimit(RLIMIT_FSIZE, &limit) == 0)
      capacity = static_cast<off_t>(std::min<rlim_t>(static_cast<rlim_t>(capacity), limit.rlim_cur));
    if (!file_ || ftruncate(file_.get(), capacity) != 0 || fcntl(file_.get(), F_ADD_SEALS, F_SEAL_GROW) != 0) {
      throw std::system_error(errno, std::generic_category(), "memfd_create for the worker's list of cases");
    }
  }

  int descriptor() const { return file_.get(); }

  std::string text() const {
    // The child shares this open file's position, which is after the last written byte.
    const off_t written = lseek(file_.get(), 0, SEEK_CUR);
    std::string result(static_cast<std::size_t>(written), '\0');
    std::size_t read = 0;
    while (read < result.size()) {
      const ssize_t count = pread(file_.get(), result.data() + read, result.size() - read, static_cast<off_t>(read));
      if (count <= 0) break;
      read += static_cast<std::size_t>(count);
    }
    result.resize(read);
    return result;
  }

 private:
  base::FileDescriptor file_;
};

constexpr off_t longest_listing = off_t{256} << 20;
constexpr off_t longest_complaint = off_t{1} << 20;

/// Only this launcher sets the identity of a rank. Variables that an enclosing launcher set for the launcher process
/// must not reach the rank.
bool names_a_rank(std::string_view variable) {
  static constexpr std::array<std::string_view, 9> names{"SHARDPROOF_RANK",   "SHARDPROOF_PLAN",  "SHARDPROOF_PARENT",
                                                         "SHARDPROOF_TRACER", "SHARDPROOF_DEBUG", "RANK",
                                                         "WORLD_SIZE",        "LOCAL_RANK",       "LOCAL_WORLD_SIZE"};
  static constexpr std::array<std::string_view, 4> prefixes{"OMPI_COMM_WORLD_", "PMI_", "PMIX_", "SLURM_PROCID"};
  const std::string_view name = variable.substr(0, variable.find('='));
  for (const std::string_view known : names) {
    if (name == known) return true;
  }
  for (const std::string_view prefix : prefixes) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

std::vector<std::string> worker_environment() {
  std::vector<std::string> result;
  for (char** entry = environ; *entry; ++entry) {
    if (!names_a_rank(*entry)) result.emplace_back(*entry);
  }
  return result;
}

std::filesystem::path next_to_executable() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "shardproof-worker";
}

/// A program's output when it was asked with arguments, and how it ended. No end: it did not end in time.
struct Answer {
  std::optional<Exit> end;
  std::string text, complaint;
};

/// A worker that was started with arguments, until it answers. The constructor throws CommandError (infrastructure) if
/// the worker cannot be started.
class Question {
 public:
  Question(const Worker& worker, std::vector<std::string> arguments, std::chrono::milliseconds time_limit)
      : leftovers_(worker.started),
        process_(start(worker, std::move(arguments))),
        deadline_(std::chrono::steady_clock::now() + time_limit) {}

  /// Readable once the worker has ended.
  int descriptor() const { return process_.descriptor(); }
  control::Deadline deadline() const { return deadline_; }

  /// Empty: the worker may still answer.
  std::optional<Answer> answer() {
    try {
      const bool is_late = std::chrono::steady_clock::now() >= deadline_;
      const std::optional<Exit> end = process_.collect();
      if (!end && !is_late) return std::nullopt;
      if (end) {
        for (const Leftover& leftover : leftovers_.end())
          print_error(fmt::format("warning: the queried worker left {}", describe(leftover)));
      }
      return Answer{end, text_.text(), complaint_.text()};
    } catch (const std::system_error& error) {
      throw unanswerable(error);
    }
  }

 private:
  static CommandError unanswerable(const std::system_error& error) {
    return {infrastructure, fmt::format("worker: {}", error.what())};
  }

  Process start(const Worker& worker, std::vector<std::string> arguments) const {
    Command command{.program = worker.program,
                    .arguments = std::move(arguments),
                    .environment = worker.environment,
                    .standard_output = text_.descriptor(),
                    .standard_error = complaint_.descriptor()};
    // If the launcher is killed, the child ends, too. No other process would end it.
    command.environment.push_back(fmt::format("{}={}", protocol::environment::parent, getpid()));
    try {
      return Process::spawn(command);
    } catch (const std::system_error& error) {
      throw unanswerable(error);
    }
  }

  Leftovers leftovers_;
  const BoundedOutput text_{longest_listing};
  const BoundedOutput complaint_{longest_complaint};
  Process process_;
  control::Deadline deadline_;
};

/// Calls `take` until it returns a value, each time when the worker may have answered. The worker has its own process
/// group, which a terminal's Ctrl-C does not reach. So a signal to the launcher ends the wait.
template <class Asked, class Take>
auto wait_for(const Asked& question, SignalWatch& signals, const Take& take) {
  Poller poller;
  poller.add(question.descriptor(), 0);
  poller.add(signals.descriptor(), 1);
  for (;;) {
    poller.wait(question.deadline());
    if (const auto number = signals.take()) throw CommandError(static_cast<ExitCode>(128 + *number), "interrupted");
    if (auto taken = take()) return *std::move(taken);
  }
}

Answer ask(const Worker& worker, std::vector<std::string> arguments, SignalWatch& signals,
           std::chrono::milliseconds time_limit) {
  Question question(worker, std::move(arguments), time_limit);
  return wait_for(question, signals, [&] { return question.answer(); });
}

std::string within(std::string_view text, std::size_t most) {
  const std::string_view part = base::beginning_within(text, most);
  return reports::printable(part) + (part.size() < text.size() ? "…" : "");
}

/// The first line of a program's output, for a message of one line. An exception's text would end at its first NUL.
std::string first_line_of(std::string_view text) { return within(text.substr(0, text.find('\n')), 200); }

/// The program's complaint: its first line, or the last line of a Python traceback, which has the exception.
std::string complaint_of(std::string_view text) {
  constexpr std::size_t most = 4000;
  if (text.find("Traceback (most recent call last):") == std::string_view::npos)
    return within(text.substr(0, text.find('\n')), most);
  while (text.ends_with('\n')) text.remove_suffix(1);
  return within(text.substr(text.rfind('\n') + 1), most);
}

/// The errors in the declarations of cases, line by line, from a shardproof worker that refuses to list its cases.
/// Empty for any other program.
std::string declared_wrongly(const std::string& answer) {
  try {
    const nlohmann::ordered_json json = parse_json(answer);
    const base::Fields fields(json, "answer");
    if (fields.integer<int>("protocol") != Listing::current_protocol) return {};
    std::string lines;
    for (const std::string& problem : fields.texts("problems")) lines += reports::printable(problem) + "\n";
    return lines;
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace

Listing parse_listing(const std::string& text) {
  nlohmann::ordered_json json;
  try {
    json = parse_json(text);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("its answer is malformed: {}", error.what()));
  } catch (const nlohmann::json::exception&) {
    throw std::invalid_argument(text.empty() ? "its answer is empty"
                                             : fmt::format("its answer is not JSON: '{}'", first_line_of(text)));
  }
  // Checked first: another protocol explains all other differences.
  if (!json.is_object() || !json.contains("protocol") || !json["protocol"].is_number_integer()) {
    throw std::invalid_argument("its answer has no protocol version");
  }
  if (const int protocol = json["protocol"]; protocol != Listing::current_protocol) {
    throw std::invalid_argument(
        fmt::format("it speaks protocol {}, but this launcher speaks {}: build both from one version", protocol,
                    Listing::current_protocol));
  }
  try {
    return json.get<Listing>();
  } catch (const std::exception& error) {
    throw std::invalid_argument(fmt::format("its answer is malformed: {}", error.what()));
  }
}

Worker find_worker(const std::filesystem::path& requested) {
  Worker worker;
  worker.program = requested.empty() ? next_to_executable() : std::filesystem::absolute(requested);
  worker.environment = worker_environment();
  // A file that the user named but that does not exist is a usage error, like any other unknown name.
  std::error_code unknown;
  const std::filesystem::file_status there = std::filesystem::status(worker.program, unknown);
  const ExitCode code = requested.empty() ? infrastructure : usage;
  if (!std::filesystem::exists(there))
    throw CommandError(code, fmt::format("cannot find the worker {}: {}", worker.program.string(), unknown.message()));
  if (std::filesystem::is_directory(there))
    throw CommandError(code, fmt::format("worker {} is a directory", worker.program.string()));
  return worker;
}

Worker ask_worker(const std::filesystem::path& requested, SignalWatch& signals, std::chrono::milliseconds time_limit) {
  Worker worker = find_worker(requested);
  ask_for_cases(worker, {}, signals, time_limit);
  return worker;
}

namespace {

/// Why an answer to --list-json holds no cases. Empty: it holds cases.
struct NoCases {
  std::string why;
  bool is_worker = true;  ///< it may be a worker; no other program gives this answer
};

std::optional<NoCases> take_cases(Worker& worker, const Answer& answer, std::chrono::milliseconds time_limit) {
  if (!answer.end) return NoCases{fmt::format("it did not answer within {}", seconds_text(time_limit))};
  if (answer.end->signalled) return NoCases{fmt::format("it ended with {}", describe(*answer.end))};
  worker.listing_text = answer.text;
  if (*answer.end != Exit{}) return NoCases{fmt::format("it ended with {}", describe(*answer.end)), false};
  try {
    worker.listing = parse_listing(worker.listing_text);
  } catch (const std::invalid_argument& error) {
    return NoCases{error.what(), false};
  }
  return std::nullopt;
}

}  // namespace

void ask_for_cases(Worker& worker, const std::filesystem::path& subject_library, SignalWatch& signals,
                   std::chrono::milliseconds time_limit) {
  const std::string name = worker.program.string();
  const std::string library = subject_library.string();
  const std::vector<std::string> alone{"--list-json"};
  std::vector<std::string> arguments = alone;
  if (!library.empty()) arguments.insert(arguments.end(), {"--subject", library});
  const Answer answer = ask(worker, std::move(arguments), signals, time_limit);
  const auto refused = take_cases(worker, answer, time_limit);
  if (!refused) return;
  if (answer.end && !answer.end->signalled && answer.end->code == protocol::rank_usage) {
    if (const std::string problems = declared_wrongly(answer.text); !problems.empty())
      throw CommandError(infrastructure,
                         fmt::format("{}(no case of {} can run {})", problems, name,
                                     library.empty() ? "until its declarations are right" : "with this subject"));
  }
  const std::string said =
      answer.complaint.empty() ? "" : fmt::format(" (standard error: {})", complaint_of(answer.complaint));
  // If a worker lists its cases without the shared object, the object is the problem.
  if (Worker same = worker; !library.empty() && !take_cases(same, ask(worker, alone, signals, time_limit), time_limit))
    throw CommandError(infrastructure,
                       fmt::format("--subject {}: worker {} cannot list its cases with this shared object: {}{}",
                                   library, name, refused->why, said));
  throw CommandError(infrastructure,
                     fmt::format("{} {}: asked with --list-json{}, {}{}", name,
                                 refused->is_worker ? "cannot list its cases" : "is not a shardproof worker",
                                 library.empty() ? "" : fmt::format(" and --subject {}", library), refused->why, said));
}

class GpuQuestion::Impl {
 public:
  Impl(const Worker& worker, const std::filesystem::path& backend, std::chrono::milliseconds time_limit)
      : program_(worker.program.string()),
        backend_(backend.string()),
        time_limit_(time_limit),
        question_(for_listing(worker), {"--list-gpus", std::filesystem::absolute(backend).string()}, time_limit) {}

  const Question& question() const { return question_; }

  std::optional<protocol::GpuListing> listing() {
    const std::optional<Answer> answer = question_.answer();
    return answer ? std::optional(read(*answer)) : std::nullopt;
  }

 private:
  /// Numbers GPUs like nvidia-smi. A user who chose visible GPUs may have used another order.
  static Worker for_listing(Worker worker) {
    const auto says = [&](std::string_view name) {
      return std::ranges::any_of(worker.environment,
                                 [name](std::string_view entry) { return entry.substr(0, entry.find('=')) == name; });
    };
    if (!says("CUDA_VISIBLE_DEVICES") && !says("CUDA_DEVICE_ORDER"))
      worker.environment.emplace_back("CUDA_DEVICE_ORDER=PCI_BUS_ID");
    return worker;
  }

  protocol::GpuListing read(const Answer& answer) const {
    const auto refusal = [&](const std::string& why) {
      return CommandError(
          infrastructure,
          fmt::format(
              "cannot list the GPUs of backend {}: {}, asked with --list-gpus, {}{}", backend_, program_, why,
              answer.complaint.empty() ? "" : fmt::format(" (standard error: {})", complaint_of(answer.complaint))));
    };
    if (!answer.end)
      throw refusal(
          fmt::format("did not answer within {}: look at the driver (nvidia-smi)", seconds_text(time_limit_)));
    if (*answer.end != Exit{}) throw refusal(fmt::format("ended with {}", describe(*answer.end)));
    try {
      auto listing = parse_json(answer.text).get<protocol::GpuListing>();
      for (std::string* why : {&listing.why_none, &listing.why_no_records})
        *why = reports::printable(base::beginning_within(std::string_view(*why).substr(0, why->find('\n')), 1000));
      return listing;
    } catch (const std::invalid_argument& error) {
      throw refusal(fmt::format("gave a malformed answer: {}", reports::printable(error.what())));
    } catch (const nlohmann::json::exception&) {
      throw refusal(answer.text.empty()
                        ? std::string("gave an empty answer")
                        : fmt::format("gave an answer that is not JSON: '{}'", first_line_of(answer.text)));
    }
  }

  const std::string program_, backend_;
  const std::chrono::milliseconds time_limit_;
  Question question_;
};

GpuQuestion::GpuQuestion(const Worker& worker, const std::filesystem::path& backend,
                         std::chrono::milliseconds time_limit)
    : impl_(std::make_unique<Impl>(worker, backend, time_limit)) {}
GpuQuestion::~GpuQuestion() = default;
int GpuQuestion::descriptor() const { return impl_->question().descriptor(); }
control::Deadline GpuQuestion::deadline() const { return impl_->question().deadline(); }
std::optional<protocol::GpuListing> GpuQuestion::listing() { return impl_->listing(); }

protocol::GpuListing ask_gpus(const Worker& worker, const std::filesystem::path& backend, SignalWatch& signals,
                              std::chrono::milliseconds time_limit) {
  GpuQuestion question(worker, backend, time_limit);
  return wait_for(question, signals, [&] { return question.listing(); });
}

namespace {

/// Reads the scenarios of an answer, one scenario per line.
std::vector<MadeScenario> read_scenarios(const Worker& worker, const Answer& answer, const std::string& asked_with) {
  const std::string said = answer.complaint.empty() ? "it prints no error" : complaint_of(answer.complaint);
  const auto refusal = [&](const std::string& why) {
    return CommandError(infrastructure, fmt::format("{} cannot make scenarios: asked with {}, {}",
                                                    worker.program.string(), asked_with, why));
  };
  if (answer.end && !answer.end->signalled && answer.end->code == protocol::rank_usage) throw CommandError(usage, said);
  if (!answer.end) throw refusal("it did not answer in time");
  if (*answer.end != Exit{}) throw refusal(fmt::format("it ended with {}: {}", describe(*answer.end), said));
  std::vector<MadeScenario> scenarios;
  std::istringstream lines(answer.text);
  for (std::string line; std::getline(lines, line);) {
    try {
      const nlohmann::ordered_json json = parse_json(line);
      const base::Fields fields(json, "scenario");
      scenarios.push_back({.seed = fields.has("seed") ? fields.integer<std::uint64_t>("seed") : 0,
                           .ranks = fields.integer<int>("ranks"),
                           .document = base::dump_document(fields.object("scenario")) + "\n"});
    } catch (const std::exception& error) {
      throw refusal(fmt::format("its answer is malformed: {}", reports::printable(error.what())));
    }
  }
  return scenarios;
}

}  // namespace

std::vector<MadeScenario> make_scenarios(const Worker& worker, const ScenarioSource& source, std::uint64_t first_seed,
                                         std::uint64_t count, SignalWatch& signals) {
  const std::vector<std::string> arguments{"--make-scenario", fmt::format("{}", first_seed),
                                           "--count",         fmt::format("{}", count),
                                           "--engine",        source.engine,
                                           "--ranks",         fmt::format("{}", fmt::join(source.ranks, ",")),
                                           "--features",      fmt::format("{}", fmt::join(source.features, ",")),
                                           "--without",       fmt::format("{}", fmt::join(source.left_out, ","))};
  std::vector<MadeScenario> made =
      read_scenarios(worker, ask(worker, arguments, signals, worker_time_limit), arguments.front());
  if (made.size() == count) return made;
  throw CommandError(infrastructure,
                     fmt::format("{0} made {2} scenarios instead of {1}", worker.program.string(), count, made.size()));
}

std::vector<MadeScenario> smaller_scenarios(const Worker& worker, const std::filesystem::path& document, int ranks,
                                            SignalWatch& signals) {
  const std::vector<std::string> arguments{"--shrink-scenario", std::filesystem::absolute(document).string(), "--ranks",
                                           fmt::format("{}", ranks)};
  return read_scenarios(worker, ask(worker, arguments, signals, worker_time_limit), arguments.front());
}

int check_scenario(const Worker& worker, const std::filesystem::path& document, std::optional<int> ranks,
                   SignalWatch& signals) {
  std::vector<std::string> arguments{"--check-scenario", std::filesystem::absolute(document).string()};
  if (ranks) arguments.insert(arguments.end(), {"--ranks", fmt::format("{}", *ranks)});
  const Answer answer = ask(worker, arguments, signals, worker_time_limit);
  const std::string said = answer.complaint.empty() ? "it prints no error" : complaint_of(answer.complaint);
  const auto refusal = [&](const std::string& why) {
    return CommandError(infrastructure, fmt::format("{} cannot check whether it can play {}: {}",
                                                    worker.program.string(), document.string(), why));
  };
  if (answer.end && !answer.end->signalled && answer.end->code == protocol::rank_usage) throw CommandError(usage, said);
  if (answer.end != Exit{}) throw refusal(said);
  try {
    const nlohmann::ordered_json json = parse_json(answer.text);
    return base::Fields(json, "answer").integer<int>("ranks");
  } catch (const std::exception& error) {
    throw refusal(fmt::format("its answer is malformed: {}", reports::printable(error.what())));
  }
}

}  // namespace shardproof::launcher
