#include "harness/subject/abi/exported_subject.hpp"

#include <utility>

#include "harness/base/json_parse.hpp"
#include "harness/protocol/step_graph_json.hpp"
#include "harness/scenario/parts_json.hpp"
#include "harness/subject/abi/engine_side.hpp"
#include "harness/subject/abi/engine_side_extension.hpp"
#include "harness/subject/abi/engine_side_gradient_hook.hpp"
#include "harness/subject/abi/words.hpp"

// A trainer with its engine context on this side of the boundary.
struct shardproof_trainer {
  shardproof_trainer(shardproof::Subject& made_by, const shardproof_engine_context& engine_context)
      : subject(made_by), device(engine_context), world(device, engine_context.world, false) {}

  shardproof::Subject& subject;
  shardproof::subject::abi::EngineSideDevice device;
  shardproof::subject::abi::EngineSideCommunicator world;
  std::unique_ptr<shardproof::Trainer> trainer;
  // Memory that the last answer points to.
  shardproof::subject::abi::Shapes shapes;
  std::vector<shardproof::ParameterView> views;
  std::vector<shardproof_parameter> parameters;
  std::string compiled_plan;
};

namespace shardproof::subject {

struct ExportedSubject::Functions {
  /// Passes on the reply of the call, or its exception.
  template <class Call>
  static shardproof_status answer(const shardproof_harness& harness, shardproof_reply* reply, Call&& call) {
    Reply answered;
    try {
      answered = call();
    } catch (const std::exception& error) {
      answered = Reply::failed(error.what());
    }
    for (const std::string& warning : answered.warnings) harness.warn(reply, warning.c_str());
    if (!answered.ok()) harness.fail(reply, answered.error().c_str());
    return abi::to_c(answered.status());
  }
  template <class Call>
  static shardproof_status answer(shardproof_trainer* trainer, shardproof_reply* reply, Call&& call) {
    return answer(trainer->device.link()->harness(), reply, std::forward<Call>(call));
  }

  static shardproof_status prepare(void* self, const shardproof_harness* harness, shardproof_reply* reply) {
    return answer(*harness, reply, [&] { return static_cast<ExportedSubject*>(self)->subject_->prepare(); });
  }
  static int fork(void* self) { return static_cast<ExportedSubject*>(self)->subject_->fork(); }

  static shardproof_status create(void* self, const char* model, const char* plan,
                                  const shardproof_engine_context* engine_context, shardproof_trainer** trainer,
                                  shardproof_reply* reply) {
    return answer(*engine_context->harness, reply, [&] {
      const nlohmann::ordered_json model_json = base::parse_json(model), plan_json = base::parse_json(plan);
      Subject& subject = *static_cast<ExportedSubject*>(self)->subject_;
      auto made = std::make_unique<shardproof_trainer>(subject, *engine_context);
      Reply reply_of_create =
          subject.create(scenario::read_model({model_json, "model"}), scenario::read_plan({plan_json, "plan"}),
                         {made->device, made->world, engine_context->rank}, made->trainer);
      if (reply_of_create.ok()) *trainer = made.release();
      return reply_of_create;
    });
  }
  static shardproof_status destroy(shardproof_trainer* trainer, shardproof_reply* reply) {
    const shardproof_harness& harness = trainer->device.link()->harness();
    Subject& subject = trainer->subject;
    delete trainer;
    return answer(harness, reply, [&] { return subject.take_teardown_failure(); });
  }

  static shardproof_status perform(shardproof_trainer* trainer, const char* action, const shardproof_tensor* input,
                                   const shardproof_tensor* targets, shardproof_reply* reply) {
    return answer(trainer, reply, [&] {
      const nlohmann::ordered_json json = base::parse_json(action);
      const Batch batch{.input = trainer->device.take(*input), .targets = trainer->device.take(*targets)};
      return trainer->trainer->perform(scenario::read_action({json, "action"}), batch);
    });
  }

