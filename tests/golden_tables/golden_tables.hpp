// Golden files that only tests read: the manifest, and tables of shards, flat parameters and buckets. golden.hpp has
// the files that the suites read, too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fixtures/oracles/golden.hpp"

namespace shardproof::oracles::golden {

/// CRC-32 as in zlib.
std::uint32_t crc32(std::string_view bytes);

/// A file's name, checksum and size in the manifest.
struct ManifestEntry {
  std::string name;
  std::uint32_t crc32;
  std::size_t bytes;
  friend bool operator==(const ManifestEntry&, const ManifestEntry&) = default;
};
std::vector<ManifestEntry> manifest();

/// The same from a manifest's text. Throws std::invalid_argument that quotes the first line with another form.
std::vector<ManifestEntry> manifest_of(std::string_view text);

/// How PyTorch shards `rows` of dimension 0 among the ranks of a world, and the rows to which it pads a shard for an
/// all-gather.
struct Chunks {
  int world = 0;
  std::int64_t rows = 0;
  std::vector<std::int64_t> shards;  ///< by rank
  std::int64_t padded_rows = 0;
};

/// All of g_fsdp2_dim0_chunks. Throws as `values` does.
std::vector<Chunks> chunks();

/// PyTorch's layout of a module's parameters in a flat parameter, and the shards of the flat parameter.
struct FlatLayout {
  /// The part of a parameter that a rank holds.
  struct Part {
    std::int64_t in_shard = 0, in_parameter = 0;  ///< where it begins
    std::int64_t elements = 0;
    friend bool operator==(const Part&, const Part&) = default;
  };
  struct Rank {
    std::vector<std::optional<Part>> parts;  ///< by parameter; empty if the rank holds nothing of it
    std::vector<float> values;  ///< of the rank's shard: parameters by formula, from seed 1 on, and padding
  };

  int world = 0;
  bool use_orig_params = false;
  std::string module;  ///< as in `Linear(5,7)`
  std::vector<std::int64_t> elements;  ///< by parameter
  std::int64_t unsharded = 0;  ///< elements of the whole, with padding between parameters, without padding at its end
  std::int64_t shard = 0;  ///< elements of each rank's shard
  std::vector<Rank> ranks;
};

/// All of g_fsdp1_flat_param. Throws as `values` does.
std::vector<FlatLayout> flat_layouts();

/// The buckets in which PyTorch's DistributedDataParallel reduces the gradients of four linear layers, `fc1` to `fc4`.
struct Buckets {
  struct Bucket {
    std::int64_t elements = 0;
    std::vector<std::string> parameters;
  };
  std::int64_t width = 0;  ///< features in and out of each layer
  bool has_default_cap = false;  ///< true: the first bucket of a backward has its own limit of 1 MiB; false: the cap
  std::int64_t cap_bytes = 0;
  std::vector<Bucket> first, later;  ///< of the first backward and of each later one, in the order in which they start
};

/// All of g_ddp_buckets_W2. Throws as `values` does.
std::vector<Buckets> buckets();

/// The all-reduces and waits of a backward of four linear layers, `fc1` to `fc4`, as PyTorch's compiler makes them.
/// Both ranks make the same calls.
struct CompiledBackward {
  struct Call {
    std::string kind;  ///< `all_reduce`, `all_reduce_coalesced` (one call of several operands), `wait`
    std::vector<Shape> operands;
  };
  std::int64_t width = 0;  ///< features in and out of each layer
  /// How several gradients become a bucket: `concat` (a flat tensor) or `coalesce` (a call of several operands).
  std::string fusion;
  int buckets = 0;  ///< as the compiler counted them
  std::vector<Call> calls;  ///< in the order in which they start
};

/// All of g_compiled_replicate_W2. Throws as `values` does.
std::vector<CompiledBackward> compiled_backwards();

}  // namespace shardproof::oracles::golden
