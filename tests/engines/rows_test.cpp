#include <catch2/catch_test_macros.hpp>

#include "fixtures/engines/sharding/rows.hpp"
#include "tests/golden_tables/golden_tables.hpp"

using namespace shardproof::engines;

TEST_CASE("rows are sharded in ceil-sized chunks, and late ranks may get none") {
  // 5 rows over 4 ranks: 2, 2, 1, 0. Source: torch.chunk, as fully_shard uses it.
  CHECK(row_shard(5, 4, 0).count == 2);
  CHECK(row_shard(5, 4, 1).count == 2);
  CHECK(row_shard(5, 4, 2).count == 1);
  CHECK(row_shard(5, 4, 3).count == 0);
  CHECK(row_shard(5, 4, 3).padded == 2);
  // 17 rows over 128 ranks: 17 ranks hold one row each.
  CHECK(row_shard(17, 128, 16).count == 1);
  CHECK(row_shard(17, 128, 17).count == 0);
}

TEST_CASE("every row has exactly one owner, in rank order, at any size") {
  for (int world = 1; world <= 17; ++world) {
    for (std::int64_t rows = 0; rows <= 70; ++rows) {
      std::int64_t next = 0;
      for (int rank = 0; rank < world; ++rank) {
        const RowShard shard = row_shard(rows, world, rank);
        CAPTURE(world, rows, rank);
        if (shard.count > 0) REQUIRE(shard.start == next);
        REQUIRE(shard.count <= shard.padded);
        REQUIRE(shard.padded * world >= rows);
        REQUIRE(shard.padded == row_shard(rows, world, 0).padded);
        next += shard.count;
      }
      REQUIRE(next == rows);
    }
  }
}

TEST_CASE("rows are sharded as in PyTorch, at every recorded world and size") {
  const auto recorded = shardproof::oracles::golden::chunks();
  REQUIRE(recorded.size() > 100);
  for (const auto& [world, rows, shards, padded_rows] : recorded) {
    for (int rank = 0; rank < world; ++rank) {
      CAPTURE(world, rows, rank);
      const RowShard shard = row_shard(rows, world, rank);
      CHECK(shard.count == shards[static_cast<std::size_t>(rank)]);
      CHECK(shard.padded * world == padded_rows);
    }
  }
}
