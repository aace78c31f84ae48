#include "harness/subject/abi/table_subject.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "harness/base/json_fields.hpp"
#include "harness/protocol/step_graph_json.hpp"
#include "harness/protocol/subject_name.hpp"
#include "harness/scenario/parts_json.hpp"
#include "harness/subject/abi/demands.hpp"
#include "harness/subject/abi/harness_side.hpp"
#include "harness/subject/abi/harness_side_extension.hpp"
#include "harness/subject/abi/harness_side_gradient_hook.hpp"

namespace shardproof::subject {

using abi::call_subject;

namespace {

using abi::call_subject;

/// Memory and failures that destroyed trainers left.
struct Left {
  /// Kept until the next trainer is made, so that the count of live bytes includes it.
  std::vector<std::shared_ptr<Storage>> alive;
  Reply failure;  ///< the first failure of a destroy
};

/// Why a shard that begins at `start` along `dim` is not a part of the whole. Empty: it is. Pure.
std::string objection_to_part(const Shape& shard, const Shape& whole, int dim, std::int64_t start) {
  if (dim == flattened) {
    if (shard.size() != 1)
      return fmt::format("its shard is {}; a range of elements has one dimension", to_string(shard));
    if (start < 0 || start > numel(whole) || shard[0] > numel(whole) - start)
      return fmt::format("its shard of {} elements from {} on is not within the {} elements of {}", shard[0], start,
                         numel(whole), to_string(whole));
    return {};
  }
  if (dim < 0 || (!whole.empty() && dim >= static_cast<int>(whole.size())))
    return fmt::format("there is no dimension {}", dim);
  Shape expected = whole;
  if (!whole.empty() && shard.size() == whole.size()) {
    const auto along = static_cast<std::size_t>(dim);
    if (start < 0 || start > whole[along] || shard[along] > whole[along] - start)
      return fmt::format("its shard of {} rows from {} on is not within the {} along dimension {}", shard[along], start,
                         whole[along], dim);
    expected[along] = shard[along];
  }
  if (shard == expected) return {};
  return fmt::format("its shard is {}, which is not a part of {} along dimension {}", to_string(shard),
                     to_string(whole), dim);
}

class TableTrainer final : public Trainer {
 public:
  TableTrainer(const shardproof_subject& table, const EngineContext& engine_context, std::shared_ptr<Left> left)
      : table_(table), engine_context_(engine_context), left_(std::move(left)) {}

  ~TableTrainer() override {
    if (trainer_ != nullptr) {
      const Reply reply = call_subject(
          &engine_context_, [this](shardproof_reply* answered) { return table_.destroy(trainer_, answered); });
      // The play has ended, so the rank's log takes the warnings.
      for (const std::string& warning : reply.warnings) fmt::print(stderr, "warning: {}\n", warning);
      if (!reply.ok() && left_->failure.ok()) left_->failure = Reply::of(reply.status(), "destroy: " + reply.error());
    }
    std::ranges::move(engine_context_.left_alive(), std::back_inserter(left_->alive));
  }

  Reply create(const Model& model, const Plan& plan) {
    for (const ParameterShape& parameter : shardproof::parameters(model))
      parameters_[parameter.name] = {.shape = parameter.shape, .dtype = plan.engine.get()->dtype_of(parameter.name)};
    const std::string model_text = scenario::write_model(model).dump(), plan_text = scenario::write_plan(plan).dump();
    shardproof_trainer* made = nullptr;
    Reply reply = call_subject(&engine_context_, [&](shardproof_reply* answered) {
      const shardproof_status status = table_.create(table_.context, model_text.c_str(), plan_text.c_str(),
                                                     &engine_context_.in_c(), &made, answered);
      if (status == SHARDPROOF_OK) trainer_ = made;  // must be destroyed, even if another error follows
      return status;
    });
    if (reply.ok() && trainer_ == nullptr) return Reply::failed("create succeeded, but made no trainer");
    return reply;
  }

