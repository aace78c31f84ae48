#include "harness/runner/crash_handler.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

#include "harness/protocol/crash_record.hpp"
#include "harness/protocol/world_plan.hpp"

namespace shardproof::runner {

using protocol::crash_signals;
using protocol::CrashHeader;

namespace {

constexpr std::size_t alternate_stack_bytes = std::size_t{64} << 10;

/// The state of the handler. A signal handler has no parameters, so it must be static.
struct HandlerState {
  pid_t process = 0;
  std::array<char, PATH_MAX> file{};
  std::atomic<pid_t> crashed_thread{0};  ///< the thread that crashed first
  std::atomic<int> crash{0};  ///< its signal
  int rank = -1;  ///< the rank of this process; -1: its threads are ranks
  pid_t rank_thread = 0;  ///< the main thread of `rank`
  std::array<std::atomic<pid_t>, protocol::max_threads> threads{};  ///< by rank, if threads are ranks
  std::array<char, 4096> buffer{};
};
constinit HandlerState state;

pid_t this_thread() { return static_cast<pid_t>(::syscall(SYS_gettid)); }

// -- In the handler: only system calls -------------------------------------------------------------------------------

/// Ends the process by this signal after a second, if the handler hangs: in a file system, for example. The kernel
/// keeps the time, so this also works in a process without a launcher.
void limit_time(int number) {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = number;
  event.sigev_value.sival_ptr = &state;
  int timer = 0;
  if (::syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) != 0) return;
  const itimerspec in_a_second{.it_interval = {}, .it_value = {.tv_sec = 1, .tv_nsec = 0}};
  ::syscall(SYS_timer_settime, timer, 0, &in_a_second, nullptr);
}

bool is_time_limit(const siginfo_t& info) { return info.si_code == SI_TIMER && info.si_value.sival_ptr == &state; }

/// Returns false if there is no space.
bool write_at(int file, std::size_t offset, const void* bytes, std::size_t size) {
  return ::pwrite(file, bytes, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
}

/// The rank that the thread belongs to, or -1.
std::int32_t rank_of(pid_t thread) {
  if (state.rank >= 0) return thread == state.rank_thread ? state.rank : -1;
  for (std::size_t rank = 0; rank < state.threads.size(); ++rank) {
    if (state.threads[rank].load(std::memory_order_relaxed) == thread) return static_cast<std::int32_t>(rank);
  }
  return -1;
}

void keep_registers(CrashHeader& header, const ucontext_t& context) {
#if defined(__x86_64__)
  constexpr std::array in_dwarf{REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
                                REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
  for (const int number : in_dwarf)
    header.registers[header.registers_kept++] = static_cast<std::uint64_t>(context.uc_mcontext.gregs[number]);
  header.program_counter = static_cast<std::uint64_t>(context.uc_mcontext.gregs[REG_RIP]);
  header.stack_pointer = static_cast<std::uint64_t>(context.uc_mcontext.gregs[REG_RSP]);
#elif defined(__aarch64__)
  for (const auto value : context.uc_mcontext.regs) header.registers[header.registers_kept++] = value;
  header.registers[header.registers_kept++] = context.uc_mcontext.sp;
  header.program_counter = context.uc_mcontext.pc;
  header.stack_pointer = context.uc_mcontext.sp;
#else
  static_cast<void>(context);
#endif
}

/// Saves the stack page by page, from the stack pointer up. The kernel reads it, so a page that is not mapped is an
/// error and no second crash. After an overflow, the stack pointer is below the mapped pages. Returns false if there is
/// no space.
bool save_stack(int file, CrashHeader& header) {
  constexpr std::uint64_t page = 4096, red_zone = 128, most_skipped = std::uint64_t{16} << 20;
  std::uint64_t at = header.stack_pointer - red_zone;
  const std::uint64_t last_begin = at + most_skipped;
  while (header.stack_bytes < CrashHeader::most_stack && at < last_begin + CrashHeader::most_stack) {
    const std::uint64_t size = std::min(page - at % page, CrashHeader::most_stack - header.stack_bytes);
    const auto* const bytes =
        reinterpret_cast<const void*>(at);  // NOLINT(performance-no-int-to-ptr): a register's value
    const ssize_t written =
        ::pwrite(file, bytes, size, static_cast<off_t>(CrashHeader::stack_offset + header.stack_bytes));
    const bool is_unmapped = written < 0 && errno == EFAULT;
    if (is_unmapped && header.stack_bytes == 0 && at < last_begin) {
      at += size;
      continue;
    }
    if (written <= 0) return is_unmapped;
    if (header.stack_bytes == 0) header.stack_begin = at;
    header.stack_bytes += static_cast<std::uint64_t>(written);
    at += static_cast<std::uint64_t>(written);
  }
  return true;
}

/// Returns false if there is no space.
bool save_map(int file, CrashHeader& header) {
  const int map = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (map < 0) return true;  // the record has no map, and the launcher says so
  bool is_saved = true;
  while (header.map_bytes + state.buffer.size() <= CrashHeader::most_map) {
    const ssize_t size = ::read(map, state.buffer.data(), state.buffer.size());
    if (size <= 0) break;
    const std::size_t offset = CrashHeader::map_offset + header.map_bytes;
    is_saved = is_saved && write_at(file, offset, state.buffer.data(), static_cast<std::size_t>(size));
    header.map_bytes += static_cast<std::uint64_t>(size);
  }
  ::close(map);
  return is_saved;
}

void write_record(int number, const siginfo_t& info, const ucontext_t& context, pid_t thread) {
  const int file = ::open(state.file.data(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return;
  CrashHeader header;
  header.signal = number;
  header.code = info.si_code;
  if (info.si_code == SI_USER || info.si_code == SI_TKILL || info.si_code == SI_QUEUE) header.sender = info.si_pid;
  else header.address = reinterpret_cast<std::uint64_t>(info.si_addr);
  if (header.sender == state.process) header.sender = 0;
  header.thread = thread;
  header.rank = rank_of(thread);
  ::prctl(PR_GET_NAME, header.thread_name.data(), 0, 0, 0);
  keep_registers(header, context);
  write_at(file, 0, &header, sizeof header);  // it remains if the time limit ends the handler
  const bool has_stack = save_stack(file, header), has_map = save_map(file, header);
  header.is_complete = has_stack && has_map ? 1 : 0;
  write_at(file, 0, &header, sizeof header);
  ::close(file);
}

/// Gives the signal its default effect, and sends it again. It arrives when the handler returns. So a core has the
/// registers of the crash, and the process ends as it would without the handler.
void end_by(int number, const siginfo_t* info, ucontext_t& context) {
  struct sigaction plain{};
  plain.sa_handler = SIG_DFL;
  ::sigaction(number, &plain, nullptr);
  sigset_t blocked;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, number);
  ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
  ::sigdelset(&context.uc_sigmask, number);
  const pid_t process = ::getpid(), thread = this_thread();
  siginfo_t copy{};
  if (info != nullptr) copy = *info;
  if (info == nullptr || ::syscall(SYS_rt_tgsigqueueinfo, process, thread, number, &copy) != 0)
    ::syscall(SYS_tgkill, process, thread, number);
}

void handle_crash(int number, siginfo_t* info, void* context_of_crash) {
  const int kept = errno;
  auto& context = *static_cast<ucontext_t*>(context_of_crash);
  if (::getpid() != state.process) return end_by(number, info, context);
  const pid_t thread = this_thread();
  pid_t first = 0;
  if (state.crashed_thread.compare_exchange_strong(first, thread)) {
    state.crash.store(number);
    limit_time(number);
    write_record(number, *info, context, thread);
    end_by(number, info, context);
  } else if (first == thread || is_time_limit(*info)) {
    end_by(state.crash.load(), nullptr, context);  // the handler itself crashed or hung
  } else {
    for (;;) ::pause();  // until the thread that crashed first ends the process
  }
  errno = kept;
}

// -- Installation ----------------------------------------------------------------------------------------------------

/// Why the rank leaves the signal alone.
std::string reason_of(const struct sigaction& earlier) {
  if (earlier.sa_handler == SIG_IGN) return "the process ignored it before the rank could handle it";
  const std::string reason = "other code handled it before the rank could: ";
  Dl_info found{};
  if (::dladdr(reinterpret_cast<const void*>(earlier.sa_handler), &found) == 0 || found.dli_fname == nullptr)
    return reason + "its file is not known";
  return reason + std::filesystem::path(found.dli_fname).filename().string();
}

bool has_alternate_stack() {
  stack_t current{};
  return ::sigaltstack(nullptr, &current) != 0 || (current.ss_flags & SS_DISABLE) == 0;
}

void set_alternate_stack(std::byte* bytes, std::size_t size) {
  const stack_t stack{.ss_sp = bytes, .ss_flags = bytes == nullptr ? SS_DISABLE : 0, .ss_size = size};
  ::sigaltstack(&stack, nullptr);  // without one, only an overflow leaves no record
}

}  // namespace

void save_crashes(const std::filesystem::path& rendezvous, std::optional<int> rank) {
  const int named = rank.value_or(0);
  // Absolute, because the program may change its directory.
  const std::string file = protocol::crash_record(std::filesystem::absolute(rendezvous), named).string();
  const bool is_too_long = file.size() >= state.file.size();
  if (!is_too_long) std::ranges::copy(file, state.file.begin());
  state.process = ::getpid();
  if (rank) {
    state.rank = *rank;
    state.rank_thread = this_thread();
  } else {
    state.threads[0] = this_thread();  // until the thread of rank 0 exists
  }
  alignas(16) static constinit std::array<std::byte, alternate_stack_bytes> stack{};
  if (!has_alternate_stack()) set_alternate_stack(stack.data(), stack.size());

  struct sigaction action{};
  action.sa_sigaction = handle_crash;
  // Without SA_NODEFER, the handler's own crash or time limit could not end the process by the first signal.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  ::sigfillset(&action.sa_mask);
  for (const int number : crash_signals) ::sigdelset(&action.sa_mask, number);
  std::string unsaved;
  const auto leave_alone = [&](int number, const std::string& why) {
    unsaved += std::to_string(number) + " " + why + "\n";
  };
  for (const int number : crash_signals) {
    struct sigaction current{};
    if (is_too_long) leave_alone(number, "the path of its record is too long: " + file);
    else if (::sigaction(number, nullptr, &current) != 0) continue;
    else if (current.sa_handler != SIG_DFL) leave_alone(number, reason_of(current));
    else ::sigaction(number, &action, nullptr);
  }
  if (!unsaved.empty()) std::ofstream(protocol::unsaved_signals(rendezvous, named)) << unsaved;
}

RankThread::RankThread(int rank) : rank_(rank) {
  if (rank_ < std::ssize(state.threads)) state.threads[static_cast<std::size_t>(rank_)] = this_thread();
  if (has_alternate_stack()) return;
  stack_ = std::make_unique_for_overwrite<std::byte[]>(alternate_stack_bytes);
  set_alternate_stack(stack_.get(), alternate_stack_bytes);
}

RankThread::~RankThread() {
  if (stack_) set_alternate_stack(nullptr, 0);
  if (rank_ < std::ssize(state.threads)) state.threads[static_cast<std::size_t>(rank_)] = 0;
}

}  // namespace shardproof::runner
