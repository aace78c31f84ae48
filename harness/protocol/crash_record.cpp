#include "harness/protocol/crash_record.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cstring>

namespace shardproof::protocol {

namespace {

/// The part of a file, or as much of it as the file has.
std::string_view part(std::string_view bytes, std::size_t offset, std::uint64_t size, std::size_t most) {
  if (bytes.size() <= offset) return {};
  return bytes.substr(offset, static_cast<std::size_t>(std::min<std::uint64_t>(size, most)));
}

std::string_view fault_text(int signal, int code) {
  if (signal == SIGSEGV && code == SEGV_MAPERR) return ", which is not mapped";
  if (signal == SIGSEGV && code == SEGV_ACCERR) return ", which does not allow this access";
  if (signal == SIGBUS && code == BUS_ADRERR) return ", which has no memory";
  if (signal == SIGFPE && code == FPE_INTDIV) return ", which divides by zero";
  return "";
}

bool has_address(int signal) { return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE; }

}  // namespace

std::filesystem::path crash_record(const std::filesystem::path& rendezvous, int rank) {
  return rendezvous / fmt::format("crash-{}", rank);
}

std::filesystem::path unsaved_signals(const std::filesystem::path& rendezvous, int rank) {
  return rendezvous / fmt::format("unsaved-signals-{}", rank);
}

std::optional<CrashRecord> parse_crash_record(std::string_view bytes) {
  CrashRecord record;
  if (bytes.size() < sizeof record.header) return std::nullopt;
  std::memcpy(&record.header, bytes.data(), sizeof record.header);
  if (record.header.begins_with != CrashHeader::magic || record.header.layout != CrashHeader::version)
    return std::nullopt;
  if (record.header.registers_kept > CrashHeader::most_registers) return std::nullopt;
  record.stack = part(bytes, CrashHeader::stack_offset, record.header.stack_bytes, CrashHeader::most_stack);
  record.map = part(bytes, CrashHeader::map_offset, record.header.map_bytes, CrashHeader::most_map);
  return record;
}

std::optional<std::uint64_t> stack_word(const CrashRecord& record, std::uint64_t address) {
  std::uint64_t word = 0;
  if (record.stack.size() < sizeof word || address < record.header.stack_begin) return std::nullopt;
  const std::uint64_t offset = address - record.header.stack_begin;
  if (offset > record.stack.size() - sizeof word) return std::nullopt;
  std::memcpy(&word, record.stack.data() + offset, sizeof word);
  return word;
}

std::string signal_cause(const CrashHeader& header) {
  if (header.sender != 0) return fmt::format("sent by process {}", header.sender);
  if (header.code == SI_KERNEL && has_address(header.signal)) return "at an address that the processor does not report";
  if (header.code <= 0 || !has_address(header.signal)) return {};
  return fmt::format("at address {:#x}{}", header.address, fault_text(header.signal, header.code));
}

}  // namespace shardproof::protocol
