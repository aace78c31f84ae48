// The worker as a library, for a program that brings its own subject.
#include <cstdio>
#include <exception>
#include <string_view>

#include "harness/protocol/ending.hpp"
#include "harness/protocol/subject_name.hpp"
#include "harness/subject/abi/table_subject.hpp"
#include "worker/program.hpp"

extern "C" int shardproof_worker_main(int argc, char** argv, const shardproof_subject* subject) try {
  shardproof::PlayProgram program = shardproof::worker_program();
  // The name of the program gives the subject's name, as in every program.
  const std::string_view path = argc > 0 ? argv[0] : "";
  const bool is_pytorch = path.substr(path.rfind('/') + 1) == shardproof::protocol::pytorch_worker_program;
  const std::string_view own_name = is_pytorch ? shardproof::protocol::pytorch_subject : std::string_view();
  program.subjects = {[=] {
    return shardproof::subject::table_subject(subject, "the table given to shardproof_worker_main", own_name);
  }};
  return shardproof::play_main(argc, argv, program);
} catch (const std::exception& error) {
  std::fprintf(stderr, "shardproof_worker_main: %s\n", error.what());
  return shardproof::protocol::rank_could_not_join;
} catch (...) {
  std::fputs("shardproof_worker_main: an exception that is not a std::exception\n", stderr);
  return shardproof::protocol::rank_could_not_join;
}
