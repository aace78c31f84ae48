#include "harness/cases/bound_case.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "harness/cases/ranked_test_case.hpp"
#include "harness/control/control_plane.hpp"
#include "harness/protocol/world_plan.hpp"

namespace shardproof::cases {

namespace {

constexpr char engine_key[] = "engine";

template <class Declaration>
std::string place(const Declaration& declaration) {
  return fmt::format("{}:{}", declaration.file, declaration.line);
}

std::string suite_of(const CaseDeclaration& declaration) {
  return declaration.name.substr(0, declaration.name.find('/'));
}

/// The kinds of engines of suites, by suite. Appends the mistakes in declarations to `problems`.
std::map<std::string, std::string> engines_of(std::span<const SuiteEngine> declared,
                                              std::span<const CaseDeclaration> cases,
                                              std::vector<std::string>& problems) {
  std::map<std::string, std::string> engines;
  for (const SuiteEngine& declaration : declared) {
    if (declaration.suite.empty() || declaration.engine.empty()) {
      problems.push_back(
          fmt::format("{}: SUITE_ENGINE(\"{}\", \"{}\") needs the names of a suite and of an engine kind",
                      place(declaration), declaration.suite, declaration.engine));
      continue;
    }
    // A misspelt suite would leave its cases without a kind.
    if (std::ranges::find(cases, declaration.suite, suite_of) == cases.end())
      problems.push_back(fmt::format("{}: SUITE_ENGINE names suite \"{}\", which has no cases", place(declaration),
                                     declaration.suite));
    const auto [first, is_new] = engines.emplace(declaration.suite, declaration.engine);
    if (!is_new)
      problems.push_back(
          fmt::format("{}: suite \"{}\" has an engine kind already, \"{}\": declare one kind in one file of the suite",
                      place(declaration), declaration.suite, first->second));
  }
  return engines;
}

/// By kind of engine. Appends the mistakes in declarations to `problems`.
std::map<std::string, const EngineClauses*> by_engine(std::span<const EngineClauses> declared,
                                                      std::vector<std::string>& problems) {
  std::map<std::string, const EngineClauses*> clauses;
  for (const EngineClauses& declaration : declared) {
    if (declaration.engine.empty() || declaration.equal_collectives.empty() || declaration.freed_memory.empty())
      problems.push_back(
          fmt::format("{}: ENGINE_CLAUSES needs an engine kind, and the clauses equal_collectives and freed_memory",
                      place(declaration)));
    const auto [first, is_new] = clauses.emplace(declaration.engine, &declaration);
    if (!is_new)
      problems.push_back(fmt::format("{}: engine kind \"{}\" has ENGINE_CLAUSES already, at {}", place(declaration),
                                     declaration.engine, place(*first->second)));
  }
  return clauses;
}

// All world sizes that the case can be played in. The sizes of every run come first, then the sizes on request.
std::vector<int> sizes_of(const CaseDeclaration& declaration) {
  std::vector<int> sizes = declaration.ranks;
  sizes.insert(sizes.end(), declaration.more_ranks.begin(), declaration.more_ranks.end());
  return sizes;
}

// The first mistake in a declaration, whatever its parameters are bound to. Empty: none.
std::string problem_of(const CaseDeclaration& declaration, bool suite_has_engine) {
  const auto slash = declaration.name.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == declaration.name.size()) {
    return fmt::format("a case is named suite/name; \"{}\" is not", declaration.name);
  }
  if (declaration.ranks.empty()) return fmt::format("case \"{}\" has ranks() without a world size", declaration.name);
  for (const int size : sizes_of(declaration)) {
    if (size < 1 || size > control::ControlPlane::max_world_size) {
      return fmt::format("case \"{}\" asks for {} ranks; a world has 1 to {}", declaration.name, size,
                         control::ControlPlane::max_world_size);
    }
    if (declaration.on_threads && size > protocol::max_threads)
      return fmt::format("case \"{}\" asks for {} ranks on_threads(); one process has {} at most", declaration.name,
                         size, protocol::max_threads);
    if (declaration.hosts > size)
      return fmt::format("case \"{}\" asks for {} hosts in a world of {}, and each host has a rank", declaration.name,
                         declaration.hosts, size);
  }
  if (declaration.hosts < 1) return fmt::format("case \"{}\" asks for {} hosts", declaration.name, declaration.hosts);
  if (declaration.hosts > 1 && declaration.on_threads)
    return fmt::format("case \"{}\" asks for {} hosts and on_threads(); one process is on one host", declaration.name,
                       declaration.hosts);
  for (const int size : declaration.more_ranks) {
    if (std::ranges::find(declaration.ranks, size) != declaration.ranks.end())
      return fmt::format("case \"{}\" has {} in both ranks() and more_ranks()", declaration.name, size);
  }
  if (declaration.timeout.count() < 0) return fmt::format("case \"{}\" has a negative timeout()", declaration.name);
  if (declaration.engines && declaration.engines->empty())
    return fmt::format("case \"{}\" has on_engines() without an engine kind", declaration.name);
  if (declaration.engines) {
    std::set<std::string> kinds;
    for (const std::string& kind : *declaration.engines) {
      if (kind.empty())
        return fmt::format("case \"{}\" has an engine kind without a name in on_engines()", declaration.name);
      if (!kinds.insert(kind).second)
        return fmt::format("case \"{}\" has \"{}\" twice in on_engines()", declaration.name, kind);
    }
  }
  std::set<std::string> keys{"W"};
  for (const auto& [key, values] : declaration.params) {
    if (key == engine_key && (declaration.engines || suite_has_engine))
      return fmt::format(
          "case \"{}\" has a parameter \"{}\": where a case has an engine kind, only on_engines() gives its id this "
          "key",
          declaration.name, key);
    if (!keys.insert(key).second) {
      return fmt::format("case \"{}\" has two parameters \"{}\"{}", declaration.name, key,
                         key == "W" ? " (W is the world size)" : "");
    }
    if (values.empty()) return fmt::format("case \"{}\": parameter \"{}\" has no values", declaration.name, key);
  }
  for (const ConditionalNeeds& needs : declaration.conditional_needs) {
    const bool has_value = std::ranges::any_of(declaration.params, [&](const auto& param) {
      return param.first == needs.key && std::ranges::find(param.second, needs.value) != param.second.end();
    });
    if (!has_value)
      return fmt::format("case \"{}\" has needs_if() for {}={}, but no parameter with this value", declaration.name,
                         needs.key, needs.value);
  }
  return {};
}

// The values of each parameter. Without a value, a case does not have the parameter.
std::vector<std::vector<std::optional<std::string>>> choices_of(const CaseDeclaration& declaration) {
  std::vector<std::vector<std::optional<std::string>>> choices;
  for (const auto& [key, values] : declaration.params) {
    choices.emplace_back(values.begin(), values.end());
    if (std::ranges::find(declaration.optional_params, key) != declaration.optional_params.end())
      choices.back().insert(choices.back().begin(), std::nullopt);
  }
  return choices;
}

// Calls `visit` with every combination of parameter values, the last parameter fastest.
template <class F>
void for_each_combination(const CaseDeclaration& declaration, F visit) {
  const std::vector<std::vector<std::optional<std::string>>> choices = choices_of(declaration);
  std::vector<std::size_t> at(choices.size(), 0);
  while (true) {
    std::map<std::string, std::string> params;
    for (std::size_t i = 0; i < at.size(); ++i) {
      if (const auto& value = choices[i][at[i]]) params[declaration.params[i].first] = *value;
    }
    visit(std::move(params));
    std::size_t i = at.size();
    while (i > 0 && ++at[i - 1] == choices[i - 1].size()) at[--i] = 0;
    if (i == 0) return;
  }
}

// An upper bound on the number of cases. A program without mistakes declares exactly this number.
std::size_t count_of(std::span<const CaseDeclaration> declarations) {
  std::size_t count = 0;
  for (const CaseDeclaration& declaration : declarations) {
    std::size_t combinations = declaration.ranks.size() + declaration.more_ranks.size();
    if (declaration.engines) combinations *= declaration.engines->size();
    for (const auto& values : choices_of(declaration)) combinations *= values.size();
    count += combinations;
  }
  return count;
}

/// A declaration becomes a case for each of these: a world size and a kind of engine.
struct Setting {
  int size = 1;
  bool on_request = false;
  std::string engine;
  std::string suite_engine;
};

std::vector<Setting> settings_of(const CaseDeclaration& declaration,
                                 const std::map<std::string, std::string>& suite_engines) {
  const auto suite = suite_engines.find(suite_of(declaration));
  const std::string suite_engine = suite == suite_engines.end() ? std::string() : suite->second;
  const std::vector<std::string> engines = declaration.engines.value_or(std::vector{suite_engine});
  const std::vector<int> sizes = sizes_of(declaration);
  std::vector<Setting> settings;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    for (const std::string& engine : engines)
      settings.push_back({.size = sizes[i],
                          .on_request = i >= declaration.ranks.size(),
                          .engine = engine,
                          .suite_engine = suite_engine});
  }
  return settings;
}

