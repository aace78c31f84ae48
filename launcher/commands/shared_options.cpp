#include "launcher/commands/shared_options.hpp"

#include <fmt/format.h>

#include <limits>

#include "harness/protocol/environment.hpp"
#include "launcher/commands/option_values.hpp"
#include "launcher/launcher.hpp"

namespace shardproof::launcher {

void declare_fault(OptionDeclarations& options, std::string& fault) {
  options.value(
      subject_group, "--fault", fault, "NAME",
      "Break the subject by this fault of the worker. `list --clauses` shows the names. `faults` tries all of them.");
}

void declare_subject(OptionDeclarations& options, std::string& subject) {
  options.value(
      subject_group, "--subject", subject, "NAME",
      "Test this engine: reference, pytorch, the path of a shared object, or an engine of the worker. The default "
      "is the worker's first engine, which is reference for shardproof-worker.");
}

void declare_worker(OptionDeclarations& options, std::filesystem::path& worker, const char* what) {
  options.value(
      subject_group, "--worker", worker, "PROGRAM",
      fmt::format("Take {} this program. The default is shardproof-worker, in the folder of shardproof.", what));
}

void declare_color(OptionDeclarations& options, ColorText& color) {
  options.value(terminal_group, "--color", color.when, "WHEN",
                "Use colours: auto, always or never. The default is auto.");
  options.choices("--color", color_words());
}

void declare_terminal(OptionDeclarations& options, TerminalOptions& terminal, ColorText& color) {
  options.flag(terminal_group, "-q,--quiet", terminal.quiet, "Print failures and the last line only.");
  options.flag(terminal_group, "-v,--verbose", terminal.verbose, "Print every case, with its measurements.");
  options.exclude("--verbose", "--quiet");
  declare_color(options, color);
  options.help(terminal_group);
}

void declare_profile(OptionDeclarations& options, std::string& profile, const char* otherwise) {
  options.value(
      case_group, "--profile", profile, "NAME",
      fmt::format("Take this part of the cases. `list --profiles` shows the names. The default is {}.", otherwise));
}

void declare_demands(OptionDeclarations& options, DemandOptions& demands, DemandTexts& texts) {
  options.value(demand_group, "--max-skips", texts.max_skips, "N", "End with 6 when more than N cases are skipped.");
  options.list(demand_group, "--require", texts.require, "CLAUSE[,CLAUSE...]",
               "End with 6 unless a case passed that checks the clause. Several clauses need a case each.");
  options.value(
      demand_group, "--waivers", demands.waivers, "FILE",
      "Excuse the known failures in this file, which have an owner and a last day (docs/skips-and-waivers.md).");
  options.value(demand_group, "--max-waivers", texts.max_waivers, "N", "End with 6 when more than N cases are waived.");
}

void declare_backend(OptionDeclarations& options, const char* group, std::optional<std::string>& backend,
                     const char* what) {
  options.value(group, "--backend", backend, "FILE", fmt::format("{} The default is the backend of this build.", what));
}

void declare_device(OptionDeclarations& options, PlanOptions& plan, WorldTexts& texts) {
  options.value(
      device_group, "--device", texts.device, "NAME",
      "Run the work on this device: sim, which has exact virtual time, or cuda, with one GPU for each rank. The "
      "default is sim.");
  options.choices("--device", {protocol::sim_device, protocol::cuda_device});
  declare_backend(options, device_group, texts.backend, "With --device cuda: reach CUDA by this shared object.");
  options.value(device_group, "--gpus", texts.gpus, "LIST",
                "With --device cuda: use this number of GPUs (4), or these GPUs (0,2 or their uuids). The default is "
                "the GPUs that CTest reserves for its test, else all GPUs.");
  options.flag(
      device_group, "--share-gpus", plan.share_gpus,
      "With --device cuda: put several ranks on one GPU where there are too few GPUs. Times then mean nothing.");
  options.value(device_group, "--times", texts.times, "NAME",
                "With --device cuda: take times from CUDA events around the work (events, the default), or from CUPTI "
                "(cupti), which is slower and more exact.");
  options.choices("--times", {protocol::event_times, protocol::cupti_times});
}

void declare_out(OptionDeclarations& options, OutputOptions& out, const std::string& text) {
  options.value(file_group, "--out", out.directory, "DIRECTORY", text);
  options.flag(file_group, "--overwrite", out.overwrite,
               "Replace an earlier run in that directory. Any file that shardproof did not write prevents this.");
  options.need("--overwrite", "--out");
}

void declare_ranks(OptionDeclarations& options, WorldTexts& texts, const char* verb) {
  options.list(case_group, "--ranks", texts.ranks, "N[,N...]",
               fmt::format("{} cases of these world sizes, for example 2,4. The default is all sizes; cases that "
                           "are marked \"on request\" run only with it.",
                           verb));
}

void declare_timeout(OptionDeclarations& options, WorldTexts& texts, const char* what, const char* otherwise) {
  options.value(
      course_group, "--timeout", texts.timeout, "SECONDS",
      fmt::format("Give {} this much time. The default is {} 60, and more where ranks share cores.", what, otherwise));
}

void declare_plan(OptionDeclarations& options, PlanOptions& plan, WorldTexts& texts) {
  declare_ranks(options, texts, "Run");
  declare_subject(options, plan.subject);
  declare_device(options, plan, texts);
  options.value(
      device_group, "--fabric", texts.fabric, "NAME",
      "Move bytes between ranks by shm (shared memory), thread (ranks are threads of one process), tcp (messages over "
      "TCP), mpi (with --launcher: messages of the MPI library that starts the ranks), or nccl (with --device cuda). "
      "tcp, mpi and nccl also reach other hosts. The default is thread for cases that need it, else shm or nccl.");
  options.choices("--fabric", {protocol::shm_fabric, protocol::thread_fabric, protocol::tcp_fabric,
                               protocol::mpi_fabric, protocol::nccl_fabric});
  options.value(
      device_group, "--scheduler", texts.scheduler, "NAME",
      "Schedule ranks that are threads: seeded, the default, runs one rank at a time, in an order that --seed "
      "draws. free runs all at once.");
  options.choices("--scheduler", scheduler_words());
  declare_timeout(options, texts, "each case", "the case's own time, else");
}

std::filesystem::path convert_backend(const std::optional<std::string>& backend) {
  if (backend && backend->empty())
    throw CommandError(usage, "--backend '': the shared object that reaches CUDA, a file");
  return backend.value_or("");
}

std::string convert_world(const WorldTexts& texts, PlanOptions& plan) {
  plan.device = texts.device.value_or(protocol::sim_device);
  plan.backend = convert_backend(texts.backend);
  plan.ranks = world_sizes(texts.ranks);
  if (texts.timeout) plan.timeout = timeout(*texts.timeout);
  if (texts.gpus) {
    plan.gpus = gpu_choice(*texts.gpus);
  } else if (plan.device == protocol::cuda_device) {
    plan.gpus = gpus_of_ctest(protocol::own_variable).value_or(GpuChoice());
  }
  plan.times = texts.times.value_or(protocol::event_times);
  plan.fabric =
      texts.fabric.value_or(plan.device == protocol::cuda_device ? protocol::nccl_fabric : protocol::shm_fabric);
  plan.processes_only = texts.fabric && *texts.fabric != protocol::thread_fabric;
  if (plan.device == protocol::cuda_device) return {};
  const std::string given = !plan.backend.empty() ? fmt::format("--backend {}", plan.backend.string())
                            : texts.gpus          ? fmt::format("--gpus {}", *texts.gpus)
                            : plan.share_gpus     ? "--share-gpus"
                            : texts.times         ? fmt::format("--times {}", *texts.times)
                                                  : "";
  return given.empty() ? "" : fmt::format("{}: only with --device {}", given, protocol::cuda_device);
}

void require_placement(const std::string& mistake) {
  if (!mistake.empty()) throw CommandError(usage, mistake);
}

std::string convert_plan(const Arguments& arguments, const WorldTexts& texts, PlanOptions& plan) {
  plan.filters = arguments.words;
  const std::string placement_error = convert_world(texts, plan);
  if (!placement_error.empty() || !texts.scheduler) return placement_error;
  plan.scheduler = scheduler(*texts.scheduler);
  const bool may_have_threads =
      plan.fabric == protocol::thread_fabric || (!texts.fabric && plan.device == protocol::sim_device);
  if (may_have_threads) return {};
  return fmt::format("--scheduler {}: ranks are scheduled with --fabric {} only", *texts.scheduler,
                     protocol::thread_fabric);
}

void convert_demands(const DemandTexts& texts, DemandOptions& demands) {
  const auto most = [](const char* option, const std::optional<std::string>& text) -> std::optional<std::size_t> {
    if (!text) return std::nullopt;
    return whole_number(option, *text, 0, std::numeric_limits<std::size_t>::max());
  };
  demands.max_skips = most("--max-skips", texts.max_skips);
  demands.max_waivers = most("--max-waivers", texts.max_waivers);
  demands.require = listed("--require", texts.require);
}

ColorWhen convert_color(const ColorText& color) { return color_when(color.when); }

}  // namespace shardproof::launcher
