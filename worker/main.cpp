// The program that a rank runs: the one place that knows the harness, the suites, the engines and the faults.
#include "fixtures/engines/fully_shard/fully_shard.hpp"
#include "harness/cases/rank_main.hpp"
#include "suites/extensions/clauses.hpp"
#include "suites/overlap/clauses.hpp"
#include "suites/profiles.hpp"

int main(int argc, char** argv) {
  return shardproof::rank_main(argc, argv,
                               {.suite_version = SHARDPROOF_VERSION,
                                .subjects = {[] { return std::make_unique<shardproof::engines::FullyShard>(); }},
                                .faults = shardproof::declared_faults(),
                                .profiles = shardproof::suites::profiles(),
                                .clause_tables = {shardproof::overlap::clause_table(), shardproof::extensions::clause_table()}});
}
