#include "harness/subject/abi/harness_side.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>

#include "harness/subject/abi/demands.hpp"
#include "harness/subject/abi/words.hpp"

namespace shardproof::subject::abi {

namespace {

std::string_view text(const char* text, std::string_view what) { return &there(text, what); }

template <class Ours, class C>
Ours word(Ours (*from_c)(C), C c, std::string_view what) {
  try {
    return from_c(c);
  } catch (const std::invalid_argument& error) {
    refuse(what, error.what());
  }
}

std::uintptr_t address(const std::byte* data) { return reinterpret_cast<std::uintptr_t>(data); }

/// Checks that the subject wrote the buffer as this dtype. Otherwise the values mean nothing. Elements of one byte may
/// be anything.
void require_written_as(const shardproof_buffer& buffer, DType dtype, std::string_view what) {
  const auto is_byte = [](DType known) { return size_of(known) == 1; };
  if (buffer.written.empty() || buffer.written.contains(dtype) || is_byte(dtype) ||
      std::ranges::any_of(buffer.written, is_byte))
    return;
  std::vector<std::string_view> written;
  for (const DType known : buffer.written) written.push_back(to_string(known));
  refuse(what, fmt::format("it is declared as {}, but {} was written as {}: use one dtype for both", to_string(dtype),
                           buffer.name, fmt::join(written, " and ")));
}

bool is_of_host(const DLTensor& tensor) {
  return tensor.device.device_type == kDLCPU || tensor.device.device_type == kDLCUDAHost;
}

}  // namespace

// -- Tensors ----------------------------------------------------------------------------------------------------------

shardproof_tensor HarnessSide::give(const Tensor& tensor, Shapes& shapes) {
  shardproof_tensor given{};
  if (!tensor.defined()) return given;
  given.view = view_of(tensor, shapes);
  if (tensor.storage()->buffer() != 0) given.buffer = &handle_of(tensor.storage(), "");
  return given;
}

Tensor HarnessSide::take(const shardproof_tensor& tensor, std::string_view what) const {
  const DLTensor& view = tensor.view;
  if (is_undefined(view)) return {};
  require_dimensions(view.ndim, view.shape, what);
  const auto it = [&](std::string_view why) { refuse(fmt::format("{}, {}", what, described(view)), why); };
  const DType dtype = word(dtype_from_c, view.dtype, what);
  Shape shape(view.shape, view.shape + view.ndim);
  if (!is_contiguous(view))
    it(fmt::format("strides {}: its elements have to lie row-major without gaps",
                   to_string(Shape(view.strides, view.strides + view.ndim))));
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::size_t>(numel(shape)), size_of(dtype), &bytes))
    it("more bytes than there can be");
  if (bytes > 0 && view.data == nullptr) it("it has elements and no data");
  auto begin = reinterpret_cast<std::uintptr_t>(view.data);
  std::uintptr_t end = 0;
  if ((view.data != nullptr && __builtin_add_overflow(begin, view.byte_offset, &begin)) ||
      __builtin_add_overflow(begin, bytes, &end))
    it("it ends after the last address");
  auto* const data = reinterpret_cast<std::byte*>(begin);

  if (tensor.buffer == nullptr) {
    if (!is_of_host(view))
      it(fmt::format("it names no buffer, but is not host memory: device type {}",
                     static_cast<int>(view.device.device_type)));
    if (begin % size_of(dtype) != 0)
      it(fmt::format("it begins at {}, which is not a multiple of the element size {}", static_cast<void*>(data),
                     size_of(dtype)));
    return {host_memory(data, bytes), dtype, std::move(shape)};
  }
  const std::shared_ptr<Storage>& memory = memory_of(tensor.buffer, what);
  const bool is_host = memory->space() == MemorySpace::host;
  if (is_host != is_of_host(view))
    it(fmt::format("device type {}; {} is memory of {}", static_cast<int>(view.device.device_type), tensor.buffer->name,
                   is_host ? "the host" : "a GPU"));
  if (bytes == 0) return {memory, dtype, std::move(shape)};
  require_written_as(*tensor.buffer, dtype, what);
  // Data before the buffer gives an offset that is larger than the buffer.
  const std::size_t offset = address(data) - address(memory->data());
  if (offset > memory->bytes() || bytes > memory->bytes() - offset)
    it(fmt::format("its {} bytes at {} are not all in {}: {} bytes at {}", bytes, static_cast<void*>(data),
                   tensor.buffer->name, memory->bytes(), static_cast<void*>(memory->data())));
  try {
    return {memory, dtype, std::move(shape), offset};
  } catch (const std::invalid_argument& error) {
    refuse(what, error.what());
  }
}

