#include "worker/program.hpp"

#include "fixtures/engines/reference.hpp"
#include "suites/comm_hooks/clauses.hpp"
#include "suites/exec_order/clauses.hpp"
#include "suites/extensions/clauses.hpp"
#include "suites/overlap/clauses.hpp"
#include "suites/profiles.hpp"
#include "suites/replicate/clauses.hpp"

namespace shardproof {

PlayProgram worker_program() {
  return {.suite_version = SHARDPROOF_VERSION,
          .subjects = {[] { return std::make_unique<engines::Reference>(); }},
          .faults = declared_faults(),
          .profiles = suites::profiles(),
          .clause_tables = {overlap::clause_table(), extensions::clause_table(), exec_order::clause_table(),
                            comm_hooks::clause_table(), replicate::clause_table()}};
}

}  // namespace shardproof
