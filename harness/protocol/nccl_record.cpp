#include "harness/protocol/nccl_record.hpp"
#include "harness/base/enum_names.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

#include "harness/base/file_descriptor.hpp"
#include "harness/base/shared_memory.hpp"
#include "harness/base/utf8.hpp"

namespace shardproof::protocol {

using base::FileDescriptor;

namespace {

constexpr std::uint64_t record_magic = 0x7061742d70726873;  // "shrp-tap"
constexpr std::uint32_t record_version = 2;
// Largest number of rounds by which a slot can lag: that many threads would be about to write to it.
constexpr std::uint64_t most_laps = 1000;
// A header that claims more is damaged, and no memory is reserved for it.
constexpr std::uint32_t most_slots = 1U << 20U;

template <std::size_t Capacity>
void set_text(std::array<char, Capacity>& to, std::string_view text) {
  to.fill('\0');
  std::copy_n(text.begin(), base::length_within(text, Capacity - 1), to.begin());
}

template <std::size_t Capacity>
std::string text_of(const std::array<char, Capacity>& from) {
  return {from.begin(), std::ranges::find(from, '\0')};
}

// The content of slots: plain data without pointers.

struct ProcessWords {
  std::int64_t pid, rank, started_ns;
  std::array<char, 504> faults;
};

struct LibraryWords {
  std::int64_t version;
  std::array<char, 248> path;
};

struct CommunicatorWords {
  std::uint64_t key, handle;
  std::int32_t id, origin, state, size, rank, parent;
  std::array<char, 64> name;
};

// The file has this order: this header, process, library, communicators, calls, and the number of calls that were
// begun. That number is last, so a reader of a copy finds no call that was not begun.

struct FileHeader {
  std::atomic<std::uint64_t> magic;  ///< set last
  std::uint32_t version;
  std::uint32_t call_bytes;  ///< sizeof(Slot<Call>)
  std::uint32_t calls, communicators;
  std::uint64_t bytes;
};

struct RecordLayout {
  explicit constexpr RecordLayout(TapWriter::Room room)
      : communicators(library + sizeof(Slot<LibraryWords>)),
        calls(communicators + room.communicators * sizeof(Slot<CommunicatorWords>)),
        begun(calls + room.calls * sizeof(Slot<Call>)),
        bytes(begun + sizeof(std::uint64_t)) {}