  Reply perform(const Action& action, const Batch& batch) override {
    engine_context_.lend(batch.input, "input");
    engine_context_.lend(batch.targets, "targets");
    Batch over = batch;  // its loan ends when this returns
    const std::string text = scenario::write_action(action).dump();
    Reply reply = call_subject(&engine_context_, [&](shardproof_reply* answered) {
      abi::Shapes shapes;
      const shardproof_tensor input = engine_context_.give(batch.input, shapes),
                              targets = engine_context_.give(batch.targets, shapes);
      return table_.perform(trainer_, text.c_str(), &input, &targets, answered);
    });
    if (!reply.ok() || action.kind != ActionKind::forward) {
      end_loan(over);
      has_gone_backward_ = has_gone_backward_ || (reply.ok() && action.kind == ActionKind::backward);
      return reply;
    }
    if (std::exchange(has_gone_backward_, false)) {
      for (const Batch& done : std::exchange(forwards_, {})) end_loan(done);
    }
    forwards_.push_back(std::move(over));
    return reply;
  }

  Reply register_all_gather_extension(const ExtensionTarget& target, AllGatherExtension extension) override {
    if (table_.extend == nullptr) return Trainer::register_all_gather_extension(target, std::move(extension));
    const shardproof_extension& given = extensions_.emplace_back(engine_context_, std::move(extension)).in_c();
    const std::string kind(to_string(target.kind));
    return call_subject(&engine_context_, [&](shardproof_reply* answered) {
      return table_.extend(trainer_, target.parameter.c_str(), kind.c_str(), &given, answered);
    });
  }

  Reply register_gradient_hook(const HookTarget& target, GradientHook hook) override {
    if (table_.register_gradient_hook == nullptr) return Trainer::register_gradient_hook(target, std::move(hook));
    abi::HarnessSideGradientHook& given = gradient_hooks_.emplace_back(engine_context_, std::move(hook));
    const std::string point(to_string(target.point));
    Reply reply = call_subject(&engine_context_, [&](shardproof_reply* answered) {
      return table_.register_gradient_hook(trainer_, point.c_str(), target.module.c_str(), target.direct ? 1 : 0,
                                           &given.in_c(), answered);
    });
    if (!reply.ok()) given.withdraw();
    return reply;
  }

  Reply loss(Tensor& out) override {
    shardproof_tensor answer{};
    Reply reply = call_subject(&engine_context_,
                               [&](shardproof_reply* answered) { return table_.loss(trainer_, &answer, answered); });
    return believed(std::move(reply), [&] { out = engine_context_.take(answer, "the loss"); });
  }

  Reply parameters(std::vector<ParameterView>& out) override {
    const shardproof_parameter* answer = nullptr;
    std::size_t count = 0;
    Reply reply = call_subject(&engine_context_, [&](shardproof_reply* answered) {
      return table_.parameters(trainer_, &answer, &count, answered);
    });
    return believed(std::move(reply), [&] {
      if (answer == nullptr && count > 0)
        throw std::invalid_argument(fmt::format("{} parameters, but a NULL pointer", count));
      out.clear();
      for (std::size_t i = 0; i < count; ++i) out.push_back(view(answer[i], i));
    });
  }

  Reply compiled_plan(std::vector<StepGraph>& out) override {
    if (table_.compiled_plan == nullptr) return Trainer::compiled_plan(out);
    const char* answer = nullptr;
    Reply reply = call_subject(&engine_context_, [&](shardproof_reply* answered) {
      return table_.compiled_plan(trainer_, &answer, answered);
    });
    return believed(std::move(reply), [&] { out = read_compiled_plan(&abi::there(answer, "the compiled plan")); });
  }

 private:
  struct Expected {
    Shape shape;  ///< logical
    DType dtype = DType::f32;
  };

  void end_loan(const Batch& batch) {
    engine_context_.end_loan(batch.input);
    engine_context_.end_loan(batch.targets);
  }

  template <class Look>
  static Reply believed(Reply reply, Look&& look) {
    if (!reply.ok()) return reply;
    try {
      look();
      return reply;
    } catch (const std::invalid_argument& error) {
      Reply failed = Reply::failed(error.what());
      failed.warnings = std::move(reply.warnings);
      return failed;
    }
  }

