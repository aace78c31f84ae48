#include "harness/runner/play/play_main.hpp"

int main(int argc, char** argv) { return shardproof::play_main(argc, argv); }
