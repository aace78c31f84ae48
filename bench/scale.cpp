// Prints the tables of docs/scale.md: what a world costs as its number of ranks grows, by the model and by measurements
// of the same run.
#include <sys/resource.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/measure.hpp"
#include "bench/rank_streams.hpp"
#include "bench/scale/fit.hpp"
#include "bench/scale/formulas.hpp"
#include "bench/scale/linked_hosts.hpp"
#include "bench/scale/real_world.hpp"
#include "bench/scale/simulated_hosts.hpp"
#include "bench/scale/simulated_join.hpp"
#include "bench/worlds.hpp"
#include "harness/control/page_layout.hpp"
#include "harness/fabric/shm/shm_fabric.hpp"

namespace shardproof::bench {
namespace {

constexpr int beyond[] = {2048, 16'384};

std::string in_bytes(double bytes) {
  constexpr std::array units{"B", "KB", "MB", "GB"};
  std::size_t unit = 0;
  for (; bytes >= 1000 && unit + 1 < units.size(); ++unit) bytes /= 1000;
  return fmt::format("{:.3g} {}", bytes, units[unit]);
}

std::string in_count(double count) { return fmt::format("{}", std::llround(count)); }
std::string in_times(double ratio) {
  return ratio < 1000 ? fmt::format("{:.3g} ×", ratio) : fmt::format("{:.0f} ×", ratio);
}

using Text = std::function<std::string(double)>;

/// A number of the model, and the measured one: `model = measured`, or `model / measured`.
std::string cell(const Text& text, double model, std::optional<double> measured, std::string_view how = "measured") {
  if (!measured) return text(model);
  if (model == *measured) return fmt::format("{} = {}", text(model), how);
  return fmt::format("{} / {}", text(model), text(*measured));
}

void print_line(const std::string& what, const std::vector<std::string>& cells) {
  fmt::print("| {} | {} |\n", what, fmt::join(cells, " | "));
  std::fflush(stdout);
}

void print_head(const std::string& what, const std::vector<std::string>& columns) {
  fmt::print("\n");
  print_line(what, columns);
  print_line("---", std::vector<std::string>(columns.size(), "---"));
}

// -- One host ---------------------------------------------------------------------------------------------------------

void one_host(Bench& bench) {
  constexpr int measured_sizes[] = {8, 64, 256};
  constexpr std::uint64_t cases = 10;
  std::map<int, RealWorld> real;
  std::map<int, std::vector<std::string>> ids;
  for (const int ranks : measured_sizes) {
    for (const protocol::CaseInfo& info : bench.asked_worker().listing.cases) {
      if (info.id.starts_with("bench/scale[") && info.world_size == ranks) ids[ranks].push_back(info.id);
    }
    for (int round = 0; round < 3; ++round) {
      const RealWorld world = run_real_world(bench.asked_worker(), programs() / "libbench_count_calls.so", ranks,
                                             ids[ranks], bench.fresh());
      if (round == 0 || world.ms < real[ranks].ms) real[ranks] = world;
    }
  }

  print_head("a world of 10 cases on one host", {"8", "64", "256", "1024", "2048 *", "16 384 *"});
  const auto row = [&](const std::string& what, const Text& text, const std::function<double(int)>& model,
                       const std::function<double(const RealWorld&)>& measured) {
    std::vector<std::string> cells;
    for (const int ranks : measured_sizes) cells.push_back(cell(text, model(ranks), measured(real[ranks])));
    for (const int ranks : {1024, beyond[0], beyond[1]}) cells.push_back(text(model(ranks)));
    print_line(what, cells);
  };
  const auto number = [](std::uint64_t count) { return static_cast<double>(count); };
  row(
      "metadata calls to the file store", in_count, [&](int ranks) { return number(simulate_join(ranks).metadata()); },
      [&](const RealWorld& world) { return number(world.store.metadata()); });
  row(
      "metadata calls of ranks to the run's directory", in_count, [](int ranks) { return 2.0 * ranks; },
      [&](const RealWorld& world) { return number(world.run.metadata()); });
  row(
      "files in the world's directory", in_count, [&](int ranks) { return number(files_of_world(ranks)); },
      [&](const RealWorld& world) { return number(world.files); });
  row(
      "bytes of all rank streams", in_bytes,
      [&](int ranks) {
        const std::vector<std::string>& like = ids.at(256);
        return number(stream_bytes(ranks - 1, ranks, like)) * ranks;
      },
      [&](const RealWorld& world) { return number(world.stream_bytes); });
  row(
      "agreements", in_count, [&](int) { return number(agreements_of(cases)); },
      [&](const RealWorld& world) { return number(world.agreements); });
  row(
      "control page", in_bytes, [&](int ranks) { return number(control::page::Layout(ranks).bytes); },
      [&](const RealWorld& world) { return number(world.page_bytes); });
  row(
      "shared memory of collectives", in_bytes, [&](int ranks) { return number(fabric::shm_world_bytes(ranks)); },
      [&](const RealWorld& world) { return number(world.region_bytes); });
  row(
      "descriptors of the launcher", in_count, [&](int ranks) { return number(launcher_descriptors(ranks)); },
      [&](const RealWorld& world) { return number(world.descriptors); });
  row(
      "time, relative to 8 ranks", in_times, [](int ranks) { return ranks / 8.0; },
      [&](const RealWorld& world) { return world.ms / real[8].ms; });
}

// -- Many hosts -------------------------------------------------------------------------------------------------------

struct Step {
  std::string name;
  Traffic (SimulatedHosts::*run)();
};

using Steps = std::vector<Traffic>;

const std::vector<Step> steps{
    {"join", &SimulatedHosts::join},         {"one agreement", &SimulatedHosts::agree},
    {"one case", &SimulatedHosts::run_case}, {"find a deadlock", &SimulatedHosts::find_deadlock},
    {"end in order", &SimulatedHosts::end},  {"end early", &SimulatedHosts::doom}};

Steps simulate(int hosts, int ranks_of_each) {
  Steps all;
  auto world = std::make_unique<SimulatedHosts>(hosts, ranks_of_each);
  for (const Step& step : steps) {
    if (step.run == &SimulatedHosts::doom) {  // the world has ended
      world.reset();
      world = std::make_unique<SimulatedHosts>(hosts, ranks_of_each);
      world->join();
    }
    all.push_back(((*world).*step.run)());
  }
  return all;
}

std::uint64_t messages(const Traffic& traffic) { return traffic.to_hub + traffic.from_hub; }
std::uint64_t bytes(const Traffic& traffic) { return traffic.bytes_to_hub + traffic.bytes_from_hub; }

void many_hosts() {
  constexpr int ranks_of_each = 8;
  constexpr int executed[] = {8, 32, 128};
  std::map<int, Steps> simulated;
  for (const int hosts : executed) simulated[hosts] = simulate(hosts, ranks_of_each);
  constexpr std::array<std::pair<int, int>, Fit::terms> fitted{{{2, 1}, {4, 2}, {3, 8}, {8, 4}, {16, 8}}};
  std::array<Steps, Fit::terms> samples;
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = simulate(fitted[i].first, fitted[i].second);
  const auto fit = [&](std::size_t step, const auto& count) {
    std::array<Fit::Sample, Fit::terms> points;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const auto& [hosts, ranks] = fitted[i];
      points[i] = {.hosts = hosts, .ranks = hosts * ranks, .count = count(samples[i][step])};
    }
    return Fit(points);
  };

  print_head("messages and bytes at the hub, 8 ranks on each host",
             {"64 ranks, 8 hosts", "256 ranks, 32 hosts", "1024 ranks, 128 hosts", "2048 ranks, 256 hosts *",
              "16 384 ranks, 2048 hosts *"});
  for (std::size_t step = 0; step < steps.size(); ++step) {
    const Fit count = fit(step, messages), size = fit(step, bytes);
    std::vector<std::string> counts, sizes;
    for (const int hosts : executed) {
      const int ranks = hosts * ranks_of_each;
      const Traffic& traffic = simulated[hosts][step];
      counts.push_back(cell(in_count, static_cast<double>(count.at(hosts, ranks)),
                            static_cast<double>(messages(traffic)), "simulated"));
      sizes.push_back(
          cell(in_bytes, static_cast<double>(size.at(hosts, ranks)), static_cast<double>(bytes(traffic)), "simulated"));
      sizes.back() += fmt::format(", {}", in_times(traffic.hub_ms / simulated[executed[0]][1].hub_ms));
    }
    for (const int ranks : beyond) {
      counts.push_back(in_count(static_cast<double>(count.at(ranks / ranks_of_each, ranks))));
      sizes.push_back(in_bytes(static_cast<double>(size.at(ranks / ranks_of_each, ranks))));
    }
    print_line(steps[step].name + ": messages", counts);
    print_line(steps[step].name + ": bytes, hub's time", sizes);
  }

  std::vector<std::string> cells;
  for (const int hosts : {8, 32}) {
    cells.push_back(cell(in_bytes, static_cast<double>(bytes(simulated[hosts][1])),
                         static_cast<double>(bytes_of_real_agreement(hosts, ranks_of_each))));
  }
  cells.insert(cells.end(), {"", "", ""});
  print_line("one agreement over sockets of this machine: bytes", cells);
}

// -- Merge ------------------------------------------------------------------------------------------------------------

struct Merge {
  double stream_bytes = 0, report_bytes = 0, peak_bytes = 0, ms = 0;
};

Merge merge(Bench& bench, int ranks, int cases) {
  const protocol::RunDirectory run{bench.fresh()};
  write_run(run, ranks, cases);
  Merge merged;
  for (int round = 0; round < 3; ++round) {
    const double ms = bench.spawn_ms(programs() / "shardproof", {"merge", run.root.string()}, 1);
    merged.ms = round == 0 ? ms : std::min(ms, merged.ms);
  }
  for (int rank = 0; rank < ranks; ++rank)
    merged.stream_bytes += static_cast<double>(std::filesystem::file_size(run.world(0).rank_stream(rank)));
  merged.report_bytes = static_cast<double>(std::filesystem::file_size(run.report()));
  rusage children{};
  ::getrusage(RUSAGE_CHILDREN, &children);
  merged.peak_bytes = static_cast<double>(children.ru_maxrss) * 1024;
  std::filesystem::remove_all(run.root);
  return merged;
}

void merges(Bench& bench) {
  constexpr int cases = 300;
  // In this order, because the peak is of all processes together.
  const Merge small = merge(bench, 64, cases), middle = merge(bench, 256, cases), large = merge(bench, 1024, cases);
  print_head(fmt::format("merge of {} cases", cases), {"64", "256", "1024", "2048 *", "16 384 *"});
  const auto row = [&](const std::string& what, const Text& text, const auto& part) {
    const double slope = (part(middle) - part(small)) / (256 - 64);
    const auto model = [&](int ranks) { return part(small) + slope * (ranks - 64); };
    print_line(what, {text(part(small)), text(part(middle)), cell(text, model(1024), part(large)),
                      text(model(beyond[0])), text(model(beyond[1]))});
  };
  row("rank streams", in_bytes, [](const Merge& merged) { return merged.stream_bytes; });
  row("`report.json`", in_bytes, [](const Merge& merged) { return merged.report_bytes; });
  row("peak memory of `merge`", in_bytes, [](const Merge& merged) { return merged.peak_bytes; });
  row("time, relative to 64 ranks", in_times, [&](const Merge& merged) { return merged.ms / small.ms; });
}

}  // namespace
}  // namespace shardproof::bench

int main() {
  shardproof::bench::Bench bench;
  shardproof::bench::merges(bench);
  shardproof::bench::one_host(bench);
  shardproof::bench::many_hosts();
}
