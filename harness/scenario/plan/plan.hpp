// A plan: how to train. It has options that all kinds of engines share, and the section of the one kind that the plan
// is for.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/scenario/plan/engine_section.hpp"
#include "harness/tensor/tensor.hpp"

namespace shardproof {

/// The arrangement of the world's ranks, row-major. With one dimension, parameters are sharded over it. With two
/// dimensions, they are replicated over the first and sharded over the second.
struct Mesh {
  std::vector<int> shape;          ///< empty: one dimension of all ranks
  std::vector<std::string> names;  ///< of the dimensions
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

/// The dtypes of a plan: f32, bf16 or f16. Engines gather and compute parameters in `param`, reduce gradients in
/// `reduce`, and cast outputs of wrapped modules to `output`. Without a dtype, parameters and gradients are f32, and
/// outputs keep the dtype that they were computed in. Shards, and gradients after their reduction, stay f32.
struct MixedPrecision {
  std::optional<DType> param, reduce, output;
  bool cast_forward_inputs = true;  ///< of wrapped modules, to `param`
  friend bool operator==(const MixedPrecision&, const MixedPrecision&) = default;
};

enum class Initialisation : std::uint8_t {
  direct,  ///< parameters have their values from the start
  meta,  ///< they have no memory before `materialize`, and no values before `initialize`
};
std::string_view to_string(Initialisation initialisation);

/// adam adds decay to the gradient; adamw subtracts it from the parameter
enum class OptimizerKind : std::uint8_t { sgd, adam, adamw };
std::string_view to_string(OptimizerKind kind);

struct Optimizer {
  OptimizerKind kind = OptimizerKind::sgd;
  double rate = 0.5;
  double momentum = 0;  ///< sgd: as in torch.optim.SGD, without dampening
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;  ///< adam, adamw
  friend bool operator==(const Optimizer&, const Optimizer&) = default;
};

/// A plan's engine section. A copy copies the section.
class ChosenEngine {
 public:
  ChosenEngine() = default;  ///< without a section; `validate` refuses such a plan
  explicit ChosenEngine(std::unique_ptr<EngineSection> section) : section_(std::move(section)) {}
  ChosenEngine(const ChosenEngine& other) : section_(other.section_ ? other.section_->clone() : nullptr) {}
  ChosenEngine(ChosenEngine&&) noexcept = default;
  ChosenEngine& operator=(ChosenEngine other) noexcept {
    section_ = std::move(other.section_);
    return *this;
  }
  ~ChosenEngine() = default;

  std::string_view kind() const { return section_ ? section_->kind() : std::string_view(); }
  const EngineSection* get() const { return section_.get(); }
  /// The section if it is of this type, or nullptr.
  template <class Section>
  Section* as() {
    return dynamic_cast<Section*>(section_.get());
  }
  template <class Section>
  const Section* as() const {
    return dynamic_cast<const Section*>(section_.get());
  }

  friend bool operator==(const ChosenEngine& a, const ChosenEngine& b) {
    return a.section_ && b.section_ ? a.section_->equals(*b.section_) : a.section_ == b.section_;
  }

 private:
  std::unique_ptr<EngineSection> section_;
};

struct Plan {
  Mesh mesh;
  MixedPrecision mixed_precision;
  Initialisation initialisation = Initialisation::direct;
  Optimizer optimizer;
  ChosenEngine engine;
  friend bool operator==(const Plan&, const Plan&) = default;
};

/// Keys of a plan in a document that all kinds of engines share.
inline constexpr std::array<std::string_view, 4> shared_plan_keys{"mesh", "mixed_precision", "initialisation",
                                                                  "optimizer"};

/// Throws std::invalid_argument: the plan's engine section is not of the wanted kind.
[[noreturn]] void refuse_other_kind(const Plan& plan, std::string_view wanted);

/// The plan's engine section. A plan without a section gets one. Throws std::invalid_argument for a plan of another
/// kind.
template <class Section>
Section& section_of(Plan& plan) {
  if (plan.engine.get() == nullptr) plan.engine = ChosenEngine(std::make_unique<Section>());
  auto* const section = plan.engine.as<Section>();
  if (section == nullptr) refuse_other_kind(plan, Section::name);
  return *section;
}

/// Throws std::invalid_argument for a plan of another kind, and for a plan without a section.
template <class Section>
const Section& section_of(const Plan& plan) {
  const auto* const section = plan.engine.as<Section>();
  if (section == nullptr) refuse_other_kind(plan, Section::name);
  return *section;
}

/// Whether some group of the scenario's plan has this name.
bool has_group(const Scenario& scenario, std::string_view name);

}  // namespace shardproof