Tensor HarnessSide::take(const shardproof_span& span, std::string_view what) const {
  const DType dtype = word(dtype_from_c, span.dtype, what);
  if (span.buffer == nullptr) {
    if (span.count > 0) refuse(what, fmt::format("{} elements, but no buffer", span.count));
    return Tensor::host(dtype, {0});
  }
  const std::shared_ptr<Storage>& memory = memory_of(span.buffer, what);
  const std::size_t size = size_of(dtype);
  if (span.offset > memory->bytes() || span.count > (memory->bytes() - span.offset) / size)
    refuse(what, fmt::format("{} elements {} from byte {} on; {} has {} bytes", span.count, to_string(dtype),
                             span.offset, span.buffer->name, memory->bytes()));
  try {
    return Tensor(memory, dtype, {static_cast<std::int64_t>(span.count)}, span.offset);
  } catch (const std::invalid_argument& error) {
    refuse(what, error.what());
  }
}

std::vector<Tensor> HarnessSide::take(const shardproof_span* spans, std::size_t count, std::string_view what) const {
  std::vector<Tensor> taken;
  taken.reserve(count);
  if (count > 0) there(spans, what);
  for (std::size_t i = 0; i < count; ++i) taken.push_back(take(spans[i], fmt::format("{}[{}]", what, i)));
  return taken;
}

Stream HarnessSide::stream(std::uint32_t id, std::string_view what) const {
  const auto found = streams_.find(id);
  if (found == streams_.end())
    refuse(what, fmt::format("there is no stream {}; the subject has made {}", id, streams_.size() - 1));
  return found->second;
}

// -- Buffers ----------------------------------------------------------------------------------------------------------

shardproof_buffer& HarnessSide::find(shardproof_buffer* buffer, std::string_view what) const {
  there(buffer, what);
  if (!known_.contains(buffer)) refuse(what, "it is not a buffer of this device");
  if (!buffer->storage) refuse(what, fmt::format("{} was released, or let go of, before", buffer->name));
  return *buffer;
}

const std::shared_ptr<Storage>& HarnessSide::memory_of(shardproof_buffer* buffer, std::string_view what) const {
  return find(buffer, what).storage;
}

shardproof_buffer* HarnessSide::add(std::shared_ptr<Storage> storage, std::string_view label) {
  std::string name = fmt::format("buffer {} \"{}\"", storage->buffer(), label);
  shardproof_buffer& handle = buffers_.emplace_back(
      shardproof_buffer{.engine_context = *this, .storage = std::move(storage), .name = std::move(name)});
  known_.insert(&handle);
  handles_[handle.storage.get()] = &handle;
  return &handle;
}

shardproof_buffer& HarnessSide::handle_of(const std::shared_ptr<Storage>& storage, std::string_view label) {
  const auto found = handles_.find(storage.get());
  return found == handles_.end() ? *add(storage, label) : *found->second;
}

void HarnessSide::forget(shardproof_buffer& handle) {
  handle.is_subjects = false;
  handle.holds = handle.loans = 0;
  handles_.erase(handle.storage.get());
  handle.storage.reset();
}

void HarnessSide::forget_unless_needed(shardproof_buffer& handle) {
  if (!handle.is_subjects && handle.holds == 0 && handle.loans == 0) forget(handle);
}

void HarnessSide::lend(const Tensor& tensor, std::string_view label) {
  if (tensor.defined() && tensor.storage()->buffer() != 0) ++handle_of(tensor.storage(), label).loans;
}

void HarnessSide::end_loan(const Tensor& tensor) {
  const auto found = tensor.defined() ? handles_.find(tensor.storage().get()) : handles_.end();
  if (found == handles_.end()) return;
  shardproof_buffer& handle = *found->second;
  if (handle.loans > 0) --handle.loans;
  forget_unless_needed(handle);
}

void HarnessSide::hold(std::span<const Tensor> tensors, std::string_view label) {
  std::unordered_set<const shardproof_buffer*> held;
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined() || tensor.storage()->buffer() == 0) continue;
    shardproof_buffer& handle = handle_of(tensor.storage(), label);
    if (held.insert(&handle).second) ++handle.holds;
  }
}

