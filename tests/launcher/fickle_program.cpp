// Two subjects that refuse whatever they are to play. One of them, once, in whichever world that is, does so otherwise;
// the other one cannot be made where the environment says so.
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "harness/runner/play/play_main.hpp"

using namespace shardproof;

namespace {

class Refusing : public Subject {
 public:
  explicit Refusing(std::string name) : name_(std::move(name)) {}
  std::string_view name() const override { return name_; }
  std::string_view version() const override { return "1"; }
  Claims claims() const override { return {{"fully_shard", {}}}; }
  Reply create(const Model&, const Plan&, const EngineContext&, std::unique_ptr<Trainer>&) override {
    if (std::getenv("FICKLE_ABORTS") != nullptr) std::abort();
    return Reply::failed(name_ + " trains nothing");
  }

 private:
  std::string name_;
};

class Fickle final : public Refusing {
 public:
  using Refusing::Refusing;
  Reply create(const Model& model, const Plan& plan, const EngineContext& engine_context,
               std::unique_ptr<Trainer>& out) override {
    const char* const mark = std::getenv("FICKLE_MARK");
    if (mark != nullptr && std::filesystem::create_directory(mark))
      throw std::runtime_error("this once it is another matter");
    return Refusing::create(model, plan, engine_context, out);
  }
};

}  // namespace

int main(int argc, char** argv) {
  PlayProgram program;
  program.subjects.emplace_back([] {
    if (std::getenv("FICKLE_THROWS") != nullptr) throw 5;
    return std::make_unique<Refusing>("steady");
  });
  program.subjects.emplace_back([] { return std::make_unique<Fickle>("fickle"); });
  return play_main(argc, argv, program);
}
