#include "harness/runner/rank_main.hpp"

int main(int argc, char** argv) { return shardproof::rank_main(argc, argv); }
