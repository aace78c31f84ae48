// The fuzz targets as an ordinary test, for compilers without libFuzzer: every input of the corpus, and random changes
// of them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/targets.hpp"

namespace {

using shardproof::fuzz::Target;

/// Sorted, so that a seed means the same everywhere.
std::vector<std::string> corpus_of(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<std::string> inputs;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return inputs;
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::string mutated(const std::vector<std::string>& corpus) {
    auto input = corpus[below(corpus.size())];
    for (auto changes = 1 + below(4); changes > 0; --changes) change(input, corpus);
    return input;
  }

 private:
  void change(std::string& input, const std::vector<std::string>& corpus) {
    static const std::vector<std::string> words{"null",
                                                "true",
                                                "{}",
                                                "[]",
                                                "\"\"",
                                                "-1",
                                                "1e999",
                                                "18446744073709551616",
                                                "0.5",
                                                ",",
                                                "\n",
                                                "\\ud800",
                                                "\xff",
                                                std::string(1, '\0'),
                                                "\"event\":",
                                                "rank_started",
                                                "case_ended",
                                                "passed",
                                                "*",
                                                "?",
                                                "[",
                                                "]",
                                                "schema_version",
                                                "cases"};
    const auto at = below(input.size() + 1);
    const auto length = below(std::min<std::size_t>(input.size() - at, 40) + 1);
    switch (below(5)) {
      case 0: input.erase(at, length); break;
      case 1: input.insert(at, words[below(words.size())]); break;
      case 2: input.insert(at, input.substr(at, length)); break;
      case 3:
        if (at < input.size()) input[at] = static_cast<char>(below(256));
        break;
      default: {
        const auto& other = corpus[below(corpus.size())];
        input = input.substr(0, at) + other.substr(below(other.size() + 1));
      }
    }
  }

  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }

  std::mt19937_64 random_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    std::fprintf(stderr, "usage: fuzz_replay CORPUS MUTATIONS-PER-TARGET [SEED]\n");
    return 2;
  }
  const auto mutations = std::strtoull(argv[2], nullptr, 10);
  const std::uint64_t seed = argc == 4 ? std::strtoull(argv[3], nullptr, 10) : std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);  // a broken property aborts
  for (const Target& target : shardproof::fuzz::targets) {
    const auto corpus = corpus_of(std::filesystem::path(argv[1]) / target.name);
    if (corpus.empty()) {
      std::fprintf(stderr, "no corpus for %s\n", std::string(target.name).c_str());
      return 1;
    }
    for (const auto& input : corpus) target.run(input);
    target.run({});
    Mutator mutator(seed);
    for (auto i = mutations; i > 0; --i) target.run(mutator.mutated(corpus));
    std::printf("%s: %zu inputs, %llu changes of them\n", std::string(target.name).c_str(), corpus.size(), mutations);
  }
  return 0;
}
