#include "launcher/run/crash_frames.hpp"

#include <cxxabi.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace shardproof::launcher {

using protocol::CrashRecord;
using reports::CrashFrame;
using reports::CrashFrames;
using NamedFrames = CrashFrameFinder::NamedFrames;

namespace {

constexpr std::size_t most_frames = 256;

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
struct EndDwfl {
  void operator()(Dwfl* dwfl) const { dwfl_end(dwfl); }
};
using DwflHandle = std::unique_ptr<Dwfl, EndDwfl>;

std::string demangled(const char* name) {
  if (name == nullptr) return {};
  int status = 0;
  const std::unique_ptr<char, Free> text(abi::__cxa_demangle(name, nullptr, nullptr, &status));
  return status == 0 && text ? text.get() : name;
}

// -- Naming one address ----------------------------------------------------------------------------------------------

std::string name_of(Dwarf_Die* die) {
  Dwarf_Attribute attribute;
  if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) != nullptr)
    return demangled(dwarf_formstring(&attribute));
  const char* const name = dwarf_diename(die);
  return name == nullptr ? std::string() : name;
}

/// The place at which an inlined function was called.
std::pair<std::string, int> call_place(Dwarf_Die* inlined) {
  std::pair<std::string, int> place;
  Dwarf_Attribute attribute;
  Dwarf_Word number = 0;
  Dwarf_Die unit;
  Dwarf_Files* files = nullptr;
  if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attribute), &number) == 0 &&
      dwarf_diecu(inlined, &unit, nullptr, nullptr) != nullptr && dwarf_getsrcfiles(&unit, &files, nullptr) == 0) {
    const char* const file = dwarf_filesrc(files, number, nullptr, nullptr);
    if (file != nullptr) place.first = file;
  }
  if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &attribute), &number) == 0)
    place.second = static_cast<int>(number);
  return place;
}

/// The functions that the compiler has put into each other at this address, innermost first. The last one is the
/// function of the symbol table.
std::vector<CrashFrame> functions_at(Dwfl_Module* module, std::uint64_t address, const CrashFrame& outermost) {
  std::vector<CrashFrame> functions;
  CrashFrame frame = outermost;
  Dwarf_Addr bias = 0;
  Dwarf_Die* const unit = dwfl_module_addrdie(module, address, &bias);
  Dwarf_Die* found = nullptr;
  if (unit != nullptr && dwarf_getscopes(unit, address - bias, &found) > 0) {
    const std::unique_ptr<Dwarf_Die, Free> innermost(found);
    const int count = dwarf_getscopes_die(innermost.get(), &found);
    const std::unique_ptr<Dwarf_Die, Free> owner(count > 0 ? found : nullptr);
    for (Dwarf_Die& scope : std::span(found, static_cast<std::size_t>(std::max(count, 0)))) {
      if (dwarf_tag(&scope) == DW_TAG_subprogram) {
        if (std::string name = name_of(&scope); !name.empty()) frame.function = std::move(name);
        break;
      }
      if (dwarf_tag(&scope) != DW_TAG_inlined_subroutine) continue;
      CrashFrame inner = frame;
      inner.function = name_of(&scope);
      inner.is_inlined = true;
      functions.push_back(std::move(inner));
      std::tie(frame.file, frame.line) = call_place(&scope);
    }
  }
  functions.push_back(std::move(frame));
  return functions;
}

std::vector<CrashFrame> name(Dwfl_Module* module, std::uint64_t address, CrashFrame frame) {
  GElf_Off offset = 0;
  GElf_Sym symbol{};
  const char* const function = dwfl_module_addrinfo(module, address, &offset, &symbol, nullptr, nullptr, nullptr);
  if (function != nullptr && (symbol.st_size == 0 || offset < symbol.st_size)) frame.function = demangled(function);
  if (Dwfl_Line* const line = dwfl_module_getsrc(module, address)) {
    const char* const source = dwfl_lineinfo(line, nullptr, &frame.line, nullptr, nullptr, nullptr);
    if (source != nullptr) frame.file = source;
  }
  return functions_at(module, address, frame);
}

