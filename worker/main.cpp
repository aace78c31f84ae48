// The worker program, which each rank runs.
#include "worker/program.hpp"

int main(int argc, char** argv) { return shardproof::play_main(argc, argv, shardproof::worker_program()); }