protocol::CaseInfo info_of(const CaseDeclaration& declaration, const Setting& in,
                           std::map<std::string, std::string> params) {
  params["W"] = std::to_string(in.size);
  if (in.engine != in.suite_engine) params[engine_key] = in.engine;
  protocol::CaseInfo info;
  info.id = protocol::case_id(declaration.name, params);
  info.suite = suite_of(declaration);
  info.world_size = in.size;
  info.engine = in.engine;
  info.clauses = declaration.clauses;
  info.tags = declaration.tags;
  const auto add_needs = [&](const std::vector<Feature>& features) {
    for (const Feature& feature : features) {
      if (std::ranges::find(info.needs, feature.name()) == info.needs.end()) info.needs.emplace_back(feature.name());
    }
  };
  add_needs(declaration.needs);
  for (const ConditionalNeeds& needs : declaration.conditional_needs) {
    if (const auto param = params.find(needs.key); param != params.end() && param->second == needs.value)
      add_needs(needs.features);
  }
  info.params = std::move(params);
  info.timeout_ms = declaration.timeout.count();
  info.on_request = in.on_request;
  info.on_threads = declaration.on_threads;
  info.hosts = declaration.hosts;
  info.drawn_by = declaration.drawn_by;
  info.file = declaration.file;
  info.line = declaration.line;
  return info;
}

