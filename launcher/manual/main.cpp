// shardproof-manual FOLDER DATE: writes the manual pages and the completions of shardproof into a folder, as
//     man1/shardproof.1, man1/shardproof-run.1 …
//     bash/shardproof
//     zsh/_shardproof
// The build calls it.
#include <exception>
#include <filesystem>

#include "launcher/files/output.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "launcher/manual/command_reference.hpp"
#include "launcher/manual/completion.hpp"
#include "launcher/manual/manual_page.hpp"

namespace {

using namespace shardproof::launcher;

void write(const std::filesystem::path& folder, const std::string& date) {
  const ProgramReference program = describe_program();
  for (const char* part : {"man1", "bash", "zsh"}) make_directory(folder / part);
  const auto write_page = [&](const CommandReference& command) {
    write_file(folder / "man1" / (page_name(command) + ".1"), manual_page(program, command, date));
  };
  write_page(program.program);
  for (const CommandReference& command : program.commands) write_page(command);
  write_file(folder / "bash" / "shardproof", bash_completion(program));
  write_file(folder / "zsh" / "_shardproof", zsh_completion(program));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 3) throw CommandError(usage, "usage: shardproof-manual FOLDER DATE");
    write(argv[1], argv[2]);
    return all_passed;
  } catch (const std::exception& error) {
    print_error(error.what());
    return usage;
  }
}
