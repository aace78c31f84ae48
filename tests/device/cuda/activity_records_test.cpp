// How records are read, from buffers as CUPTI fills them and by its own function that goes through them: that one needs
// no GPU.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <vector>

#include "harness/device/cuda/module/activity_handover.hpp"
#include "harness/device/cuda/module/cupti_objection.hpp"
#include "harness/device/cuda/module/tables.hpp"

using namespace shardproof::device::cuda;

namespace {

class Buffer {
 public:
  template <class Record>
  Buffer& put(const Record& record) {
    std::memcpy(bytes_.data() + size_, &record, sizeof record);
    size_ += sizeof record;
    return *this;
  }
  template <class Record>
  Buffer& put_span(CUpti_ActivityKind kind, std::uint32_t call, std::uint64_t start, std::uint64_t end) {
    Record record{};
    record.kind = kind;
    record.correlationId = call;
    record.streamId = 3;
    record.start = start;
    record.end = end;
    return put(record);
  }
  Buffer& put_id(std::uint32_t call, std::uint64_t id,
                 CUpti_ExternalCorrelationKind whose = ActivityHandover::our_ids) {
    CUpti_ActivityExternalCorrelation record{};
    record.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    record.externalKind = whose;
    record.externalId = id;
    record.correlationId = call;
    return put(record);
  }
  void give(ActivityHandover& handover) { handover.read(bytes_.data(), size_); }

 private:
  alignas(8) std::array<std::uint8_t, 4096> bytes_{};
  std::size_t size_ = 0;
};

std::vector<std::array<std::int64_t, 4>> taken(ActivityHandover& handover) {
  const ActivityRecord* records = nullptr;
  std::size_t count = 7, dropped = 7;
  CHECK(handover.take(&records, &count, &dropped) == 0);
  CHECK(dropped == 0);
  std::vector<std::array<std::int64_t, 4>> all;
  for (std::size_t i = 0; i < count; ++i) {
    const ActivityRecord& one = records[i];
    all.push_back({static_cast<std::int64_t>(one.id), static_cast<std::int64_t>(one.stream), one.start_ns, one.end_ns});
  }
  return all;
}

}  // namespace

TEST_CASE("records find their ids, whichever comes first and in whichever buffer") {
  if (!found_cupti().objection.empty()) SKIP(found_cupti().objection);
  ActivityHandover handover(found_cupti().library);
  Buffer()
      .put_id(7, 42)
      .put_span<KernelRecord>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 7, 100, 200)
      .put_span<MemsetRecord>(CUPTI_ACTIVITY_KIND_MEMSET, 8, 300, 301)
      .put_span<CopyRecord>(CUPTI_ACTIVITY_KIND_MEMCPY, 9, 400, 500)
      .put_id(10, 44, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1)
      .put_span<KernelRecord>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 10, 600, 700)
      .give(handover);
  Buffer().put_id(9, 43).put_id(8, 41).give(handover);
  CHECK(taken(handover) == std::vector<std::array<std::int64_t, 4>>{
                               {42, 3, 100, 200}, {41, 3, 300, 301}, {43, 3, 400, 500}, {0, 3, 600, 700}});
  CHECK(taken(handover).empty());
  Buffer()
      .put_span<KernelRecord>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 7, 800, 900)
      .give(handover);  // of another call by now
  CHECK(taken(handover) == std::vector<std::array<std::int64_t, 4>>{{0, 3, 800, 900}});
}

TEST_CASE("activity records report what CUPTI cannot read, and how many records it dropped") {
  CuptiLibrary library{};
  library.next_record = [](std::uint8_t*, std::size_t, CUpti_Activity**) { return CUPTI_ERROR_INVALID_PARAMETER; };
  library.dropped_records = [](CUcontext, std::uint32_t, std::size_t* dropped) {
    *dropped = 2;
    return CUPTI_SUCCESS;
  };
  ActivityHandover handover(library);
  Buffer().put_id(1, 2).give(handover);
  const ActivityRecord* records = nullptr;
  std::size_t count = 7, dropped = 7;
  CHECK(handover.take(&records, &count, &dropped) == CUPTI_ERROR_INVALID_PARAMETER);
  CHECK(count == 0);
  CHECK(dropped == 4);  // when the buffer came, and when it was taken
  CHECK(handover.take(&records, &count, &dropped) == 0);
  CHECK(dropped == 2);
}

TEST_CASE("CUPTI is loaded where it is, and says by name why it keeps no records without a driver") {
  const char* why = nullptr;
  const ActivityTable* const table = activity_table(&why);
  if (table == nullptr) SKIP(why);
  CHECK(std::string(table->error_name(CUPTI_ERROR_QUEUE_EMPTY)) == "CUPTI_ERROR_QUEUE_EMPTY");
  CHECK(std::string(table->error_name(-5)) == "an unknown status");
  for (const Status status : {0, 8, 26, 35, 39, 40, 999}) CHECK_FALSE(std::string(table->error_text(status)).empty());
  std::uint32_t version = 0;
  CHECK(found_cupti().library.get_version(&version) == CUPTI_SUCCESS);
  CHECK(version >= CUPTI_API_VERSION);
  int driver = 0;
  if (cuda_table().driver_version(&driver) == 0 && driver != 0) SKIP("there is a driver here");
  const ActivityRecord* records = nullptr;
  std::size_t count = 0, dropped = 0;
  for (const Status status :
       {table->start(), table->push_id(2), table->pop_id(), table->flush(&records, &count, &dropped)}) {
    CHECK(std::string(table->error_name(status)) == "CUPTI_ERROR_UNKNOWN");
  }
}
