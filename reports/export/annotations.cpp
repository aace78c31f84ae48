#include "reports/export/annotations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

#include "reports/explain/causes.hpp"
#include "reports/export/exported_cases.hpp"
#include "reports/export/foreign_text.hpp"
#include "reports/export/repeat_command.hpp"
#include "reports/export/terminal.hpp"
#include "reports/export/verdict_text.hpp"

namespace shardproof::reports {

namespace {

struct Annotation {
  std::string title;
  std::string message;
  SourcePlace place;
};

std::string_view cases_word(std::size_t count) { return count == 1 ? "case" : "cases"; }

Annotation annotation_of(const CauseGroup& group, const Report& report) {
  const CaseResult& shown = *group.shown;
  std::string message = cause_line(shown, report);
  if (!group.others.empty())
    message += fmt::format("\nalso in: {} other {}", group.others.size(), cases_word(group.others.size()));
  message += fmt::format("\nagain: {}", repeat_command(shown, report));
  return {.title = fmt::format("{} {}", headline(shown), exported_name(shown)),
          .message = std::move(message),
          .place = place_of(shown)};
}

std::vector<Annotation> annotations_of(const Report& report) {
  std::vector<const CaseResult*> bad, not_run;
  for (const ExportedCase& one : exported_cases(report)) {
    if (exported_as(*one.result) < ExportedAs::failed) continue;
    (one.result->verdict == Verdict::not_run ? not_run : bad).push_back(one.result);
  }
  std::vector<Annotation> all;
  for (const CauseGroup& group : by_cause(bad)) all.push_back(annotation_of(group, report));
  if (!not_run.empty()) {
    std::vector<std::string_view> ids;
    std::ranges::transform(not_run, std::back_inserter(ids),
                           [](const CaseResult* result) -> std::string_view { return result->info.id; });
    all.push_back({.title = fmt::format("NOT RUN {} {}", ids.size(), cases_word(ids.size())),
                   .message = few_of(ids),
                   .place = {}});
  }
  for (const RunFailure& failure : run_failures(report)) {
    for (const std::string& sentence : failure.sentences)
      all.push_back({.title = failure.name, .message = sentence, .place = {}});
  }
  return all;
}

/// Replaces each character by its escape, if it has one.
std::string escaped(std::string_view text, std::initializer_list<std::pair<char, std::string_view>> escapes) {
  std::string result;
  for (const char c : visible_text(text)) {
    const auto* const escape = std::ranges::find(escapes, c, &std::pair<char, std::string_view>::first);
    if (escape == escapes.end()) result += c;
    else result += escape->second;
  }
  return result;
}

std::string github_message(std::string_view text) {
  return escaped(text, {{'%', "%25"}, {'\r', "%0D"}, {'\n', "%0A"}});
}

std::string github_field(std::string_view text) {
  return escaped(text, {{'%', "%25"}, {'\r', "%0D"}, {'\n', "%0A"}, {':', "%3A"}, {',', "%2C"}});
}

std::string azure_message(std::string_view text) {
  return escaped(text, {{'%', "%AZP25"}, {'\r', "%0D"}, {'\n', "%0A"}});
}

std::string azure_field(std::string_view text) {
  return escaped(text, {{'%', "%AZP25"}, {'\r', "%0D"}, {'\n', "%0A"}, {']', "%5D"}, {';', "%3B"}});
}

std::string github_line(const Annotation& annotation) {
  std::string place;
  if (!annotation.place.file.empty()) place = fmt::format("file={},", github_field(annotation.place.file));
  if (!place.empty() && annotation.place.line > 0) place += fmt::format("line={},", annotation.place.line);
  return fmt::format("::error {}title={}::{}\n", place, github_field(annotation.title),
                     github_message(annotation.message));
}

std::string azure_line(const Annotation& annotation) {
  std::string place;
  if (!annotation.place.file.empty()) place = fmt::format("sourcepath={};", azure_field(annotation.place.file));
  if (!place.empty() && annotation.place.line > 0) place += fmt::format("linenumber={};", annotation.place.line);
  return fmt::format("##vso[task.logissue type=error;{}]{}\n", place,
                     azure_message(fmt::format("{}: {}", annotation.title, annotation.message)));
}

std::string omitted_line(std::size_t count, AnnotationFormat format) {
  const std::string text = fmt::format("{} more {} in the report", count, count == 1 ? "failure is" : "failures are");
  return format == AnnotationFormat::github ? fmt::format("::notice title=shardproof::{}\n", text)
                                            : fmt::format("##vso[task.logissue type=warning;]{}\n", text);
}

}  // namespace

std::string annotations(const Report& report, AnnotationFormat format,
                        const std::function<std::string(const std::string& file)>& repository_path) {
  const bool is_github = format == AnnotationFormat::github;
  std::vector<Annotation> all = annotations_of(report);
  const std::size_t shown = std::min(all.size(), is_github ? github_errors : azure_errors);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    if (!all[i].place.file.empty()) all[i].place.file = repository_path(all[i].place.file);
    text += is_github ? github_line(all[i]) : azure_line(all[i]);
  }
  return shown < all.size() ? text + omitted_line(all.size() - shown, format) : text;
}

std::string without_azure_commands(std::string_view text) {
  constexpr std::string_view prefixes[] = {"##vso[", "##["};
  const auto begins_with = [](std::string_view rest, std::string_view prefix) {
    return std::ranges::equal(rest.substr(0, prefix.size()), prefix,
                              [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
  };
  std::string result;
  while (!text.empty()) {
    std::size_t taken = 1;
    for (const std::string_view prefix : prefixes) {
      if (begins_with(text, prefix)) taken = prefix.size();
    }
    result += text.substr(0, taken);
    if (taken > 1) result.insert(result.size() - 1, " ");
    text.remove_prefix(taken);
  }
  return result;
}

std::string stop_commands(std::string_view token) { return fmt::format("::stop-commands::{}\n", token); }

std::string resume_commands(std::string_view token) { return fmt::format("::{}::\n", token); }

}  // namespace shardproof::reports
