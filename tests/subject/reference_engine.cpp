// The reference engine as a shared object that is a subject, as another language would bring one.
#include "fixtures/engines/reference.hpp"
#include "harness/subject/abi/exported_subject.hpp"

extern "C" [[gnu::visibility("default")]] const shardproof_subject* shardproof_subject_table() {
  static const shardproof::subject::ExportedSubject exported(std::make_unique<shardproof::engines::Reference>());
  static const shardproof_subject table = [] {
    shardproof_subject renamed = *exported.table();
    renamed.name = "reference_in_c";  // `reference` is reserved
    return renamed;
  }();
  return &table;
}
