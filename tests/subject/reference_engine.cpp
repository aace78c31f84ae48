// The reference engine as a shared object that is a subject, as another language would bring one.
#include "fixtures/engines/fully_shard/fully_shard.hpp"
#include "harness/subject/abi/exported_subject.hpp"

extern "C" [[gnu::visibility("default")]] const shardproof_subject* shardproof_subject_table() {
  static const shardproof::ExportedSubject exported(std::make_unique<shardproof::engines::FullyShard>());
  return exported.table();
}
