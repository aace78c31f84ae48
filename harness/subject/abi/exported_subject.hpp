// Exports a Subject in C++ as a table of plain C functions. It is the other direction of table_subject.hpp. So an
// engine that is written for subject.hpp runs like an engine in another language. Comparing both shows whether the
// boundary loses anything.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/subject/shardproof.h"
#include "harness/subject/subject.hpp"

namespace shardproof::subject {

/// Only for the simulated device. It must outlive its trainers.
class ExportedSubject {
 public:
  explicit ExportedSubject(std::unique_ptr<Subject> subject);
  ExportedSubject(const ExportedSubject&) = delete;
  ExportedSubject& operator=(const ExportedSubject&) = delete;

  const shardproof_subject* table() const { return &table_; }

 private:
  struct Functions;

  std::unique_ptr<Subject> subject_;
  std::string name_, version_;
  Claims claims_;
  std::vector<std::vector<const char*>> features_;  // of each kind; NULL at the end
  std::vector<shardproof_claim> claims_in_c_;
  shardproof_subject table_;
};

}  // namespace shardproof::subject
