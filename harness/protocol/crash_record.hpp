// CrashRecord is what a rank leaves when a signal ends it: its registers, a part of its stack, and its memory map. The
// rank's signal handler writes it as a file (runner/crash_handler.hpp), in the layout of CrashHeader. The launcher
// reads the file after the rank's end, and finds the functions.
#pragma once

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace shardproof::protocol {

/// The signals that a rank's handler handles: each comes from what the code does at that moment. No program can handle
/// SIGKILL.
inline constexpr std::array crash_signals{SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};

/// The file in a world's rendezvous directory. The handler makes it, so it exists only after a crash.
std::filesystem::path crash_record(const std::filesystem::path& rendezvous, int rank);
/// Exists if the rank's handler does not handle some of the signals. It has a line for each of them: its number, a
/// space, and the reason.
std::filesystem::path unsaved_signals(const std::filesystem::path& rendezvous, int rank);

/// The beginning of the file. The handler fills it, so it has no functions that allocate.
struct CrashHeader {
  static constexpr std::uint64_t magic = 0x6873'6172'6370'7273;  // "srpcrash"
  static constexpr std::uint32_t version = 1;
  static constexpr std::size_t most_registers = 33;
  static constexpr std::size_t stack_offset = 4096, most_stack = std::size_t{256} << 10;
  static constexpr std::size_t map_offset = stack_offset + most_stack, most_map = std::size_t{1} << 20;
  static constexpr std::size_t most_bytes = map_offset + most_map;

  std::uint64_t begins_with = magic;
  std::uint32_t layout = version;
  std::uint32_t is_complete = 0;  ///< The handler has saved everything.
  std::int32_t signal = 0;
  std::int32_t code = 0;  ///< `si_code`: who sent the signal, or which fault it was
  std::int32_t sender = 0;  ///< The process that sent the signal. 0: a fault.
  std::int32_t thread = 0;  ///< The kernel's number of the thread.
  std::int32_t rank = -1;  ///< The rank that the thread belongs to. -1: a thread that the program has started.
  std::uint32_t registers_kept = 0;  ///< 0: this processor is not known.
  std::uint64_t address = 0;  ///< The address of a fault.
  std::uint64_t program_counter = 0;
  std::uint64_t stack_pointer = 0;
  std::array<std::uint64_t, most_registers> registers{};  ///< by their numbers in DWARF
  std::uint64_t stack_begin = 0;  ///< The address of the first byte that was saved.
  std::uint64_t stack_bytes = 0;
  std::uint64_t map_bytes = 0;  ///< of a copy of /proc/PID/maps
  std::array<char, 16> thread_name{};
};
static_assert(sizeof(CrashHeader) <= CrashHeader::stack_offset);

struct CrashRecord {
  CrashHeader header;
  std::string stack;
  std::string map;
};

/// Reads the bytes of the file. Nullopt if they are not a record of this version.
std::optional<CrashRecord> parse_crash_record(std::string_view bytes);

/// Eight bytes of the saved stack. Nullopt: the record does not have them.
std::optional<std::uint64_t> stack_word(const CrashRecord& record, std::uint64_t address);

/// The cause of the signal: `at address 0x0, which is not mapped`, `sent by process 12`. Empty if it is not known.
std::string signal_cause(const CrashHeader& header);

}  // namespace shardproof::protocol
