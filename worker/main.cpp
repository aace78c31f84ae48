// The worker program, which each rank runs.
#include "worker/program.hpp"

extern "C" {
/// The launcher is in the folder of the worker (harness/runner/launcher_search.hpp).
extern const char shardproof_launcher_path[];
const char shardproof_launcher_path[] = "shardproof";
}

int main(int argc, char** argv) { return shardproof::play_main(argc, argv, shardproof::worker_program()); }
