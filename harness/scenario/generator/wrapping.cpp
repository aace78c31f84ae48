#include "harness/scenario/generator/wrapping.hpp"

#include <algorithm>

namespace shardproof::scenario {

namespace {

void visit_children_first(const Module& module, const std::string& path, const auto& each) {
  for (const Module& child : module.children) visit_children_first(child, child_path(path, child.name), each);
  each(module, path);
}

class WrappingDraw {
 public:
  WrappingDraw(Model& model, Dice& dice) : model_(model), dice_(dice) {}

  std::vector<std::string> draw() && {
    wrap();
    separate();
    return std::move(wrapped_);
  }

 private:
  // The deepest wrapped module at or above this path; nullptr: none.
  const std::string* holder(std::string_view path) const {
    const auto found =
        std::ranges::find_if(wrapped_, [&](const std::string& wrapped) { return is_at_or_under(path, wrapped); });
    return found == wrapped_.end() ? nullptr : &*found;
  }

  bool shares_weight(const Module& module, const std::string& path) const {
    bool shares = !module.tied_to.empty();
    visit(model_.root, "", [&](const Module& other, const std::string&) { shares = shares || other.tied_to == path; });
    return shares;
  }

  // Draws the wrapped modules among the modules that have a forward.
  void wrap() {
    visit_children_first(model_.root, "", [&](const Module& module, const std::string& path) {
      const bool has_forward = module.kind != ModuleKind::use && module.kind != ModuleKind::list;
      const bool is_small = module.kind == ModuleKind::relu || module.kind == ModuleKind::scale;
      // Modules with a shared weight lose it if they are in different groups.
      const int likely = path.empty() ? 85 : is_small || shares_weight(module, path) ? 8 : 45;
      if (has_forward && dice_.chance(likely)) wrapped_.push_back(path);
    });
    const auto trains = [&](const ParameterShape& parameter) {
      return parameter.trainable && holder(parameter.name) != nullptr;
    };
    if (!std::ranges::any_of(parameters(model_), trains) && holder("") == nullptr) wrapped_.emplace_back();
  }

  // Separates modules that are not gathered together. A weight that two modules read must be with both. A module that a
  // `use` runs must be whole at that time.
  void separate() {
    const auto each = [&](auto&& self, Module& module, const std::string& path) -> void {
      if (!module.tied_to.empty() && holder(path) != holder(module.tied_to)) module.tied_to.clear();
      if (module.kind == ModuleKind::use && !is_whole_for(module.target, path))
        module = {.name = module.name, .kind = ModuleKind::relu};
      for (Module& child : module.children) self(self, child, child_path(path, child.name));
    };
    each(each, model_.root, "");
    // No rank gathers a pair that is not wrapped.
    const auto make_plain = [&](auto&& self, Module& module, const std::string& path) -> void {
      if (holder(path) == nullptr) module.tensor = TensorKind::plain;
      for (Module& child : module.children) self(self, child, child_path(path, child.name));
    };
    make_plain(make_plain, model_.root, "");
  }

  // It is whole through its own hooks, or because the module that holds it is gathered when the `use` runs.
  bool is_whole_for(const std::string& target, const std::string& use) const {
    const std::string* wrapped = holder(target);
    return wrapped == nullptr || *wrapped == target || is_at_or_under(use, *wrapped);
  }

  Model& model_;
  Dice& dice_;
  std::vector<std::string> wrapped_;
};

}  // namespace

std::vector<std::string> draw_wrapped_modules(Model& model, Dice& dice) { return WrappingDraw(model, dice).draw(); }

}  // namespace shardproof::scenario