  ParameterView view(const shardproof_parameter& given, std::size_t index) const {
    if (given.name == nullptr) throw std::invalid_argument(fmt::format("its parameter {} has no name", index));
    const auto where = fmt::format("parameter \"{}\"", given.name);
    const auto refuse = [&](const std::string& why) { throw std::invalid_argument(fmt::format("{}: {}", where, why)); };
    const auto known = parameters_.find(given.name);
    if (known == parameters_.end()) refuse("the model has no parameter of this name");
    abi::require_dimensions(given.ndim, given.shape, where);
    ParameterView view{.name = given.name,
                       .shape = Shape(given.shape, given.shape + given.ndim),
                       .dim = given.dim,
                       .start = given.start};
    if (view.shape != known->second.shape)
      refuse(fmt::format("its logical shape is {}, but the model's is {}", to_string(view.shape),
                         to_string(known->second.shape)));
    view.shard = engine_context_.take(given.shard, where + ", shard");
    view.second = engine_context_.take(given.second, where + ", second");
    view.gradient = engine_context_.take(given.gradient, where + ", gradient");
    if (!view.shard.defined()) return view;  // meta

    const DType dtype = known->second.dtype;
    if (view.shard.dtype() != dtype)
      refuse(
          fmt::format("its shard is {}, but the plan keeps it in {}", to_string(view.shard.dtype()), to_string(dtype)));
    const Shape& shard = view.shard.shape();
    if (const std::string why = objection_to_part(shard, view.shape, view.dim, view.start); !why.empty()) refuse(why);
    const auto require_like_shard = [&](const Tensor& tensor, const char* what) {
      if (tensor.defined() && (tensor.shape() != shard || tensor.dtype() != dtype))
        refuse(fmt::format("its {} is {} {}, but its shard is {} {}", what, to_string(tensor.dtype()),
                           to_string(tensor.shape()), to_string(dtype), to_string(shard)));
    };
    require_like_shard(view.second, "second tensor");
    require_like_shard(view.gradient, "gradient");
    return view;
  }

  const shardproof_subject& table_;
  abi::HarnessSide engine_context_;
  std::shared_ptr<Left> left_;
  std::map<std::string, Expected> parameters_;  // of the model, by name
  std::deque<abi::HarnessSideExtension> extensions_;
  std::deque<abi::HarnessSideGradientHook> gradient_hooks_;
  std::vector<Batch> forwards_;  // succeeded forwards, up to the first one after their backward
  bool has_gone_backward_ = false;  // since the last of these forwards
  shardproof_trainer* trainer_ = nullptr;
};

class TableSubject final : public Subject {
 public:
  TableSubject(const shardproof_subject& table, Claims claims)
      : table_(table), claims_(std::move(claims)), left_(std::make_shared<Left>()) {}

  std::string_view name() const override { return table_.name; }
  std::string_view version() const override { return table_.version; }
  Claims claims() const override { return claims_; }

  bool keeps_threads() const override {
    constexpr std::size_t end = offsetof(shardproof_subject, keeps_threads) + sizeof(shardproof_subject::keeps_threads);
    return table_.size >= end && table_.keeps_threads != 0;
  }
  bool wants_preparation() const override { return table_.prepare != nullptr; }
  Reply prepare() override {
    if (table_.prepare == nullptr) return {};
    return call_subject(nullptr, [this](shardproof_reply* reply) {
      return table_.prepare(table_.context, &abi::HarnessSide::functions(), reply);
    });
  }
  pid_t fork() override {
    if (table_.fork == nullptr) return Subject::fork();
    try {
      return static_cast<pid_t>(table_.fork(table_.context));
    } catch (const std::exception& thrown) {
      throw std::runtime_error(fmt::format("fork threw across the boundary: {}", thrown.what()));
    }
  }

  Reply create(const Model& model, const Plan& plan, const EngineContext& engine_context,
               std::unique_ptr<Trainer>& out) override {
    left_->alive.clear();
    auto trainer = std::make_unique<TableTrainer>(table_, engine_context, left_);
    Reply reply = trainer->create(model, plan);
    if (reply.ok()) out = std::move(trainer);
    return reply;
  }

  Reply take_teardown_failure() override { return std::exchange(left_->failure, {}); }

