// The reference engine behind a table with one thing wrong, which the environment chooses.
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "fixtures/engines/reference.hpp"
#include "harness/subject/abi/exported_subject.hpp"

namespace {

const shardproof_subject& good() {
  static const shardproof::subject::ExportedSubject exported(std::make_unique<shardproof::engines::Reference>());
  return *exported.table();
}

shardproof_status prepares(void*, const shardproof_harness*, shardproof_reply*) {
  std::puts("prepared");
  return SHARDPROOF_OK;
}

shardproof_status cannot_prepare(void*, const shardproof_harness* harness, shardproof_reply* reply) {
  harness->fail(reply, "its engine is not installed");
  return SHARDPROOF_FAILED;
}

shardproof_status throws(shardproof_trainer*, const char*, const shardproof_tensor*, const shardproof_tensor*,
                         shardproof_reply*) {
  throw std::runtime_error("out of the C++ of a subject");
}

shardproof_status fails_silently(shardproof_trainer*, const char*, const shardproof_tensor*, const shardproof_tensor*,
                                 shardproof_reply*) {
  return SHARDPROOF_FAILED;
}

shardproof_status destroys_halfway(shardproof_trainer* trainer, shardproof_reply* reply) {
  good().destroy(trainer, reply);
  throw std::runtime_error("half of it is left");
}

shardproof_status leaks(void* context, const char* model, const char* plan,
                        const shardproof_engine_context* engine_context, shardproof_trainer** trainer,
                        shardproof_reply* reply) {
  shardproof_buffer* forgotten = nullptr;
  engine_context->harness->allocate(engine_context->device, 0, 100, SHARDPROOF_MEMORY_OTHER, "forgotten", &forgotten);
  return good().create(context, model, plan, engine_context, trainer, reply);
}

shardproof_status starts_a_thread(void* context, const char* model, const char* plan,
                                  const shardproof_engine_context* engine_context, shardproof_trainer** trainer,
                                  shardproof_reply* reply) {
  std::thread([] {
    while (true) ::pause();
  }).detach();
  return good().create(context, model, plan, engine_context, trainer, reply);
}

shardproof_status says_strided(shardproof_trainer* trainer, shardproof_tensor* loss, shardproof_reply* reply) {
  static std::int64_t shape[] = {1, 2}, strides[] = {1, 7};
  const shardproof_status status = good().loss(trainer, loss, reply);
  loss->view.ndim = 2;
  loss->view.shape = shape;
  loss->view.strides = strides;
  return status;
}

shardproof_subject bad() {
  static const char* const unknown[] = {"timeline", "telepathy", nullptr};
  static const char* const few[] = {"timeline", nullptr};
  static const shardproof_claim of_unknown[] = {{"fully_shard", unknown}}, of_few[] = {{"fully_shard", few}},
                                of_other[] = {{"other", few}};
  const char* const chosen = std::getenv("SHARDPROOF_BAD_SUBJECT");
  const std::string how = chosen == nullptr ? "" : chosen;
  if (how == "table") throw std::runtime_error("no engine without a licence");
  shardproof_subject table = good();
  table.name = "bad";
  if (how == "version") table.abi_version = 99;
  if (how == "size") table.size = 16;
  if (how == "function") table.perform = nullptr;
  if (how == "feature") table.claims = of_unknown;
  if (how == "few features") table.claims = of_few;
  if (how == "other kind") table.claims = of_other;
  if (table.claims != good().claims) table.claim_count = 1;
  if (how == "prepared") table.prepare = prepares;
  if (how == "unprepared") table.prepare = cannot_prepare;
  if (how == "throws") table.perform = throws;
  if (how == "silent") table.perform = fails_silently;
  if (how == "destroy") table.destroy = destroys_halfway;
  if (how == "leaks") table.create = leaks;
  if (how.find("thread") != std::string::npos) table.create = starts_a_thread;
  if (how == "declared thread" || how == "thread of an older table") table.keeps_threads = 1;
  if (how == "thread of an older table") table.size = offsetof(shardproof_subject, keeps_threads);
  if (how == "strided") table.loss = says_strided;
  return table;
}

}  // namespace

extern "C" [[gnu::visibility("default")]] const shardproof_subject* shardproof_subject_table() {
  static const shardproof_subject table = bad();
  return &table;
}
