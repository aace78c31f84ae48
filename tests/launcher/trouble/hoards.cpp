// A subject that does not give back what it took from its device, and the main function of this program, which has no other subject.
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "harness/cases/rank_main.hpp"
#include "harness/scenario/builder.hpp"
#include "harness/subject/subject.hpp"
#include "tests/launcher/trouble/trouble.hpp"

namespace {

using namespace shardproof;

/// Trains nothing, and says that all went well.
class Idler final : public Trainer {
 public:
  Reply perform(const scenario::Action& /*action*/, const Batch& /*batch*/) override { return {}; }
  Reply loss(Tensor& /*out*/) override { return {.error = "there is no loss", .warnings = {}}; }
  Reply parameters(std::vector<ParameterView>& out) override {
    out.clear();
    return {};
  }
};

class Hoarder final : public Subject {
 public:
  std::string_view name() const override { return "hoarder"; }
  std::string_view version() const override { return "1"; }
  std::set<Feature> capabilities() const override { return {}; }
  Reply create(const scenario::Model& /*model*/, const scenario::Plan& /*plan*/, const Seat& seat, std::unique_ptr<Trainer>& out) override {
    if (seat.rank == 1) hoard_.push_back(seat.device.empty(Device::compute, DType::f32, {16}, MemoryClass::parameter, "hoarded"));
    out = std::make_unique<Idler>();
    return {};
  }

 private:
  std::vector<Tensor> hoard_;
};

}  // namespace

RANKED_TEST_CASE("fails/is_not_quiet_at_its_end", ranks(2)) {
  rank.play(scenario::sleeping_stack(1));
  CHECK(true);
}

int main(int argc, char** argv) {
  Program program;
  program.subjects = {[] { return std::make_unique<Hoarder>(); }};
  return rank_main(argc, argv, program);
}