/// `address` is in the function: the instruction that crashed, or a byte of the call. A library has other addresses in
/// another rank, and the same offsets.
std::vector<CrashFrame> name(Dwfl* dwfl, std::uint64_t address, NamedFrames& named) {
  CrashFrame frame{.address = address};
  Dwfl_Module* const module = dwfl_addrmodule(dwfl, address);
  if (module == nullptr) return {frame};
  Dwarf_Addr start = 0;
  const char* const file = dwfl_module_info(module, nullptr, &start, nullptr, nullptr, nullptr, nullptr, nullptr);
  frame.offset = address - start;
  if (file != nullptr) frame.module = std::filesystem::path(file).filename().string();
  const auto [known, is_new] = named.try_emplace({file == nullptr ? "" : file, frame.offset});
  if (is_new) known->second = name(module, address, frame);
  std::vector<CrashFrame> frames = known->second;
  for (CrashFrame& one : frames) one.address = address;
  return frames;
}

bool is_in_function(Dwfl* dwfl, std::uint64_t address) {
  Dwfl_Module* const module = dwfl_addrmodule(dwfl, address);
  GElf_Off offset = 0;
  GElf_Sym symbol{};
  return module != nullptr &&
         dwfl_module_addrinfo(module, address, &offset, &symbol, nullptr, nullptr, nullptr) != nullptr &&
         GELF_ST_TYPE(symbol.st_info) == STT_FUNC && offset < symbol.st_size;
}

// -- Unwinding -------------------------------------------------------------------------------------------------------

/// The callbacks of libdw read and write it.
struct Unwinding {
  const CrashRecord& record;
  std::vector<std::uint64_t> registers;
  std::vector<std::uint64_t> addresses;  ///< of the frames, as `name` takes them
};

pid_t next_thread(Dwfl*, void* argument, void** thread) {
  if (*thread != nullptr) return 0;
  *thread = argument;
  return static_cast<Unwinding*>(argument)->record.header.thread;
}

bool read_memory(Dwfl*, Dwarf_Addr address, Dwarf_Word* result, void* argument) {
  const auto word = stack_word(static_cast<Unwinding*>(argument)->record, address);
  if (word) *result = *word;
  return word.has_value();
}

bool set_registers(Dwfl_Thread* thread, void* argument) {
  const auto& unwinding = *static_cast<Unwinding*>(argument);
#if defined(__aarch64__)
  dwfl_thread_state_register_pc(thread, unwinding.record.header.program_counter);
#endif
  return dwfl_thread_state_registers(thread, 0, static_cast<unsigned>(unwinding.registers.size()),
                                     unwinding.registers.data());
}

int take_frame(Dwfl_Frame* frame, void* argument) {
  auto& unwinding = *static_cast<Unwinding*>(argument);
  Dwarf_Addr address = 0;
  bool is_activation = false;
  if (!dwfl_frame_pc(frame, &address, &is_activation)) return DWARF_CB_ABORT;
  // A return address may be after the last instruction of its function.
  unwinding.addresses.push_back(is_activation ? address : address - 1);
  return unwinding.addresses.size() < most_frames ? DWARF_CB_OK : DWARF_CB_ABORT;
}

int unwind_thread(Dwfl_Thread* thread, void* argument) {
  return dwfl_thread_getframes(thread, take_frame, argument) == 0 ? DWARF_CB_OK : DWARF_CB_ABORT;
}

const Dwfl_Callbacks file_callbacks{.find_elf = dwfl_linux_proc_find_elf,
                                    .find_debuginfo = dwfl_standard_find_debuginfo,
                                    .section_address = nullptr,
                                    .debuginfo_path = nullptr};
const Dwfl_Thread_Callbacks thread_callbacks{.next_thread = next_thread,
                                             .get_thread = nullptr,
                                             .memory_read = read_memory,
                                             .set_initial_registers = set_registers,
                                             .detach = nullptr,
                                             .thread_detach = nullptr};

