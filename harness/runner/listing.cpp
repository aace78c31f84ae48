#include "harness/runner/listing.hpp"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>

#include "harness/base/closest.hpp"
#include "harness/base/digest.hpp"
#include "harness/base/json_fields.hpp"
#include "harness/base/json_parse.hpp"
#include "harness/runner/command_line.hpp"
#include "harness/runner/thread_runs.hpp"
#include "harness/runner/warm.hpp"

namespace shardproof::runner {

using protocol::ClauseInfo;
using protocol::ProfileInfo;

namespace {

std::string_view trim(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// `OVL-3`: capitals, a hyphen, digits.
bool is_clause_id(std::string_view text) {
  const auto hyphen = text.find('-');
  if (hyphen == std::string_view::npos || hyphen == 0 || hyphen + 1 == text.size()) return false;
  return std::ranges::all_of(text.substr(0, hyphen), [](char c) { return c >= 'A' && c <= 'Z'; }) &&
         std::ranges::all_of(text.substr(hyphen + 1), [](char c) { return c >= '0' && c <= '9'; });
}

// The cells between the bars of a table's row; none for other lines. The last cell keeps the bars inside it.
std::vector<std::string_view> cells(std::string_view line) {
  line = trim(line);
  if (!line.starts_with('|')) return {};
  line.remove_prefix(1);
  if (line.ends_with('|')) line.remove_suffix(1);
  std::vector<std::string_view> result;
  for (int i = 0; i < 2; ++i) {
    const auto bar = line.find('|');
    if (bar == std::string_view::npos) break;
    result.push_back(trim(line.substr(0, bar)));
    line.remove_prefix(bar + 1);
  }
  result.push_back(trim(line));
  return result;
}

// The description of the GNU build-id note in a segment of notes, or nothing.
std::string find_build_id(const char* notes, std::size_t size) {
  const auto padded = [](std::size_t bytes) { return (bytes + 3) & ~std::size_t{3}; };
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes, sizeof note);
    const std::size_t whole = sizeof note + padded(note.n_namesz) + padded(note.n_descsz);
    if (whole > size) break;
    const std::string_view name(notes + sizeof note, note.n_namesz);
    if (note.n_type == NT_GNU_BUILD_ID && name == std::string_view("GNU", 4)) {
      std::string hex;
      const char* bytes = notes + sizeof note + padded(note.n_namesz);
      for (std::size_t i = 0; i < note.n_descsz; ++i)
        hex += fmt::format("{:02x}", static_cast<unsigned char>(bytes[i]));
      return hex;
    }
    notes += whole;
    size -= whole;
  }
  return {};
}

std::vector<ProfileInfo> parse_profiles(std::string_view text) {
  std::vector<ProfileInfo> profiles;
  if (text.empty()) return profiles;
  nlohmann::ordered_json json;
  try {
    json = base::parse_json(text);
  } catch (const nlohmann::ordered_json::exception& error) {
    throw std::invalid_argument(fmt::format("profiles: {}", error.what()));
  }
  if (!json.is_array()) base::refuse("profiles", "an array of profiles", json);
  for (const auto& element : json) {
    base::Fields(element, "profile")
        .expect_only({"name", "text", "least_ranks", "most_ranks", "tags", "without_tags", "needs", "without_needs",
                      "required_only"});
    auto profile = element.get<ProfileInfo>();
    if (std::ranges::find(profiles, profile.name, &ProfileInfo::name) != profiles.end())
      throw std::invalid_argument(fmt::format("profile {} is defined twice", profile.name));
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

/// A fault that breaks a clause without a case would look as if no case noticed it.
void require_known_clauses(const protocol::Listing& listing) {
  std::set<std::string> known;
  for (const ClauseInfo& clause : listing.clauses) known.insert(clause.id);
  for (const protocol::CaseInfo& info : listing.cases) known.insert(info.clauses.begin(), info.clauses.end());
  for (const protocol::FaultInfo& fault : listing.faults) {
    for (const std::string& clause : fault.clauses) {
      if (known.contains(clause)) continue;
      throw UsageError(fmt::format("FAULT({}): unknown clause \"{}\" in breaks(); {}", fault.name, clause,
                                   base::closest_or_all(known, clause)));
    }
  }
}

}  // namespace

std::vector<ClauseInfo> parse_clauses(std::string_view markdown) {
  std::vector<ClauseInfo> clauses;
  while (!markdown.empty()) {
    const auto end = std::min(markdown.find('\n'), markdown.size());
    const std::string_view line = markdown.substr(0, end);
    markdown.remove_prefix(std::min(end + 1, markdown.size()));
    const auto row = cells(line);
    if (row.empty() || !is_clause_id(row[0])) continue;
    if (row.size() != 3 || (row[1] != "required" && row[1] != "reference") || row[2].empty()) {
      throw std::invalid_argument(
          fmt::format("clause table: '{}' is not '| {} | required or reference | text |'", trim(line), row[0]));
    }
    clauses.push_back({.id = std::string(row[0]), .required = row[1] == "required", .text = std::string(row[2])});
  }
  return clauses;
}

std::string build_id() {
  std::string id;
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* out) {
        // The program or shared library that contains the harness.
        const auto here = reinterpret_cast<ElfW(Addr)>(&find_build_id);
        const std::span segments(object->dlpi_phdr, object->dlpi_phnum);
        const bool is_ours = std::ranges::any_of(segments, [&](const auto& segment) {
          const ElfW(Addr) begin = object->dlpi_addr + segment.p_vaddr;
          return segment.p_type == PT_LOAD && here >= begin && here - begin < segment.p_memsz;
        });
        if (!is_ours) return 0;
        auto& found = *static_cast<std::string*>(out);
        for (const auto& segment : segments) {
          if (segment.p_type == PT_NOTE && found.empty())
            found = find_build_id(reinterpret_cast<const char*>(object->dlpi_addr + segment.p_vaddr), segment.p_memsz);
        }
        return 1;
      },
      &id);
  if (!id.empty()) return id;
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  return fmt::format("file-{:016x}", base::digest(bytes));
}

protocol::Listing make_listing(const Program& program, const ProgramExtension& extension,
                               const std::filesystem::path& library, std::span<const cases::BoundCase> cases) {
  protocol::Listing listing;
  listing.suite_version = program.suite_version;
  listing.build = build_id();
  extension.add_to(listing, library);
  for (const cases::BoundCase& bound : cases) listing.cases.push_back(bound.info);
  for (const std::string_view table : program.clause_tables) {
    for (ClauseInfo& clause : parse_clauses(table)) {
      if (std::ranges::find(listing.clauses, clause.id, &ClauseInfo::id) != listing.clauses.end()) {
        throw std::invalid_argument(fmt::format("clause {} is defined twice", clause.id));
      }
      listing.clauses.push_back(std::move(clause));
    }
  }
  require_known_clauses(listing);
  listing.seeds = cases::seeds_of(cases);
  listing.profiles = parse_profiles(program.profiles);
  listing.warm = !plain_copier().prepare().error;
  listing.why_no_threads = ThreadRuns::why_none();
  return listing;
}

}  // namespace shardproof::runner