std::vector<std::shared_ptr<Storage>> HarnessSide::left_alive() {
  std::vector<std::shared_ptr<Storage>> left;
  for (const shardproof_buffer& handle : buffers_) {
    if (handle.storage && (handle.is_subjects || handle.holds > 0)) left.push_back(handle.storage);
  }
  return left;
}

void HarnessSide::describe(shardproof_buffer* buffer, shardproof_memory memory, std::string_view label) {
  shardproof_buffer& described = find(buffer, "describe");
  device_.describe(described.storage, word(memory_from_c, memory, "describe"), label);
  described.name = fmt::format("buffer {} \"{}\"", described.storage->buffer(), label);
}

shardproof_buffer& HarnessSide::to_release(shardproof_buffer* buffer, std::string_view what) const {
  shardproof_buffer& found = find(buffer, what);
  if (!found.is_subjects && found.holds == 0)
    refuse(what, fmt::format("{} belongs to the harness, which only lends it", found.name));
  return found;
}

void HarnessSide::release(std::uint32_t id, shardproof_buffer* buffer) {
  const Stream on = stream(id, "release");
  shardproof_buffer& released = to_release(buffer, "release");
  device_.release(on, released.storage);
  forget(released);
}

void HarnessSide::release_to_cache(std::uint32_t id, shardproof_buffer* buffer) {
  const Stream on = stream(id, "release_to_cache");
  shardproof_buffer& released = to_release(buffer, "release_to_cache");
  device_.release_to_cache(on, released.storage);
  forget(released);
}

// A released buffer has no hold any more, so letting go of it does nothing.
void HarnessSide::let_go(shardproof_buffer* buffer) {
  there(buffer, "let_go");
  if (!known_.contains(buffer)) refuse("let_go", "it is not a buffer of this device");
  if (!buffer->storage) return;
  if (buffer->holds == 0) refuse("let_go", fmt::format("{} was let go of more often than it was given", buffer->name));
  --buffer->holds;
  forget_unless_needed(*buffer);
}

// -- Work and collectives ---------------------------------------------------------------------------------------------

void HarnessSide::submit(std::uint32_t id, const shardproof_work& work) {
  const std::string what = fmt::format("submit \"{}\"", text(work.label, "submit: the label"));
  Work given{.kind = word(work_from_c, work.kind, what),
             .label = work.label,
             .reads = take(work.reads, work.read_count, what + ": reads"),
             .writes = take(work.writes, work.write_count, what + ": writes"),
             .cost = work.cost_ns};
  if (work.cost_ns < 0) refuse(what, fmt::format("it costs {} ns; a cost must not be negative", work.cost_ns));
  // The subject's context is valid only until this returns.
  const auto is_over = std::make_shared<bool>(false);
  if (work.run != nullptr) {
    given.run = [this, is_over, what, run = work.run, context = work.context](const Kernels&, NativeStream native) {
      if (*is_over) throw std::logic_error(what + ": it runs after submit has returned");
      const Reply reply =
          call_subject(this, [&](shardproof_reply* answered) { return run(context, native, answered); });
      if (!reply.ok()) throw std::invalid_argument(reply.error());  // the device adds the work's name
    };
  }
  struct End {
    bool& is_over;
    ~End() { is_over = true; }
  } const end{*is_over};
  for (std::size_t i = 0; i < work.write_count; ++i) note_written(work.writes[i]);
  device_.submit(stream(id, what), std::move(given));
}

// Records the dtype of a span that `take` has checked.
void HarnessSide::note_written(const shardproof_span& span) {
  if (span.buffer != nullptr && span.count > 0) span.buffer->written.insert(dtype_from_c(span.dtype));
}

Communicator& HarnessSide::communicator(const shardproof_group* group, std::string_view what) const {
  Communicator* const found = there(group, what).communicator;
  if (found == nullptr) refuse(what, "this group was already dropped");
  return *found;
}

shardproof_group* HarnessSide::add(std::unique_ptr<Communicator> part) {
  if (!part) return nullptr;
  Communicator* const communicator = part.get();
  return &groups_.emplace_back(
      shardproof_group{.engine_context = *this, .own = std::move(part), .communicator = communicator});
}