  static constexpr std::size_t process = sizeof(FileHeader);
  static constexpr std::size_t library = process + sizeof(Slot<ProcessWords>);
  std::size_t communicators, calls, begun, bytes;
};

/// A part of a file's memory, or of a copy of it, as a T. T consists of atomic words and numbers, for which zero bytes
/// are a valid value.
template <class T>
T& part(std::byte* memory, std::size_t offset, std::size_t index = 0) {
  return reinterpret_cast<T*>(memory + offset)[index];
}

template <class T>
const T& part(const std::byte* memory, std::size_t offset, std::size_t index = 0) {
  return reinterpret_cast<const T*>(memory + offset)[index];
}

/// The first communicator, mostly the world, is kept forever.
std::size_t slot_of_communicator(std::uint64_t id, std::uint32_t slots) {
  return id == 0 ? 0 : 1 + (id - 1) % (slots - 1);
}

}  // namespace

std::string_view to_string(Communicator::State state) {
  return base::name_of<Communicator::State::ended>(state, {"coming", "alive", "failed", "ended"});
}

const Communicator* TapRecord::find(int id) const {
  const auto found = std::ranges::find(communicators, id, &Communicator::id);
  return found == communicators.end() ? nullptr : &*found;
}

// -- Writing ----------------------------------------------------------------------------------------------------------

namespace {

std::system_error record_error(int error, const char* operation, const std::filesystem::path& file) {
  return {error, std::generic_category(), fmt::format("{} {}", operation, file.string())};
}

/// Opens a new file. `where` becomes its name.
FileDescriptor create_record(std::filesystem::path& where, std::int64_t pid) {
  const bool is_directory = std::filesystem::is_directory(where);
  const std::string first = is_directory ? (where / fmt::format("nccl-{}.tap", pid)).string() : where.string();
  const std::string later =
      is_directory ? (where / fmt::format("nccl-{}", pid)).string() : fmt::format("{}.{}", first, pid);
  for (int attempt = 0; attempt < 1000; ++attempt) {
    if (attempt == 0) {
      where = first;
    } else if (is_directory) {
      where = fmt::format("{}.{}.tap", later, attempt);
    } else {
      where = attempt == 1 ? later : fmt::format("{}.{}", later, attempt - 1);
    }
    FileDescriptor file(::open(where.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (file) return file;
    if (errno != EEXIST) throw record_error(errno, "creating", where);
  }
  throw record_error(EEXIST, "creating", where);
}

/// Maps the memory of a new file. `where` becomes its name.
std::byte* map_record(std::filesystem::path& where, std::int64_t pid, std::size_t bytes) {
  const FileDescriptor file = create_record(where, pid);
  try {
    if (const int error = base::take_room(file.get(), bytes)) throw record_error(error, "taking room for", where);
    return base::map_shared(file.get(), bytes, where.string());
  } catch (...) {
    ::unlink(where.c_str());
    throw;
  }
}

}  // namespace

Mapping::~Mapping() { ::munmap(memory_, bytes_); }

TapWriter::TapWriter(std::filesystem::path where, const TapProcess& process, Room room)
    : file_(std::move(where)),
      room_(room),
      memory_(map_record(file_, process.pid, RecordLayout(room).bytes), RecordLayout(room).bytes) {
  auto& header = part<FileHeader>(memory_.get(), 0);
  header.version = record_version;
  header.call_bytes = sizeof(Slot<Call>);
  header.calls = room.calls;
  header.communicators = room.communicators;
  header.bytes = RecordLayout(room).bytes;
  ProcessWords words{
      .pid = process.pid, .rank = process.rank.value_or(-1), .started_ns = process.started_ns, .faults = {}};
  set_text(words.faults, process.faults);
  part<Slot<ProcessWords>>(memory_.get(), RecordLayout::process).write(0, words);
  header.magic.store(record_magic, std::memory_order_release);
}

void TapWriter::enter(Call& call) {
  const RecordLayout layout(room_);
  call.number = part<std::atomic<std::uint64_t>>(memory_.get(), layout.begun).fetch_add(1, std::memory_order_acq_rel);
  update(call);
}

void TapWriter::update(const Call& call) {
  part<Slot<Call>>(memory_.get(), RecordLayout(room_).calls, call.number % room_.calls).write(call.number, call);
}

void TapWriter::write(const Communicator& communicator) {
  CommunicatorWords words{.key = communicator.key,
                          .handle = communicator.handle,
                          .id = communicator.id,
                          .origin = communicator.origin ? static_cast<std::int32_t>(*communicator.origin) : -1,
                          .state = static_cast<std::int32_t>(communicator.state),
                          .size = communicator.size,
                          .rank = communicator.rank,
                          .parent = communicator.parent,
                          .name = {}};
  set_text(words.name, communicator.name);
  const auto id = static_cast<std::uint64_t>(communicator.id);
  part<Slot<CommunicatorWords>>(memory_.get(), RecordLayout(room_).communicators,
                                slot_of_communicator(id, room_.communicators))
      .write(id, words);
}

void TapWriter::write(const TapLibrary& library) {
  LibraryWords words{.version = library.version, .path = {}};
  set_text(words.path, library.path);
  part<Slot<LibraryWords>>(memory_.get(), RecordLayout::library).write(0, words);
}

// -- Reading ----------------------------------------------------------------------------------------------------------

namespace {

class Reader {
 public:
  /// `earlier` is an earlier copy of the file, or empty. A part that is incomplete here and differs from `earlier` is
  /// being written.
  Reader(std::span<const std::byte> bytes, std::span<const std::byte> earlier, const std::string& name)
      : words_((bytes.size() + 7) / 8), bytes_(bytes.size()), earlier_(earlier), name_(name) {
    std::ranges::copy(bytes, reinterpret_cast<std::byte*>(words_.data()));
  }

  TapRecord read() const {
    const TapWriter::Room room = check_header();
    const RecordLayout layout(room);
    TapRecord record;
    read_process(record.process);
    read_library(record.library);
    for (std::uint32_t slot = 0; slot < room.communicators; ++slot) read_communicator(room, layout, slot, record);
    std::ranges::sort(record.communicators, {}, &Communicator::id);
    record.begun = part<std::atomic<std::uint64_t>>(memory_, layout.begun).load(std::memory_order_acquire);
    for (std::uint32_t slot = 0; slot < room.calls; ++slot) read_call(room, layout, slot, record);
    std::ranges::sort(record.calls, {}, &Call::number);
    record.missing = std::min<std::uint64_t>(record.begun, room.calls) - record.calls.size();
    return record;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw RecordError(fmt::format("reading the record of NCCL calls {}: {}", name_, why));
  }

  template <class... Parts>
  [[noreturn]] void damaged(fmt::format_string<Parts...> what, Parts&&... parts) const {
    refuse(fmt::format("{}; the file is damaged: do not rely on its content",
                       fmt::format(what, std::forward<Parts>(parts)...)));
  }

  TapWriter::Room check_header() const {
    if (bytes_ < RecordLayout::library)
      refuse(fmt::format(
          "it has {} bytes, fewer than its header; its process died while making it, or the file was cut", bytes_));
    const auto& header = part<FileHeader>(memory_, 0);
    const std::uint64_t magic = header.magic.load(std::memory_order_acquire);
    if (magic == 0) refuse("it has no content yet; its process is making it, or died while making it");
    if (magic != record_magic) refuse("it is not a record of NCCL calls: its first bytes differ");
    if (header.version != record_version || header.call_bytes != sizeof(Slot<Call>)) {
      refuse(
          fmt::format("it has format {} with {} bytes for a call, and this program reads format {} with {}; read it "
                      "with the version of shardproof that wrote it",
                      header.version, header.call_bytes, record_version, sizeof(Slot<Call>)));
    }
    const TapWriter::Room room{.calls = header.calls, .communicators = header.communicators};
    if (room.calls == 0 || room.calls > most_slots || room.communicators < 2 || room.communicators > most_slots) {
      damaged("its header has room for {} calls and {} communicators", room.calls, room.communicators);
    }
    const std::size_t expected = RecordLayout(room).bytes;
    if (header.bytes != expected) damaged("its header claims {} bytes where its parts take {}", header.bytes, expected);
    if (bytes_ != expected)
      refuse(fmt::format("it has {} bytes, expected {}; the file was cut or extended", bytes_, expected));
    return room;
  }

  bool is_being_written(std::size_t offset, std::size_t bytes) const {
    return earlier_.size() == bytes_ && !std::equal(memory_ + offset, memory_ + offset + bytes,
                                                    earlier_.begin() + static_cast<std::ptrdiff_t>(offset));
  }

  void read_process(TapProcess& process) const {
    ProcessWords words;
    std::uint64_t number = 0;
    const SlotState state = part<Slot<ProcessWords>>(memory_, RecordLayout::process).read(number, words);
    if (state != SlotState::readable || number != 0) damaged("the part about its process does not match its digest");
    if (words.rank > std::numeric_limits<int>::max()) damaged("its process is rank {}", words.rank);
    process.pid = words.pid;
    if (words.rank >= 0) process.rank = static_cast<int>(words.rank);
    process.started_ns = words.started_ns;
    process.faults = text_of(words.faults);
  }

  void read_library(TapLibrary& library) const {
    LibraryWords words;
    std::uint64_t number = 0;
    const SlotState state = part<Slot<LibraryWords>>(memory_, RecordLayout::library).read(number, words);
    if (state == SlotState::damaged || number != 0) damaged("the part about its NCCL does not match its digest");
    if (state != SlotState::readable) return;
    library.version = static_cast<int>(words.version);
    library.path = text_of(words.path);
  }

  void read_communicator(TapWriter::Room room, const RecordLayout& layout, std::uint32_t slot,
                         TapRecord& record) const {
    CommunicatorWords words;
    std::uint64_t number = 0;
    const SlotState state = part<Slot<CommunicatorWords>>(memory_, layout.communicators, slot).read(number, words);
    if (state == SlotState::empty || state == SlotState::being_written) return;
    if (state == SlotState::damaged || slot_of_communicator(number, room.communicators) != slot || words.id < 0 ||
        static_cast<std::uint64_t>(words.id) != number || words.origin < -1 ||
        words.origin > static_cast<int>(last_call_kind) || words.state < 0 ||
        words.state > static_cast<int>(Communicator::State::ended)) {
      if (is_being_written(layout.communicators + slot * sizeof(Slot<CommunicatorWords>),
                           sizeof(Slot<CommunicatorWords>)))
        return;
      damaged("the communicator in slot {} does not match its digest, or contradicts itself", slot);
    }
    Communicator& communicator = record.communicators.emplace_back();
    communicator.id = words.id;
    if (words.origin >= 0) communicator.origin = static_cast<CallKind>(words.origin);
    communicator.state = static_cast<Communicator::State>(words.state);
    communicator.size = words.size;
    communicator.rank = words.rank;
    communicator.parent = words.parent;
    communicator.key = words.key;
    communicator.handle = words.handle;
    communicator.name = text_of(words.name);
  }

  void read_call(TapWriter::Room room, const RecordLayout& layout, std::uint32_t slot, TapRecord& record) const {
    Call call;
    std::uint64_t number = 0;
    const SlotState state = part<Slot<Call>>(memory_, layout.calls, slot).read(number, call);
    if (state == SlotState::empty) return;
    const bool is_placed =
        number % room.calls == slot && number < record.begun && number + most_laps * room.calls >= record.begun;
    if (state == SlotState::damaged || !is_placed) {
      if (is_being_written(layout.calls + slot * sizeof(Slot<Call>), sizeof(Slot<Call>))) return;
      if (state == SlotState::damaged) damaged("the call in slot {} does not match its digest", slot);
      damaged("call {} is in slot {} of {}, but {} calls were begun", number, slot, room.calls, record.begun);
    }
    // Not written yet, or about to be overwritten.
    if (state == SlotState::being_written || number + room.calls < record.begun) return;
    if (call.number != number || call.kind > last_call_kind || call.fate > Fate::swapped)
      damaged("call {} is of no known kind", number);
    if (call.place < -1 || (call.place >= 0 && static_cast<std::uint64_t>(call.place) >= record.begun))
      damaged("call {} is in place {}, but {} calls were begun", number, call.place, record.begun);
    record.calls.push_back(call);
  }

  std::vector<std::uint64_t> words_;  ///< the bytes, aligned for the types in them
  const std::byte* memory_ = reinterpret_cast<const std::byte*>(words_.data());
  std::size_t bytes_;
  std::span<const std::byte> earlier_;
  const std::string& name_;
};

/// All bytes of a file. Bytes that are appended while it reads are left out.
std::vector<std::byte> bytes_of(const std::filesystem::path& file) {
  const FileDescriptor open(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  if (!open || ::fstat(open.get(), &status) != 0) {
    const std::error_code why(errno, std::generic_category());
    throw RecordError(fmt::format("opening the record of NCCL calls {}: {}", file.string(), why.message()));
  }
  constexpr off_t most = 1L << 30U;
  if (!S_ISREG(status.st_mode) || status.st_size > most) {
    throw RecordError(fmt::format("reading the record of NCCL calls {}: it is {}", file.string(),
                                  S_ISREG(status.st_mode) ? "too large for a record" : "not a regular file"));
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::pread(open.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const std::error_code why(errno, std::generic_category());
      throw RecordError(fmt::format("reading the record of NCCL calls {}: {}", file.string(), why.message()));
    }
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace

TapRecord read_tap(std::span<const std::byte> bytes, const std::string& name) { return Reader(bytes, {}, name).read(); }

TapRecord read_tap(const std::filesystem::path& file) {
  // A copy can look damaged when the process writes at the same time. A later copy then differs, but real damage stays.
  std::vector<std::byte> earlier;
  for (int attempt = 0;; ++attempt) {
    std::vector<std::byte> bytes = bytes_of(file);
    try {
      return Reader(bytes, earlier, file.string()).read();
    } catch (const RecordError&) {
      if (attempt == 8 || bytes == earlier) throw;
    }
    earlier = std::move(bytes);
  }
}

}  // namespace shardproof::protocol
