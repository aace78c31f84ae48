#include <harness/runner/rank_main.hpp>

int main(int argc, char** argv) {
  shardproof::Program program;
  program.suite_version = "1";
  program.clause_tables = {"| MY-1 | required | every rank sees what all have sent |"};
  program.profiles = R"([{"name": "small", "text": "worlds of two", "least_ranks": 1, "most_ranks": 2,
                          "tags": [], "without_tags": [], "required_only": false}])";
  return shardproof::rank_main(argc, argv, program);
}