Collective HarnessSide::take(const shardproof_collective& collective, int rank, const std::string& what) {
  Collective given{.kind = word(collective_from_c, collective.kind, what),
                   .op = word(op_from_c, collective.op, what),
                   .factor = collective.op == SHARDPROOF_OP_PREMUL_SUM ? collective.factor : 1.0,
                   .root = collective.kind == SHARDPROOF_BROADCAST ? collective.root : -1,
                   .tag = collective.tag};
  if (given.kind == CollectiveKind::barrier) return given;
  given.out = take(collective.out, what + ": out");
  // A rank that is not the root may leave `in` empty. Then the broadcast is in place.
  const bool is_absent =
      given.kind == CollectiveKind::broadcast && collective.in.buffer == nullptr && collective.root != rank;
  given.in = is_absent ? given.out : take(collective.in, what + ": in");
  if (collective.in.buffer != nullptr && collective.in.count > 0)
    require_written_as(*collective.in.buffer, given.in.dtype(), what + ": in");
  note_written(collective.out);
  return given;
}

void HarnessSide::run(const shardproof_group* group, std::uint32_t id, const shardproof_collective& collective) {
  const std::string what = fmt::format("run \"{}\"", text(collective.tag, "run: the tag"));
  Communicator& ranks = communicator(group, what);
  const Collective given = take(collective, ranks.rank(), what);
  ranks.run(stream(id, what), given);
}

void HarnessSide::run_coalesced(const shardproof_group* group, std::uint32_t id,
                                const shardproof_collective* collectives, std::size_t count) {
  const std::string call = "run_coalesced";
  Communicator& ranks = communicator(group, call);
  if (count > 0) there(collectives, call + ": the collectives");
  std::vector<Collective> given;
  for (std::size_t i = 0; i < count; ++i)
    given.push_back(take(collectives[i], ranks.rank(),
                         fmt::format("{} \"{}\"", call, text(collectives[i].tag, call + ": the tag"))));
  ranks.run_coalesced(stream(id, call), given);
}

// -- The table --------------------------------------------------------------------------------------------------------

struct HarnessSide::Functions {
  static const char* error(shardproof_device* device) {
    if (device == nullptr) return "";
    return device->engine_context.thread_.is_this() ? device->engine_context.error_.c_str() : OwnThread::objection;
  }
  static void fail(shardproof_reply* reply, const char* text) {
    if (reply == nullptr || !reply->thread.is_this()) return;
    reply->has_failed = true;
    reply->error = text == nullptr ? "" : text;
  }
  static void warn(shardproof_reply* reply, const char* text) {
    if (reply != nullptr && text != nullptr && reply->thread.is_this()) reply->warnings.emplace_back(text);
  }

  // Runs the call on the engine context. Without an engine context, it can only return the failure.
  template <class Call>
  static shardproof_status at(shardproof_device* device, Call&& call) {
    if (device == nullptr) return SHARDPROOF_FAILED;
    return device->engine_context.guarded([&] { call(device->engine_context); });
  }
  template <class Call>
  static shardproof_status at(const shardproof_group* group, Call&& call) {
    if (group == nullptr) return SHARDPROOF_FAILED;
    return group->engine_context.guarded([&] { call(group->engine_context); });
  }

  static shardproof_status create_stream(shardproof_device* device, shardproof_stream_role role, const char* name,
                                         std::uint32_t* stream) {
    return at(device, [&](HarnessSide& engine_context) {
      there(stream, "create_stream: the pointer for its number");
      const Stream made = engine_context.device_.create_stream(word(role_from_c, role, "create_stream"),
                                                               text(name, "create_stream: the name"));
      engine_context.streams_[made.id] = made;
      *stream = made.id;
    });
  }
  static shardproof_status submit(shardproof_device* device, std::uint32_t stream, const shardproof_work* work) {
    return at(device,
              [&](HarnessSide& engine_context) { engine_context.submit(stream, there(work, "submit: the work")); });
  }
  static shardproof_status record(shardproof_device* device, std::uint32_t stream, std::uint64_t* event) {
    return at(device, [&](HarnessSide& engine_context) {
      there(event, "record: the pointer for its number") =
          engine_context.device_.record(engine_context.stream(stream, "record")).id;
    });
  }
  static shardproof_status wait(shardproof_device* device, std::uint32_t stream, std::uint64_t event) {
    return at(device, [&](HarnessSide& engine_context) {
      engine_context.device_.wait(engine_context.stream(stream, "wait"), Event{event});
    });
  }
  static shardproof_status synchronize_stream(shardproof_device* device, std::uint32_t stream) {
    return at(device, [&](HarnessSide& engine_context) {
      engine_context.device_.synchronize(engine_context.stream(stream, "synchronize_stream"));
    });
  }
  static shardproof_status synchronize_event(shardproof_device* device, std::uint64_t event) {
    return at(device, [&](HarnessSide& engine_context) { engine_context.device_.synchronize(Event{event}); });
  }
  static shardproof_status synchronize(shardproof_device* device) {
    return at(device, [&](HarnessSide& engine_context) { engine_context.device_.synchronize(); });
  }

