// The same as a library, for a program that brings its own subject.
#include "harness/subject/abi/foreign_subject.hpp"
#include "worker/program.hpp"

extern "C" int shardproof_worker_main(int argc, char** argv, const shardproof_subject* subject) {
  shardproof::Program program = shardproof::worker_program();
  program.subjects = {[=] { return shardproof::foreign_subject(subject, "the table given to shardproof_worker_main"); }};
  return shardproof::rank_main(argc, argv, program);
}
