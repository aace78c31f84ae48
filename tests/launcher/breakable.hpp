// A subject that trains nothing, and a fault that breaks the cases, for the programs of these tests.
#pragma once

#include <shardproof.hpp>

#include <memory>
#include <string_view>

#include "harness/runner/play/play_main.hpp"

namespace shardproof::launcher::testing {

inline bool is_broken = false;  ///< what the cases test; a process runs one world

class Nothing final : public Subject {
 public:
  std::string_view name() const override { return "nothing"; }
  std::string_view version() const override { return "1"; }
  Claims claims() const override { return {}; }
  Reply create(const Model&, const Plan&, const EngineContext&, std::unique_ptr<Trainer>&) override {
    return Reply::failed("it trains nothing");
  }
};

inline std::unique_ptr<Subject> broken(std::unique_ptr<Subject> subject) {
  is_broken = true;
  return subject;
}

}  // namespace shardproof::launcher::testing