// The seed tests that a case with these parameters descends from.
std::vector<std::string> seeds_of(const CaseDeclaration& declaration,
                                  const std::map<std::string, std::string>& params) {
  std::vector<std::string> seeds;
  for (const SeedTest& seed : declaration.seeds) {
    const auto has = [&](const auto& param) {
      const auto mine = params.find(param.first);
      return mine != params.end() && std::ranges::find(param.second, mine->second) != param.second.end();
    };
    if (!std::ranges::all_of(seed.params, has) || !std::ranges::all_of(seed.where, has)) continue;
    std::string bindings;
    for (const auto& [key, values] : seed.params)
      bindings += fmt::format("{}{}={}", bindings.empty() ? "" : ",", key, params.at(key));
    seeds.push_back(bindings.empty() ? seed.test : fmt::format("{}[{}]", seed.test, bindings));
  }
  return seeds;
}

}  // namespace

BoundCases bind_cases(std::span<const CaseDeclaration> declarations, std::span<const SuiteEngine> suite_engines,
                      std::span<const EngineClauses> engine_clauses) {
  BoundCases bound;
  const std::map<std::string, std::string> engines = engines_of(suite_engines, declarations, bound.problems);
  const std::map<std::string, const EngineClauses*> clauses = by_engine(engine_clauses, bound.problems);
  const std::size_t count = count_of(declarations);
  // Every rank binds the cases at its start, so avoid reallocations. The views of the ids below must stay valid, too.
  bound.cases.reserve(count);
  std::unordered_map<std::string_view, const CaseDeclaration*> owners(count);
  for (const CaseDeclaration& declaration : declarations) {
    if (std::string problem = problem_of(declaration, engines.contains(suite_of(declaration))); !problem.empty()) {
      bound.problems.push_back(fmt::format("{}: {}", place(declaration), problem));
      continue;
    }
    try {
      for (const Setting& in : settings_of(declaration, engines)) {
        const auto found = clauses.find(in.engine);
        const EngineClauses* const of_engine = found == clauses.end() ? nullptr : found->second;
        for_each_combination(declaration, [&](std::map<std::string, std::string> params) {
          std::vector<std::string> seeds = seeds_of(declaration, params);
          const BoundCase& made = bound.cases.emplace_back(info_of(declaration, in, std::move(params)),
                                                           declaration.body, std::move(seeds), of_engine);
          const auto [owner, is_new] = owners.emplace(made.info.id, &declaration);
          if (is_new) return;
          bound.problems.push_back(fmt::format("{}: case {} exists already, declared at {}", place(declaration),
                                               made.info.id, place(*owner->second)));
          bound.cases.pop_back();
        });
      }
    } catch (const std::invalid_argument& error) {
      bound.problems.push_back(fmt::format("{}: {}", place(declaration), error.what()));
    }
  }
  return bound;
}