/// The modules of the rank, or nullptr.
DwflHandle open_modules(const CrashRecord& record) {
  DwflHandle dwfl(dwfl_begin(&file_callbacks));
  std::string map = record.map;
  map.resize(map.rfind('\n') + 1);  // the last line may be cut
  const std::unique_ptr<std::FILE, CloseFile> lines(map.empty() ? nullptr : fmemopen(map.data(), map.size(), "r"));
  if (!dwfl || !lines || dwfl_linux_proc_maps_report(dwfl.get(), lines.get()) != 0 ||
      dwfl_report_end(dwfl.get(), nullptr, nullptr) != 0)
    return nullptr;
  return dwfl;
}

/// After a call of an address without code, only the top of the stack knows the caller.
void return_from_nowhere(Dwfl* dwfl, Unwinding& unwinding) {
#if defined(__x86_64__)
  constexpr std::size_t stack_register = 7, return_register = 16;
  if (unwinding.registers.size() <= return_register) return;  // no handler of this processor wrote the record
  if (dwfl_addrmodule(dwfl, unwinding.record.header.program_counter) != nullptr) return;
  unwinding.addresses.push_back(unwinding.record.header.program_counter);
  const auto caller = stack_word(unwinding.record, unwinding.registers[stack_register]);
  if (!caller) return;
  unwinding.registers[return_register] = *caller - 1;
  unwinding.registers[stack_register] += sizeof *caller;
#else
  static_cast<void>(dwfl);
  static_cast<void>(unwinding);
#endif
}

/// Adds functions whose return addresses are on the stack, after a frame that does not lead to its caller. Each of them
/// ran, but may have returned.
void guess_frames(Dwfl* dwfl, const CrashRecord& record, CrashFrames& found, NamedFrames& named) {
  constexpr std::size_t most_guesses = 16, word = sizeof(std::uint64_t);
  std::set<std::uint64_t> known;
  for (const CrashFrame& frame : found.frames) known.insert(frame.address);
  const std::uint64_t end = record.header.stack_begin + record.stack.size();
  std::size_t guesses = 0;
  for (std::uint64_t at = (record.header.stack_pointer + word - 1) / word * word; at < end; at += word) {
    const auto value = stack_word(record, at);
    if (!value || !known.insert(*value - 1).second || !is_in_function(dwfl, *value - 1)) continue;
    for (CrashFrame& frame : name(dwfl, *value - 1, named)) {
      frame.is_guess = true;
      found.frames.push_back(std::move(frame));
    }
    if (++guesses == most_guesses) return;
  }
}

}  // namespace

CrashFrames CrashFrameFinder::find(const CrashRecord& record) {
  const auto& header = record.header;
  if (header.registers_kept == 0) return {.frames = {}, .why_no_more = "this processor is not supported"};
  const DwflHandle dwfl = open_modules(record);
  if (!dwfl) return {.frames = {}, .why_no_more = "the record has no memory map of the rank"};

  Unwinding unwinding{.record = record,
                      .registers = {header.registers.begin(), header.registers.begin() + header.registers_kept},
                      .addresses = {}};
  return_from_nowhere(dwfl.get(), unwinding);
  CrashFrames found;
  if (!dwfl_attach_state(dwfl.get(), nullptr, header.thread, &thread_callbacks, &unwinding)) {
    found.why_no_more = fmt::format("libdw: {}", dwfl_errmsg(-1));
  } else if (dwfl_getthreads(dwfl.get(), unwind_thread, &unwinding) != 0) {
    found.why_no_more = unwinding.addresses.size() >= most_frames ? fmt::format("more than {} frames", most_frames)
                                                                  : fmt::format("libdw: {}", dwfl_errmsg(-1));
  }
  for (const std::uint64_t address : unwinding.addresses)
    std::ranges::move(name(dwfl.get(), address, named_), std::back_inserter(found.frames));
  if (!found.why_no_more.empty() && unwinding.addresses.size() < most_frames)
    guess_frames(dwfl.get(), record, found, named_);
  return found;
}

}  // namespace shardproof::launcher