  static shardproof_status allocate(shardproof_device* device, std::uint32_t stream, std::size_t bytes,
                                    shardproof_memory memory, const char* label, shardproof_buffer** buffer) {
    return at(device, [&](HarnessSide& engine_context) {
      there(buffer, "allocate: the pointer for the buffer");
      const std::string_view name = text(label, "allocate: the label");
      *buffer = engine_context.add(engine_context.device_.allocate(engine_context.stream(stream, "allocate"), bytes,
                                                                   word(memory_from_c, memory, "allocate"), name),
                                   name);
      (*buffer)->is_subjects = true;
    });
  }
  static shardproof_status adopt(shardproof_device* device, std::uint32_t stream, void* data, std::size_t bytes,
                                 shardproof_memory memory, const char* label, shardproof_buffer** buffer) {
    return at(device, [&](HarnessSide& engine_context) {
      there(buffer, "adopt: the pointer for the buffer");
      const std::string_view name = text(label, "adopt: the label");
      auto storage = engine_context.device_.adopt(engine_context.stream(stream, "adopt"), static_cast<std::byte*>(data),
                                                  bytes, word(memory_from_c, memory, "adopt"), name);
      *buffer = engine_context.add(std::move(storage), name);
      (*buffer)->is_subjects = true;
    });
  }
  static shardproof_status describe(shardproof_device* device, shardproof_buffer* buffer, shardproof_memory memory,
                                    const char* label) {
    return at(device, [&](HarnessSide& engine_context) {
      engine_context.describe(buffer, memory, text(label, "describe: the label"));
    });
  }
  static shardproof_status release(shardproof_device* device, std::uint32_t stream, shardproof_buffer* buffer) {
    return at(device, [&](HarnessSide& engine_context) { engine_context.release(stream, buffer); });
  }
  static shardproof_status release_to_cache(shardproof_device* device, std::uint32_t stream,
                                            shardproof_buffer* buffer) {
    return at(device, [&](HarnessSide& engine_context) { engine_context.release_to_cache(stream, buffer); });
  }
  static bool is_there(shardproof_buffer* buffer) {
    return buffer != nullptr && buffer->engine_context.thread_.is_this() && buffer->storage;
  }
  static void* data(shardproof_buffer* buffer) {
    return is_there(buffer) ? static_cast<void*>(buffer->storage->data()) : nullptr;
  }
  static std::size_t bytes(shardproof_buffer* buffer) { return is_there(buffer) ? buffer->storage->bytes() : 0; }
  static void let_go(shardproof_device* device, shardproof_buffer* buffer) {
    at(device, [&](HarnessSide& engine_context) { engine_context.let_go(buffer); });
  }
  static shardproof_status host_access(shardproof_device* device, const char* label, const shardproof_span* reads,
                                       std::size_t read_count, const shardproof_span* writes, std::size_t write_count) {
    return at(device, [&](HarnessSide& engine_context) {
      engine_context.device_.host_access(text(label, "host_access: the label"),
                                         engine_context.take(reads, read_count, "host_access: reads"),
                                         engine_context.take(writes, write_count, "host_access: writes"));
      for (std::size_t i = 0; i < write_count; ++i) note_written(writes[i]);
    });
  }

  static bool is_there(const shardproof_group* group) {
    return group != nullptr && group->engine_context.thread_.is_this() && group->communicator != nullptr;
  }
  static int group_rank(shardproof_group* group) { return is_there(group) ? group->communicator->rank() : -1; }
  static int group_size(shardproof_group* group) { return is_there(group) ? group->communicator->size() : 0; }
  static const int* group_members(shardproof_group* group) {
    return is_there(group) ? group->communicator->members().data() : nullptr;
  }
  static shardproof_status run(shardproof_group* group, std::uint32_t stream, const shardproof_collective* collective) {
    return at(group, [&](HarnessSide& engine_context) {
      engine_context.run(group, stream, there(collective, "run: the collective"));
    });
  }
  static shardproof_status run_coalesced(shardproof_group* group, std::uint32_t stream,
                                         const shardproof_collective* collectives, std::size_t count) {
    return at(group,
              [&](HarnessSide& engine_context) { engine_context.run_coalesced(group, stream, collectives, count); });
  }
  static shardproof_status split(shardproof_group* group, int color, int key, const char* name,
                                 shardproof_group** part) {
    return at(group, [&](HarnessSide& engine_context) {
      there(part, "split: the pointer for the group");
      *part = engine_context.add(
          engine_context.communicator(group, "split").split(color, key, text(name, "split: the name")));
    });
  }
  static void drop_group(shardproof_group* part) {
    at(part, [&](HarnessSide& engine_context) {
      engine_context.communicator(part, "drop_group");
      if (!part->own) refuse("drop_group", "the world group belongs to the harness");
      part->communicator = nullptr;
      part->own.reset();
    });
  }
};

