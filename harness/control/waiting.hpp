// How a rank waits for what others do. The control page is given a way of waiting, and every wait of its world goes through it.
#pragma once

#include <type_traits>

#include "harness/control/doorbell.hpp"  // Deadline

namespace shardproof {

/// A condition that its owner holds as long as it waits for it.
class Condition {
 public:
  template <class F>
    requires(!std::is_same_v<F, Condition>)
  Condition(const F& holds)  // NOLINT(google-explicit-constructor): who waits writes a lambda
      : holds_(&holds), ask_([](const void* it) -> bool { return (*static_cast<const F*>(it))(); }) {}

  bool operator()() const { return ask_(holds_); }

 private:
  const void* holds_;
  bool (*ask_)(const void*);
};

class Waiting {
 public:
  virtual ~Waiting() = default;

  /// Returns true once `done` holds, or false when the deadline passed before. What `done` throws goes through. `bell` is rung after
  /// everything that may make it hold or throw.
  virtual bool wait(Doorbell& bell, Deadline deadline, Condition done) = 0;

  /// The caller is about to do what others can see: where ranks take turns, another one may come first.
  virtual void pause() {}
};

}  // namespace shardproof
