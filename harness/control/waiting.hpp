// Waiting is the way in which a rank waits for other ranks. The control page holds one, and every wait of its world
// goes through it.
#pragma once

#include <type_traits>

#include "harness/control/doorbell.hpp"  // Deadline

namespace shardproof::control {

/// A reference to the caller's condition. The caller keeps the condition alive while it waits.
class Condition {
 public:
  template <class F>
    requires(!std::is_same_v<F, Condition>)
  Condition(const F& holds)  // NOLINT(google-explicit-constructor): callers of a wait pass a lambda
      : holds_(&holds), ask_([](const void* it) -> bool { return (*static_cast<const F*>(it))(); }) {}

  bool operator()() const { return ask_(holds_); }

 private:
  const void* holds_;
  bool (*ask_)(const void*);
};

class Waiting {
 public:
  virtual ~Waiting() = default;

  /// Returns true once `done` holds, and false when the deadline passed first. Exceptions from `done` propagate. `bell`
  /// is rung after each change that may make `done` hold or throw.
  virtual bool wait(Doorbell& bell, Deadline deadline, Condition done) = 0;

  /// The caller is about to do something that other ranks can see. Where ranks take turns, another rank may go first.
  virtual void pause() {}
};

}  // namespace shardproof::control