const shardproof_harness& HarnessSide::functions() {
  static constexpr shardproof_harness table{.abi_version = SHARDPROOF_ABI_VERSION,
                                            .size = sizeof(shardproof_harness),
                                            .error = Functions::error,
                                            .fail = Functions::fail,
                                            .warn = Functions::warn,
                                            .create_stream = Functions::create_stream,
                                            .submit = Functions::submit,
                                            .record = Functions::record,
                                            .wait = Functions::wait,
                                            .synchronize_stream = Functions::synchronize_stream,
                                            .synchronize_event = Functions::synchronize_event,
                                            .synchronize = Functions::synchronize,
                                            .allocate = Functions::allocate,
                                            .adopt = Functions::adopt,
                                            .describe = Functions::describe,
                                            .release = Functions::release,
                                            .release_to_cache = Functions::release_to_cache,
                                            .data = Functions::data,
                                            .bytes = Functions::bytes,
                                            .let_go = Functions::let_go,
                                            .host_access = Functions::host_access,
                                            .group_rank = Functions::group_rank,
                                            .group_size = Functions::group_size,
                                            .group_members = Functions::group_members,
                                            .run = Functions::run,
                                            .split = Functions::split,
                                            .drop_group = Functions::drop_group,
                                            .run_coalesced = Functions::run_coalesced};
  return table;
}

HarnessSide::HarnessSide(const EngineContext& engine_context) : device_(engine_context.device) {
  groups_.emplace_back(
      shardproof_group{.engine_context = *this, .own = nullptr, .communicator = &engine_context.world});
  in_c_ = {.harness = &functions(), .device = &handle_, .world = &groups_.front(), .rank = engine_context.rank};
}

void HarnessSide::note(std::string text) {
  if (text.empty()) text = "no reason was given";
  if (!first_failure_) first_failure_ = text;
  error_ = std::move(text);
}

std::optional<std::string> HarnessSide::take_first_failure() {
  std::optional<std::string> first = std::exchange(first_failure_, std::nullopt);
  if (thread_.take_stray() && !first) first = OwnThread::objection;
  return first;
}

namespace {

/// The reply for a call that returned. A call that has called `fail` and returns 0 has failed, too.
Reply reply_to(shardproof_status returned, const shardproof_reply& said) {
  CallStatus status = CallStatus::failed;
  try {
    status = status_from_c(returned);
  } catch (const std::invalid_argument& objection) {
    return Reply::failed(
        fmt::format("its status: {}{}{}", objection.what(), said.error.empty() ? "" : "; it said: ", said.error));
  }
  if (status == CallStatus::ok && !said.has_failed) return {};
  if (said.error.empty())
    return Reply::of(status == CallStatus::ok ? CallStatus::failed : status,
                     fmt::format("it failed (it returned {}) and gave no reason", returned));
  if (status == CallStatus::ok)
    return Reply::failed(fmt::format("it returned 0, which is success, but reported a failure: {}", said.error));
  return Reply::of(status, said.error);
}

}  // namespace

Reply call_subject(HarnessSide* engine_context, const std::function<shardproof_status(shardproof_reply*)>& call) {
  shardproof_reply said;
  Reply reply;
  try {
    reply = reply_to(call(&said), said);
  } catch (const std::exception& thrown) {
    reply = Reply::failed(fmt::format("it threw across the boundary: {}", thrown.what()));
  } catch (...) {
    reply = Reply::failed("it threw something across the boundary that is not a std::exception");
  }
  std::optional<std::string> failure;
  if (engine_context != nullptr) failure = engine_context->take_first_failure();
  if (said.thread.take_stray() && !failure) failure = OwnThread::objection;
  if (failure) {
    reply = Reply::failed(reply.ok() ? fmt::format("it continued after a harness function had failed: {}", *failure)
                                     : reply.error());
  }
  reply.warnings = std::move(said.warnings);
  return reply;
}

}  // namespace shardproof::subject::abi