std::vector<std::string> clauses_outside_scopes(const BoundCase& bound) {
  const std::vector<std::string>& cited = bound.info.clauses;
  if (bound.engine_clauses == nullptr) return cited;
  const std::vector<std::string>& in_scopes = bound.engine_clauses->in_scopes;
  std::vector<std::string> others;
  std::ranges::copy_if(cited, std::back_inserter(others), [&](const std::string& clause) {
    return std::ranges::find(in_scopes, clause) == in_scopes.end();
  });
  return others.empty() ? cited : others;
}

std::vector<std::string> problems_of_needs(std::span<const BoundCase> cases, std::span<const SuiteEngine> suite_engines,
                                           std::span<const KnownKind> kinds) {
  std::vector<std::string> problems;
  const auto say = [&](std::string problem) {  // once for all cases of a declaration
    if (std::ranges::find(problems, problem) == problems.end()) problems.push_back(std::move(problem));
  };
  const auto find_kind = [&](std::string_view name) { return std::ranges::find(kinds, name, &KnownKind::name); };
  const auto lacks = [](const KnownKind& kind, std::string_view feature) {
    return std::ranges::find(kind.features, feature) == kind.features.end();
  };
  const auto unknown = [&](std::string_view kind) {
    std::vector<std::string_view> names;
    std::ranges::transform(kinds, std::back_inserter(names), &KnownKind::name);
    return fmt::format("engine kind \"{}\", which this program does not know; it knows: {}", kind,
                       fmt::join(names, ", "));
  };
  for (const SuiteEngine& suite : suite_engines) {
    if (!suite.engine.empty() && find_kind(suite.engine) == kinds.end())
      say(fmt::format("{}: SUITE_ENGINE gives suite \"{}\" the {}", place(suite), suite.suite, unknown(suite.engine)));
  }
  for (const auto& [info, body, seeds, engine_clauses] : cases) {
    const auto complain_of = [&](std::string_view what) {
      say(fmt::format("{}: case \"{}\" {}", place(info), info.id.substr(0, info.id.find('[')), what));
    };
    if (info.engine.empty()) {
      const auto has_all = [&](const KnownKind& kind) {
        return std::ranges::none_of(info.needs, [&](const std::string& feature) { return lacks(kind, feature); });
      };
      if (std::ranges::none_of(kinds, has_all))
        complain_of(fmt::format("needs {}: no engine kind has all these features", fmt::join(info.needs, ", ")));
      continue;
    }
    const auto kind = find_kind(info.engine);
    if (kind == kinds.end()) {
      if (info.params.contains(engine_key)) complain_of("names the " + unknown(info.engine));  // else its suite does
      continue;
    }
    for (const std::string& feature : info.needs) {
      if (lacks(*kind, feature))
        complain_of(fmt::format("needs {}, which no engine of the kind {} can have; features of this kind are: {}",
                                feature, kind->name, fmt::join(kind->features, ", ")));
    }
  }
  return problems;
}

std::vector<protocol::SeedInfo> seeds_of(std::span<const BoundCase> cases) {
  std::vector<protocol::SeedInfo> seeds;
  for (const BoundCase& bound : cases) {
    for (const std::string& test : bound.seeds) {
      auto seed = std::ranges::find(seeds, test, &protocol::SeedInfo::seed);
      if (seed == seeds.end()) seed = seeds.insert(seeds.end(), {.seed = test, .cases = {}});
      seed->cases.push_back(bound.info.id);
    }
  }
  return seeds;
}

}  // namespace shardproof::cases
