// The result of a call across the boundary between the suite and an engine: a status, an error text and warnings. No
// such call throws.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardproof {

enum class CallStatus : std::uint8_t {
  ok,
  failed,
  planned_failure,  ///< of `perform`: the module in `fails_in` of the action has thrown
  unsupported,  ///< the engine lacks a feature that the call needs
};

std::string_view to_string(CallStatus status);

/// A reply that is not ok always has an error text.
class Reply {
 public:
  Reply() = default;  ///< ok

  /// An empty text becomes "no reason was given".
  static Reply failed(std::string error) { return {CallStatus::failed, std::move(error)}; }
  static Reply planned_failure(std::string error) { return {CallStatus::planned_failure, std::move(error)}; }
  static Reply unsupported(std::string error) { return {CallStatus::unsupported, std::move(error)}; }
  /// A reply of any status. An ok reply drops the text.
  static Reply of(CallStatus status, std::string error) { return {status, std::move(error)}; }

  bool ok() const { return status_ == CallStatus::ok; }
  CallStatus status() const { return status_; }
  const std::string& error() const { return error_; }  ///< empty if ok

  std::vector<std::string> warnings;

 private:
  Reply(CallStatus status, std::string error) : status_(status) {
    if (status == CallStatus::ok) return;
    error_ = error.empty() ? "no reason was given" : std::move(error);
  }

  CallStatus status_ = CallStatus::ok;
  std::string error_;
};

}  // namespace shardproof