  static shardproof_status extend(shardproof_trainer* trainer, const char* parameter, const char* kind,
                                  const shardproof_extension* extension, shardproof_reply* reply) {
    return answer(trainer, reply, [&] {
      const nlohmann::ordered_json json(kind);
      const ExtensionTarget target{.parameter = parameter,
                                   .kind = scenario::Node(json, "kind").choice(TensorKind::low_precision)};
      return trainer->trainer->register_all_gather_extension(target,
                                                             abi::engine_side_extension(trainer->device, *extension));
    });
  }

  static shardproof_status register_gradient_hook(shardproof_trainer* trainer, const char* point, const char* module,
                                                  int direct, const shardproof_gradient_hook* hook,
                                                  shardproof_reply* reply) {
    return answer(trainer, reply, [&] {
      const nlohmann::ordered_json json(point);
      const HookTarget target{.point = scenario::Node(json, "point").choice(HookPoint::after_accumulation),
                              .module = module,
                              .direct = direct != 0};
      return trainer->trainer->register_gradient_hook(target, abi::engine_side_gradient_hook(trainer->device, *hook));
    });
  }

  static shardproof_status loss(shardproof_trainer* trainer, shardproof_tensor* loss, shardproof_reply* reply) {
    return answer(trainer, reply, [&] {
      Tensor value;
      Reply answered = trainer->trainer->loss(value);
      trainer->shapes.clear();
      *loss = trainer->device.give(value, trainer->shapes);
      return answered;
    });
  }

  static shardproof_status parameters(shardproof_trainer* trainer, const shardproof_parameter** parameters,
                                      std::size_t* count, shardproof_reply* reply) {
    return answer(trainer, reply, [&] {
      Reply answered = trainer->trainer->parameters(trainer->views);
      trainer->shapes.clear();
      trainer->parameters.clear();
      const auto give = [&](const Tensor& tensor) { return trainer->device.give(tensor, trainer->shapes); };
      for (ParameterView& view : trainer->views) {
        trainer->parameters.push_back({.name = view.name.c_str(),
                                       .shape = view.shape.data(),
                                       .ndim = static_cast<int>(view.shape.size()),
                                       .dim = view.dim,
                                       .start = view.start,
                                       .shard = give(view.shard),
                                       .second = give(view.second),
                                       .gradient = give(view.gradient)});
        view.shard = view.second = view.gradient = {};  // the trainer decides how long they live
      }
      *parameters = trainer->parameters.data();
      *count = trainer->parameters.size();
      return answered;
    });
  }

  static shardproof_status compiled_plan(shardproof_trainer* trainer, const char** plan, shardproof_reply* reply) {
    return answer(trainer, reply, [&] {
      std::vector<StepGraph> graphs;
      Reply answered = trainer->trainer->compiled_plan(graphs);
      trainer->compiled_plan = write_compiled_plan(graphs);
      *plan = trainer->compiled_plan.c_str();
      return answered;
    });
  }
};

ExportedSubject::ExportedSubject(std::unique_ptr<Subject> subject)
    : subject_(std::move(subject)),
      name_(subject_->name()),
      version_(subject_->version()),
      claims_(subject_->claims()) {
  for (const Claims::Kind& kind : claims_.kinds()) {
    std::vector<const char*>& features = features_.emplace_back();
    for (const Feature feature : kind.features) features.push_back(feature.name().data());
    features.push_back(nullptr);
  }
  for (std::size_t i = 0; i < features_.size(); ++i)
    claims_in_c_.push_back({.engine = claims_.kinds()[i].name.c_str(), .features = features_[i].data()});
  table_ = {.abi_version = SHARDPROOF_ABI_VERSION,
            .size = sizeof(shardproof_subject),
            .name = name_.c_str(),
            .version = version_.c_str(),
            .claims = claims_in_c_.data(),
            .claim_count = claims_in_c_.size(),
            .context = this,
            .prepare = subject_->wants_preparation() ? Functions::prepare : nullptr,
            .fork = Functions::fork,
            .create = Functions::create,
            .destroy = Functions::destroy,
            .perform = Functions::perform,
            .extend = Functions::extend,
            .register_gradient_hook = Functions::register_gradient_hook,
            .loss = Functions::loss,
            .parameters = Functions::parameters,
            .compiled_plan = Functions::compiled_plan,
            .keeps_threads = subject_->keeps_threads() ? 1 : 0};
}

}  // namespace shardproof::subject
