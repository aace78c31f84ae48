// The part of a plan that one kind of engine reads. Each kind has its own type, derived from `SectionOf`, and its own
// files for the JSON reader, the validation and the schema. The rest of a plan is the same for all kinds (plan.hpp).
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/collective.hpp"
#include "harness/protocol/feature.hpp"

namespace shardproof::scenario {
class Node;
}

namespace shardproof {

struct Action;
struct Mesh;
struct Model;
struct ParameterShape;
struct Scenario;

class EngineSection {
 public:
  virtual ~EngineSection() = default;

  /// The kind of engine that reads it. In a document this is the section's key in the plan.
  virtual std::string_view kind() const = 0;
  virtual nlohmann::ordered_json to_json() const = 0;
  /// Throws std::invalid_argument with the place in the document (`plan.toy.bucket`). The model of the scenario is
  /// valid.
  virtual void validate(const Scenario& scenario) const = 0;
  /// Names of the parameter groups of this model, which are the labels of their copies.
  virtual std::vector<std::string> groups(const Model& model) const = 0;
  /// Tags of the collectives of this model's training, for which a document can name costs. By default the groups.
  virtual std::vector<std::string> collective_tags(const Model& model) const { return groups(model); }
  /// Paths of the modules that are wrapped, if engines of the kind wrap modules.
  virtual std::vector<std::string> wrapped_modules() const { return {}; }
  /// The reason why an engine with this section cannot make this call of a script. Empty: it can. The model has the
  /// module of the call.
  virtual std::string objection_to_call(const Action& action) const;
  /// The reason why this parameter of the model cannot have an all-gather extension. Empty: it can.
  virtual std::string objection_to_extension(const ParameterShape& parameter) const = 0;
  /// Whether ranks reduce the gradient of this parameter of the model.
  virtual bool reduces(const std::string& parameter) const = 0;
  /// The dtype in which each rank keeps this parameter of the model, its gradient, and the optimizer's state for it.
  /// The parameter's module computes in the dtype, unless the plan has mixed precision.
  virtual DType dtype_of(const std::string& /*parameter*/) const { return DType::f32; }
  /// Whether the engine compiles its step. Then `Trainer::compiled_plan` returns the passes that it played.
  virtual bool compiles() const { return false; }
  /// Whether each rank keeps whole gradients. A backward that reduces then replaces the gradients of all earlier
  /// backwards.
  virtual bool keeps_whole_gradients() const { return false; }
  /// How many consecutive ranks hold the parts of one copy of the model. They train on the same batch.
  virtual int ranks_per_copy(const Mesh& /*mesh*/) const { return 1; }
  /// The engine divides the sum of the gradients of `ranks` ranks by this.
  virtual double gradient_divisor(int ranks) const { return ranks; }

  virtual std::unique_ptr<EngineSection> clone() const = 0;
  virtual bool equals(const EngineSection& other) const = 0;

 protected:
  EngineSection() = default;
  EngineSection(const EngineSection&) = default;
  EngineSection& operator=(const EngineSection&) = default;
};

/// `EngineSection::objection_to_call` of kinds that have the calls of all kinds, a sync switch for the whole model, and
/// no calls of groups.
std::string objection_to_call_of_groups(std::string_view kind, const Action& action);

/// The base of a section: `clone` and `equals` for a struct `Section` that has operator==.
template <class Section>
class SectionOf : public EngineSection {
 public:
  std::unique_ptr<EngineSection> clone() const override {
    return std::make_unique<Section>(static_cast<const Section&>(*this));
  }
  bool equals(const EngineSection& other) const override {
    const auto* const same = dynamic_cast<const Section*>(&other);
    return same != nullptr && *same == static_cast<const Section&>(*this);
  }
};

/// A kind of engine, as readers of documents and of claims know it.
struct EngineKind {
  std::string_view name;
  /// Reads a section. Throws std::invalid_argument with the place, what was expected there and what was found.
  std::unique_ptr<EngineSection> (*read)(const scenario::Node&) = nullptr;
  std::span<const Feature> own_features = {};  ///< in addition to `common_features`; of static lifetime

  std::vector<std::string_view> feature_names() const;  ///< the common features, then its own
  std::optional<Feature> find_feature(std::string_view feature) const;
};

/// All kinds that this program knows: first the kinds that ship, then the program's own kinds, sorted by name.
const std::vector<EngineKind>& engine_kinds();
const EngineKind* find_engine_kind(std::string_view name);
std::set<std::string> names_of_engine_kinds();

/// Adds a program's own kind. Make it a global object, so that it runs before main:
/// `const EngineKindRegistration toy({.name = "toy", .read = read});`.
struct EngineKindRegistration {
  explicit EngineKindRegistration(const EngineKind& kind);
};

/// The problems with the names of all kinds and of their features. If there are any, `rank_main` prints them and runs
/// nothing.
std::vector<std::string> problems_of_engine_kinds();

}  // namespace shardproof
