// Gives an all-gather extension to a subject in C: its hooks as functions with plain arguments. This is the harness's
// side of the boundary.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/subject/abi/harness_side.hpp"
#include "harness/subject/extension.hpp"

namespace shardproof::subject::abi {

class HarnessSideExtension {
 public:
  HarnessSideExtension(HarnessSide& engine_context, AllGatherExtension extension);
  HarnessSideExtension(const HarnessSideExtension&) = delete;
  HarnessSideExtension& operator=(const HarnessSideExtension&) = delete;

  const shardproof_extension& in_c() const { return in_c_; }

 private:
  void pre(const shardproof_shard& shard, const shardproof_shard_context* context, Stream stream,
           shardproof_contribution& out);
  void post(const shardproof_contributions& all, Stream stream, const shardproof_unsharded* out,
            shardproof_unsharded& made);
  Unsharded& find(std::uint64_t id);
  shardproof_unsharded give(std::uint64_t id, const Unsharded& made);
  std::vector<Tensor> take(const shardproof_tensor* tensors, std::size_t count, std::string_view what) const;
  template <class Call>
  shardproof_status guarded(Call&& call);

  HarnessSide& engine_context_;
  AllGatherExtension extension_;
  shardproof_extension in_c_;
  std::string error_;
  std::map<std::uint64_t, std::shared_ptr<const void>> metadata_;
  /// The parameters that post hooks made. The address of an object identifies it on the other side. It has tensors only
  /// while a hook runs.
  std::map<std::uint64_t, std::unique_ptr<Unsharded>> made_;
  // Memory that the last answer points to.
  Shapes shapes_;
  std::vector<shardproof_tensor> tensors_;
};

}  // namespace shardproof::subject::abi
