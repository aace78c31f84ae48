#include "launcher/explore/shrinking.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "harness/rendezvous/rendezvous_directory.hpp"
#include "launcher/files/output.hpp"

namespace shardproof::launcher {

Shrunk shrink(const Worker& worker, MadeScenario from, const Shows& shows, SignalWatch& signals,
              const std::function<void(const Shrunk&)>& progress) {
  Shrunk found{.scenario = std::move(from)};
  // A variant that did not help seldom helps in the next round. So each round begins after the variant that helped. The
  // search ends after a whole round without success.
  std::size_t begin = 0;
  try {
    for (;;) {
      const rendezvous::RendezvousDirectory scratch = rendezvous::RendezvousDirectory::make(1);
      const std::filesystem::path document = scratch.path() / "candidate.json";
      write_file(document, found.scenario.document);
      std::vector<MadeScenario> variants = smaller_scenarios(worker, document, found.scenario.ranks, signals);
      begin = variants.empty() ? 0 : begin % variants.size();
      std::ranges::rotate(variants, variants.begin() + static_cast<std::ptrdiff_t>(begin));
      bool is_smaller = false;
      // Few at first, while most variants show it; all that are left when the scenario is nearly the smallest.
      for (std::size_t first = 0, most = 2; first < variants.size() && !is_smaller; first += most, most *= 2) {
        const std::size_t count = std::min(most, variants.size() - first);
        progress(found);
        const std::vector<bool> shown = shows(std::span(variants).subspan(first, count));
        found.plays += count;
        const auto next = std::ranges::find(shown, true);
        if (next == shown.end()) continue;
        is_smaller = true;
        ++found.steps;
        const std::size_t place = first + static_cast<std::size_t>(next - shown.begin());
        begin += place;
        found.scenario = std::move(variants[place]);
      }
      if (is_smaller) continue;
      // A failure that shows only now and then can hardly be made smaller.
      found.is_steady = shows({&found.scenario, 1}).front();
      return found;
    }
  } catch (const CommandError& error) {
    found.ended_by = error;
    found.is_smallest = false;
    return found;
  }
}

}  // namespace shardproof::launcher
