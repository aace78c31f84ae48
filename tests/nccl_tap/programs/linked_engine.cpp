// An engine that is linked to NCCL.
#include "tests/nccl_tap/programs/engine_calls.hpp"

extern "C" void engine_run() {
  engine::Nccl nccl{};
#define ENGINE_LINKED(name) nccl.name = &::nccl##name;
  ENGINE_FUNCTIONS(ENGINE_LINKED)
#undef ENGINE_LINKED
  engine::make_all_calls(nccl);
  engine::print_mapped("libnccl");
}
