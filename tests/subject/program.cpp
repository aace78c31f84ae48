// A program that brings the reference engine as a subject of its own: to the library, a table of C functions like any
// other.
#include "harness/subject/shardproof.h"

extern "C" const shardproof_subject* shardproof_subject_table();

int main(int argc, char** argv) { return shardproof_worker_main(argc, argv, shardproof_subject_table()); }
