#include "tests/launcher/command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <regex>
#include <stdexcept>

#include "harness/base/file_descriptor.hpp"

namespace shardproof::launcher::testing {

std::string unwrapped(const std::string& text) { return std::regex_replace(text, std::regex("\n  +"), " "); }

Said call(const std::vector<std::string>& arguments, const Setting& setting) {
  const TemporaryDirectory place;
  const base::FileDescriptor out(::open((place / "out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const base::FileDescriptor err(::open((place / "err").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  std::filesystem::create_directory(place / "here");

  std::vector<std::string> words = setting.wrapper;
  for (const std::string& word :
       {std::string("/bin/sh"), std::string("-c"), "cd \"$0\" && " + setting.prelude + " exec \"$@\"",
        (place / "here").string(), std::string(SHARDPROOF_LAUNCHER)}) {
    words.push_back(word);
  }
  words.insert(words.end(), arguments.begin(), arguments.end());
  Command command{.program = words.front(),
                  .arguments = {words.begin() + 1, words.end()},
                  .environment = setting.environment,
                  .standard_output = out.get(),
                  .standard_error = err.get()};
  command.environment.push_back("PATH=/usr/bin:/bin");
  Process process = Process::spawn(command);
  if (setting.meanwhile) setting.meanwhile(process, [&] { return text_of(place / "out") + text_of(place / "err"); });
  const auto end = process.wait(std::chrono::steady_clock::now() + std::chrono::minutes(2));
  if (!end) throw std::runtime_error("shardproof did not end: " + text_of(place / "out") + text_of(place / "err"));
  return {.end = *end, .out = text_of(place / "out"), .err = text_of(place / "err")};
}

std::filesystem::path trouble_program() { return SHARDPROOF_TROUBLE_PROGRAM; }

Said run_trouble(const std::filesystem::path& out, const std::vector<std::string>& arguments, const Setting& setting) {
  std::vector<std::string> all{"run", "--worker", trouble_program().string(), "--out", out.string()};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return call(all, setting);
}

nlohmann::json report_of(const std::filesystem::path& run_directory) {
  return nlohmann::json::parse(text_of(run_directory / "report.json"));
}

Verdicts verdicts(const std::filesystem::path& run_directory) {
  std::map<std::string, std::string> result;
  const nlohmann::json report = report_of(run_directory);
  for (const auto& one : report.at("cases")) result[one.at("id")] = one.at("verdict");
  return result;
}

bool has_ended(pid_t process) {
  const std::string status = text_of(fmt::format("/proc/{}/status", process));
  return status.empty() || status.find("State:\tZ") != std::string::npos;
}

bool eventually(const std::function<bool()>& found) {
  for (const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
       std::chrono::steady_clock::now() < limit;) {
    if (found()) return true;
    ::usleep(1000);
  }
  return false;
}

}  // namespace shardproof::launcher::testing
