// Gives an engine context to a subject in C: the harness's functions over one device and its groups. It also keeps the
// subject's handles to buffers, groups and streams. It checks each argument from the other side before use, and throws
// nothing to the other side.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "harness/subject/abi/own_thread.hpp"
#include "harness/subject/abi/tensors.hpp"
#include "harness/subject/shardproof.h"
#include "harness/subject/subject.hpp"

namespace shardproof::subject::abi {
class HarnessSide;
}

struct shardproof_device {
  shardproof::subject::abi::HarnessSide& engine_context;
};

struct shardproof_reply {
  std::string error;
  bool has_failed = false;
  std::vector<std::string> warnings;
  shardproof::subject::abi::OwnThread thread;
};

/// A handle to memory. It stays when its memory is gone, so that a use after the release is reported as such.
struct shardproof_buffer {
  shardproof::subject::abi::HarnessSide& engine_context;
  std::shared_ptr<shardproof::Storage> storage;  ///< empty: gone
  std::string name;  ///< for messages: `buffer 17 "layers.1"`
  bool is_subjects = false;  ///< The subject allocated or adopted it. Only its release frees it.
  std::size_t holds = 0;  ///< Answers of hooks that name it and are not let go yet.
  std::size_t loans = 0;  ///< Loans of the harness that have not ended.
  std::set<shardproof::DType> written;  ///< The dtypes that the subject declared for its writes.
};

struct shardproof_group {
  shardproof::subject::abi::HarnessSide& engine_context;
  std::unique_ptr<shardproof::Communicator> own;  ///< set for a part of a split
  shardproof::Communicator* communicator;  ///< nullptr: dropped
};

namespace shardproof::subject::abi {

class HarnessSide {
 public:
  explicit HarnessSide(const EngineContext& engine_context);
  HarnessSide(const HarnessSide&) = delete;
  HarnessSide& operator=(const HarnessSide&) = delete;

  const shardproof_engine_context& in_c() const { return in_c_; }
  /// The table of the harness's functions, the same for every engine context.
  static const shardproof_harness& functions();

  // -- Tensors, both ways

  /// A view for C. Its shape is in `shapes`, which must outlive it.
  shardproof_tensor give(const Tensor& tensor, Shapes& shapes);
  /// Throws std::invalid_argument, beginning with `what`, for everything that shardproof_tensor does not allow.
  Tensor take(const shardproof_tensor& tensor, std::string_view what) const;
  Stream stream(std::uint32_t id, std::string_view what) const;

  // -- The owners of buffers

  void lend(const Tensor& tensor, std::string_view label);
  void end_loan(const Tensor& tensor);
  /// Counts one hold for each buffer of these tensors. The subject must let go of each buffer once.
  void hold(std::span<const Tensor> tensors, std::string_view label);
  /// Memory that the subject has neither released nor let go of. Call it when the engine context's trainer is gone.
  std::vector<std::shared_ptr<Storage>> left_alive();

  // -- Failures

  /// The rank's thread. Other threads must not touch the engine context.
  OwnThread& thread() { return thread_; }
  /// Runs the call if this is the rank's thread, and returns SHARDPROOF_OK. If the call throws, the engine context
  /// keeps the text as its error, and this returns SHARDPROOF_FAILED. In another thread it only returns
  /// SHARDPROOF_FAILED.
  template <class Call>
  shardproof_status guarded(Call&& call) noexcept {
    if (!thread_.is_this()) return SHARDPROOF_FAILED;
    try {
      call();
      return SHARDPROOF_OK;
    } catch (const std::exception& error) {
      note(error.what());
    } catch (...) {
      note("an exception that is not a std::exception");
    }
    return SHARDPROOF_FAILED;
  }
  const std::string& error() const { return error_; }
  /// The first failure of a function of the harness since the last call of this function.
  std::optional<std::string> take_first_failure();

 private:
  struct Functions;

  void note(std::string text);
  shardproof_buffer& find(shardproof_buffer* buffer, std::string_view what) const;
  const std::shared_ptr<Storage>& memory_of(shardproof_buffer* buffer, std::string_view what) const;
  shardproof_buffer& handle_of(const std::shared_ptr<Storage>& storage, std::string_view label);
  shardproof_buffer* add(std::shared_ptr<Storage> storage, std::string_view label);
  shardproof_buffer& to_release(shardproof_buffer* buffer, std::string_view what) const;
  void forget(shardproof_buffer& handle);
  void forget_unless_needed(shardproof_buffer& handle);
  Tensor take(const shardproof_span& span, std::string_view what) const;
  /// `rank`: this rank's index in the group that runs it.
  Collective take(const shardproof_collective& collective, int rank, const std::string& what);
  std::vector<Tensor> take(const shardproof_span* spans, std::size_t count, std::string_view what) const;
  static void note_written(const shardproof_span& span);
  Communicator& communicator(const shardproof_group* group, std::string_view what) const;
  shardproof_group* add(std::unique_ptr<Communicator> part);

  // The implementations of the table's functions.
  void submit(std::uint32_t stream, const shardproof_work& work);
  void release(std::uint32_t stream, shardproof_buffer* buffer);
  void release_to_cache(std::uint32_t stream, shardproof_buffer* buffer);
  void describe(shardproof_buffer* buffer, shardproof_memory memory, std::string_view label);
  void let_go(shardproof_buffer* buffer);
  void run(const shardproof_group* group, std::uint32_t stream, const shardproof_collective& collective);
  void run_coalesced(const shardproof_group* group, std::uint32_t stream, const shardproof_collective* collectives,
                     std::size_t count);

  OwnThread thread_;
  Device& device_;
  shardproof_device handle_{*this};
  std::deque<shardproof_group> groups_;  // the world is the first
  std::deque<shardproof_buffer> buffers_;
  std::unordered_set<const shardproof_buffer*> known_;
  std::unordered_map<const Storage*, shardproof_buffer*> handles_;  // of memory that is not gone
  std::map<std::uint32_t, Stream> streams_{{Device::compute.id, Device::compute}};
  shardproof_engine_context in_c_;
  std::string error_;
  std::optional<std::string> first_failure_;
};

/// Calls a function of the subject, which returns a status and may call `fail` and `warn` on its reply. The call also
/// fails if the function throws, or if a function of the harness failed within it. `engine_context`: the engine context
/// of the trainer, or nullptr.
Reply call_subject(HarnessSide* engine_context, const std::function<shardproof_status(shardproof_reply*)>& call);

}  // namespace shardproof::subject::abi