 private:
  const shardproof_subject& table_;
  Claims claims_;
  std::shared_ptr<Left> left_;
};

/// Reads the features of a claim. A kind that this program does not know may have its own features. No case can need
/// them.
Claims::Features known_features(const std::string& engine, const char* const* names) {
  const EngineKind* const known = find_engine_kind(engine);
  const EngineKind kind = known != nullptr ? *known : EngineKind{.name = engine};
  Claims::Features features;
  for (; *names != nullptr; ++names) {
    if (const auto feature = kind.find_feature(*names)) features.insert(*feature);
    else if (known != nullptr)
      throw std::invalid_argument(fmt::format("it claims \"{}\" for the engine kind {}, whose features are: {}", *names,
                                              engine, fmt::join(kind.feature_names(), ", ")));
  }
  return features;
}

Claims known_claims(const shardproof_claim* claims, std::size_t count) {
  if (claims == nullptr && count > 0)
    throw std::invalid_argument(fmt::format("its table has {} claims, but a NULL pointer", count));
  Claims known;
  for (std::size_t i = 0; i < count; ++i) {
    const shardproof_claim& claim = claims[i];
    if (claim.engine == nullptr) throw std::invalid_argument(fmt::format("its claim {} has no `engine`", i));
    if (claim.features == nullptr)
      throw std::invalid_argument(fmt::format("its claim of {} has no `features`", base::shown(claim.engine)));
    if (const std::string objection = protocol::objection_to_subject_text(claim.engine); !objection.empty())
      throw std::invalid_argument(
          fmt::format("it claims the engine kind {}: {}", base::shown(claim.engine), objection));
    known.add({.name = claim.engine, .features = known_features(claim.engine, claim.features)});
  }
  return known;
}

/// The size of the members that every table of this version has. Later versions append members: read them only if
/// `size` includes them.
constexpr std::size_t least_size =
    offsetof(shardproof_subject, compiled_plan) + sizeof(shardproof_subject::compiled_plan);

}  // namespace

std::unique_ptr<Subject> table_subject(const shardproof_subject* table, std::string_view where,
                                       std::string_view own_name) {
  const auto refuse = [&](std::string_view why) { throw SubjectRefused(fmt::format("{}: {}", where, why)); };
  if (table == nullptr) refuse("it returns no table of a subject");
  if (table->abi_version != SHARDPROOF_ABI_VERSION)
    refuse(fmt::format(
        "its table has version {} of shardproof.h, this harness has version {}: compile it with this harness's header",
        table->abi_version, SHARDPROOF_ABI_VERSION));
  if (table->size < least_size)
    refuse(
        fmt::format("its table gives its size as {} bytes; version {} has {}: set `size` to sizeof(shardproof_subject)",
                    table->size, SHARDPROOF_ABI_VERSION, least_size));
  const auto require = [&](bool is_there, std::string_view what) {
    if (!is_there) refuse(fmt::format("its table has no `{}`", what));
  };
  require(table->name != nullptr && *table->name != '\0', "name");
  require(table->version != nullptr && *table->version != '\0', "version");
  const auto accept = [&](std::string_view what, const char* text, const std::string& objection) {
    if (!objection.empty()) refuse(fmt::format("its {} is {}: {}", what, base::shown(text), objection));
  };
  accept("name", table->name, protocol::objection_to_subject_name(table->name, own_name));
  accept("version", table->version, protocol::objection_to_subject_text(table->version));
  require(table->create != nullptr, "create");
  require(table->destroy != nullptr, "destroy");
  require(table->perform != nullptr, "perform");
  require(table->loss != nullptr, "loss");
  require(table->parameters != nullptr, "parameters");
  Claims claims;
  try {
    claims = known_claims(table->claims, table->claim_count);
  } catch (const std::invalid_argument& error) {
    refuse(error.what());
  }
  return std::make_unique<TableSubject>(*table, std::move(claims));
}

const shardproof_subject* load_subject_table(const std::filesystem::path& library) {
  const auto refuse = [&](std::string_view why) {
    throw SubjectRefused(fmt::format("subject {}: {}", library.string(), why));
  };
  if (!std::filesystem::exists(library)) refuse("there is no such file");
  void* const loaded = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    // The error names the file that cannot be loaded: this library, which the message names already, or one of its
    // dependencies.
    const std::string_view why = ::dlerror();
    const std::string itself = library.string() + ": ";
    refuse(why.starts_with(itself) ? why.substr(itself.size()) : why);
  }
  const auto function = reinterpret_cast<shardproof_subject_table_function>(::dlsym(loaded, SHARDPROOF_SUBJECT_TABLE));
  if (function == nullptr) refuse(fmt::format("it exports no {}, so it is not a subject", SHARDPROOF_SUBJECT_TABLE));
  const shardproof_subject* table = nullptr;
  try {
    table = function();
  } catch (const std::exception& error) {
    refuse(fmt::format("{} has thrown: {}", SHARDPROOF_SUBJECT_TABLE, error.what()));
  } catch (...) {
    refuse(fmt::format("{} threw something that is not a std::exception", SHARDPROOF_SUBJECT_TABLE));
  }
  return table;
}

}  // namespace shardproof::subject
