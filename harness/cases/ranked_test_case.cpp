#include "harness/cases/ranked_test_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>

namespace shardproof {

namespace {

// Registrations fill it before main; afterwards it is read-only. It is a function's static variable, so that the order
// of initialisation does not matter.
std::vector<CaseDeclaration>& registry() {
  // The memory is not returned at the end of the process: ranks that are copies would first get their own copy of it.
  static auto& declarations = *new std::vector<CaseDeclaration>;
  return declarations;
}

std::vector<SuiteEngine>& suite_engines() {
  static std::vector<SuiteEngine> engines;
  return engines;
}

std::vector<EngineClauses>& engine_clauses() {
  static std::vector<EngineClauses> clauses;
  return clauses;
}

// Inserts in the order of file and line. The linker chooses the order in which translation units are initialised, and a
// listing must not depend on it.
template <class Declaration>
void insert_in_order(std::vector<Declaration>& declarations, Declaration declaration) {
  const auto before = [](const Declaration& a, const Declaration& b) {
    return std::tie(a.file, a.line) < std::tie(b.file, b.line);
  };
  declarations.insert(std::upper_bound(declarations.begin(), declarations.end(), declaration, before),
                      std::move(declaration));
}

template <class T>
void append(std::vector<T>& to, std::vector<T> from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

namespace detail {

void apply(CaseDeclaration& declaration, options::Ranks option) { declaration.ranks = std::move(option.sizes); }
void apply(CaseDeclaration& declaration, options::MoreRanks option) {
  declaration.more_ranks = std::move(option.sizes);
}
void apply(CaseDeclaration& declaration, options::Clauses option) {
  append(declaration.clauses, std::move(option.ids));
}
void apply(CaseDeclaration& declaration, options::Tags option) { append(declaration.tags, std::move(option.names)); }
void apply(CaseDeclaration& declaration, options::Needs option) {
  append(declaration.needs, std::move(option.features));
}
void apply(CaseDeclaration& declaration, options::NeedsIf option) {
  declaration.conditional_needs.push_back(std::move(option.needs));
}
void apply(CaseDeclaration& declaration, options::Engines option) { declaration.engines = std::move(option.kinds); }
void apply(CaseDeclaration& declaration, options::Each option) {
  declaration.params.emplace_back(std::move(option.key), std::move(option.values));
}
void apply(CaseDeclaration& declaration, options::Also option) {
  for (const std::string& value : option.param.values)
    declaration.conditional_needs.push_back({.key = option.param.key, .value = value, .features = option.needs});
  declaration.optional_params.push_back(option.param.key);
  apply(declaration, std::move(option.param));
}
void apply(CaseDeclaration& declaration, options::DrawnBy option) {
  declaration.drawn_by = option.key;
  std::vector<std::string> numbers;
  for (int number = 1; number <= option.usual; ++number) numbers.push_back(spell(number));
  declaration.params.emplace_back(std::move(option.key), std::move(numbers));
}
void apply(CaseDeclaration& declaration, options::Seed option) { declaration.seeds.push_back(std::move(option.test)); }
void apply(CaseDeclaration& declaration, options::Timeout option) { declaration.timeout = option.time; }
void apply(CaseDeclaration& declaration, options::OnThreads) { declaration.on_threads = true; }
void apply(CaseDeclaration& declaration, options::Hosts option) { declaration.hosts = option.least; }

std::string spell(bool value) { return value ? "true" : "false"; }
std::string spell(int value) { return std::to_string(value); }
std::string spell(double value) { return fmt::format("{}", value); }
std::string spell(std::string value) { return value; }
std::string spell(const char* value) { return value; }

void Registration::add(CaseDeclaration declaration) { insert_in_order(registry(), std::move(declaration)); }

SuiteEngineRegistration::SuiteEngineRegistration(SuiteEngine declaration) {
  insert_in_order(suite_engines(), std::move(declaration));
}

EngineClausesRegistration::EngineClausesRegistration(EngineClauses declaration) {
  insert_in_order(engine_clauses(), std::move(declaration));
}

}  // namespace detail

const std::vector<CaseDeclaration>& declared_cases() { return registry(); }

const std::vector<SuiteEngine>& declared_suite_engines() { return suite_engines(); }

const std::vector<EngineClauses>& declared_engine_clauses() { return engine_clauses(); }

}  // namespace shardproof
