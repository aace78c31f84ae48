// The JSON documents between launcher and worker: listing, plan, endings. All have the same reader, so all are mutated
// the same way.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/protocol/case_info.hpp"
#include "harness/protocol/ending.hpp"
#include "harness/protocol/gpu_listing.hpp"
#include "harness/protocol/rank_end.hpp"
#include "harness/protocol/world_plan.hpp"

namespace shardproof {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::ordered_json;

protocol::Listing listing() {
  protocol::Listing all;
  all.suite_version = "0.1.0";
  all.build = "b1";
  all.subjects = {{"fully_shard", "1.2"}};
  protocol::CaseInfo info{"a/b[W=2]", "a", {{"W", "2"}}, 2, {"A-1"}, {"slow"}, {"timeline"}, "suites/a.cpp", 12};
  all.cases = {info};
  all.faults = {{"drop", {"A-1"}, "drops a wait"}};
  all.clauses = {{"A-1", false, "text"}};
  all.seeds = {{"test_x.py::test_y", {"a/b[W=2]"}}};
  all.profiles = {{"core", "what everybody meets", 1, 2, {"quick"}, {"slow"}, {}, {}, true}};
  return all;
}

protocol::WorldPlan plan() {
  protocol::WorldPlan p;
  p.size = 4;
  p.nonce = "n";
  p.rendezvous = "/dev/shm/x";
  p.directory = "out/worlds/0";
  p.fault = "drop";
  p.seed = std::numeric_limits<std::uint64_t>::max();
  p.cases = {"a/b[W=4]", "a/b[W=4]"};
  p.case_timeout = std::chrono::milliseconds(1500);
  p.trace = true;
  return p;
}

protocol::GpuListing gpus() {
  protocol::GpuListing all;
  all.backend = "CUDA";
  all.driver = all.runtime = 13000;
  all.nccl = 22809;
  protocol::GpuInfo gpu;
  gpu.uuid = "GPU-1";
  gpu.name = "model";
  gpu.bus_id = "0000:17:00.0";
  gpu.memory_bytes = std::uint64_t{1} << 40;
  gpu.compute_major = 9;
  gpu.multiprocessors = 132;
  gpu.clock_khz = 1'980'000;
  all.gpus = {gpu, gpu};
  all.gpus[1].index = 1;
  all.gpus[1].uuid = "GPU-2";
  protocol::GpuInfo& known = all.gpus[1];
  known.numa_node = 1;
  known.pci_path = "pci0000:00/0000:17:00.0";
  known.clock_now_khz = 345'000;
  known.memory_clock_now_khz = 2'619'000;
  known.slowed_by = {"power cap"};
  known.peers = {{.uuid = "GPU-1",
                  .can_access = false,
                  .performance_rank = 1,
                  .native_atomics = false,
                  .nvlink = true,
                  .pci = "SYS"}};
  return all;
}

/// Takes away or spoils every field of a document in turn and hands the rest to `read`, which must refuse it and name
/// the field.
template <class Document>
void refuses_every_spoiled_field(const ordered_json& good) {
  for (const auto& item : good.items()) {
    auto missing = good;
    missing.erase(item.key());
    CAPTURE(item.key());
    CHECK_THROWS_WITH(missing.get<Document>(), ContainsSubstring("\"" + item.key() + "\" is missing"));
    auto wrong = good;
    wrong[item.key()] = item.value().is_object() ? ordered_json(7) : ordered_json{{"a", 7}};
    CHECK_THROWS_AS(wrong.get<Document>(), std::invalid_argument);
    CHECK_THROWS_WITH(wrong.get<Document>(),
                      ContainsSubstring("\"" + item.key() + "\"") && ContainsSubstring("expected"));
  }
  CHECK_THROWS_AS(ordered_json::array().get<Document>(), std::invalid_argument);
}

TEST_CASE("a listing survives the way through JSON") {
  const ordered_json json = listing();
  const auto back = json.get<protocol::Listing>();
  CHECK(back.cases == listing().cases);
  CHECK(back.subjects == listing().subjects);
  CHECK(back.faults == listing().faults);
  CHECK(back.clauses == listing().clauses);
  CHECK(back.seeds == listing().seeds);
  CHECK(back.profiles == listing().profiles);
  CHECK(ordered_json(back) == json);
}

TEST_CASE("a case is listed with the fields that scripts rely on, in their order") {
  CHECK(ordered_json(listing().cases[0]).dump() ==
        R"({"id":"a/b[W=2]","suite":"a","params":{"W":"2"},"world_size":2,"clauses":["A-1"],"tags":["slow"],)"
        R"("needs":["timeline"],"file":"suites/a.cpp","line":12})");
}

TEST_CASE("a listing says on which kind of engine a case plays, where it names one") {
  protocol::Listing all = listing();
  CHECK_FALSE(ordered_json(all)["cases"][0].contains("engine"));
  all.cases[0].engine = "fully_shard";
  ordered_json json = all;
  CHECK(json["cases"][0]["engine"] == "fully_shard");
  CHECK(json.get<protocol::Listing>().cases == all.cases);
  json["cases"][0]["engine"] = 7;
  CHECK_THROWS_WITH(json.get<protocol::Listing>(), ContainsSubstring("\"engine\""));
}

TEST_CASE("a listing says by which parameter a case draws what it plays, and each number is a case") {
  protocol::Listing all = listing();
  protocol::CaseInfo& drawn = all.cases[0];
  drawn.params = {{"W", "2"}, {"reseed", "1"}, {"seed", "1"}, {"z", "0"}};
  drawn.id = "a/b[W=2,reseed=1,seed=1,z=0]";
  CHECK_FALSE(protocol::drawn_number(drawn, drawn.id));
  drawn.drawn_by = "seed";
  ordered_json json = all;
  CHECK(json["cases"][0]["drawn_by"] == "seed");
  CHECK(json.get<protocol::Listing>().cases == all.cases);
  json["cases"][0]["drawn_by"] = "none";
  CHECK_THROWS_WITH(json.get<protocol::Listing>(), ContainsSubstring("\"drawn_by\""));

  const protocol::CaseInfo other = protocol::drawn_case(drawn, 250);
  CHECK(other.id == "a/b[W=2,reseed=1,seed=250,z=0]");
  CHECK(other.params.at("seed") == "250");
  CHECK(other.on_request);
  CHECK(protocol::drawn_number(drawn, other.id) == 250);
  CHECK(protocol::drawn_number(other, drawn.id) == 1);
  for (const char* const id :
       {"a/b[W=2,reseed=1,seed=0,z=0]", "a/b[W=2,reseed=1,seed=,z=0]", "a/b[W=2,reseed=1,seed=7,z=1]",
        "a/b[W=2,reseed=7,seed=1,z=0]", "a/b[W=2,reseed=1,seed=99999999999,z=0]", "a/b[W=2,reseed=1,seed=7", ""}) {
    CAPTURE(id);
    CHECK_FALSE(protocol::drawn_number(drawn, id));
  }
}

TEST_CASE("a listing says which cases are for threads, and why there can be none, where there is something to say") {
  protocol::Listing all = listing();
  all.cases[0].on_threads = true;
  all.cases[0].hosts = 2;
  all.cases[0].on_request = true;
  all.why_no_threads = "they cannot";
  const ordered_json json = all;
  CHECK(json["cases"][0]["on_threads"] == true);
  CHECK(json["cases"][0]["hosts"] == 2);
  CHECK(json["cases"][0]["on_request"] == true);
  CHECK(json.get<protocol::Listing>().cases == all.cases);
  CHECK(json.get<protocol::Listing>().why_no_threads == "they cannot");
  CHECK_FALSE(ordered_json(listing()).contains("why_no_threads"));
  ordered_json spoiled = json;
  spoiled["cases"][0]["on_threads"] = "yes";
  CHECK_THROWS_WITH(spoiled.get<protocol::Listing>(), ContainsSubstring("\"on_threads\""));
  spoiled = json;
  spoiled["why_no_threads"] = 7;
  CHECK_THROWS_WITH(spoiled.get<protocol::Listing>(), ContainsSubstring("\"why_no_threads\""));
}

TEST_CASE("a listing says what a subject claims, where it claims anything") {
  protocol::Listing claiming = listing();
  CHECK_FALSE(ordered_json(claiming)["subjects"][0].contains("claims"));
  claiming.subjects.front().claims = {{"fully_shard", {"timeline", "serial"}}, {"a_kind", {}}};
  ordered_json json = claiming;
  CHECK(json.get<protocol::Listing>().subjects == claiming.subjects);
  CHECK(json["subjects"][0]["claims"].dump() == R"({"fully_shard":["timeline","serial"],"a_kind":[]})");
  json["subjects"][0]["claims"]["a_kind"] = "all";
  CHECK_THROWS_WITH(json.get<protocol::Listing>(), ContainsSubstring("\"claims\""));
  json["subjects"][0]["claims"] = "all";
  CHECK_THROWS_WITH(json.get<protocol::Listing>(), ContainsSubstring("\"claims\""));
}

TEST_CASE("a listing says which subject is to be prepared once, and of no other that it is not") {
  CHECK_FALSE(ordered_json(listing())["subjects"][0].contains("warm"));
  protocol::Listing all = listing();
  all.subjects[0].warm = true;
  ordered_json json = all;
  CHECK(json.get<protocol::Listing>().subjects == all.subjects);
  json["subjects"][0]["warm"] = "yes";
  CHECK_THROWS_WITH(json.get<protocol::Listing>(), ContainsSubstring("\"warm\""));
}

TEST_CASE("a spoiled listing is refused") {
  const ordered_json json = listing();
  refuses_every_spoiled_field<protocol::Listing>(json);
  refuses_every_spoiled_field<protocol::CaseInfo>(json["cases"][0]);
  refuses_every_spoiled_field<protocol::SubjectInfo>(json["subjects"][0]);
  refuses_every_spoiled_field<protocol::FaultInfo>(json["faults"][0]);
  refuses_every_spoiled_field<protocol::ClauseInfo>(json["clauses"][0]);
  refuses_every_spoiled_field<protocol::SeedInfo>(json["seeds"][0]);
  refuses_every_spoiled_field<protocol::ProfileInfo>(json["profiles"][0]);
  auto no_rank = json;
  no_rank["cases"][0]["world_size"] = 0;
  CHECK_THROWS_WITH(no_rank.get<protocol::Listing>(), ContainsSubstring("at least 1"));
}

TEST_CASE("a profile takes cases by world size, tags, needs and the kind of their clauses") {
  auto all = listing();
  all.clauses = {{"A-1", true, "any"}, {"A-2", false, "the model engine"}};
  auto info = all.cases[0];  // two ranks, A-1, [slow]
  protocol::ProfileInfo profile;
  CHECK(protocol::is_in(profile, info, all));
  profile.least_ranks = 3;
  CHECK_FALSE(protocol::is_in(profile, info, all));
  profile.least_ranks = 2;
  CHECK(protocol::is_in(profile, info, all));
  profile.most_ranks = 1;
  CHECK_FALSE(protocol::is_in(profile, info, all));
  profile.most_ranks = 2;
  CHECK(protocol::is_in(profile, info, all));
  profile.tags = {"other"};
  CHECK_FALSE(protocol::is_in(profile, info, all));
  profile.tags = {"other", "slow"};
  CHECK(protocol::is_in(profile, info, all));
  profile.tags.clear();
  profile.without_tags = {"other", "slow"};
  CHECK_FALSE(protocol::is_in(profile, info, all));
  profile.without_tags = {"other"};
  info.needs = {"timeline", "compiled_step"};
  profile.needs = {"compiled_step"};
  CHECK(protocol::is_in(profile, info, all));
  profile.needs = {"tensor_parallel"};
  CHECK_FALSE(protocol::is_in(profile, info, all));
  profile.needs.clear();
  profile.without_needs = {"compiled_step"};
  CHECK_FALSE(protocol::is_in(profile, info, all));
  profile.needs = {"timeline"};
  CHECK(ordered_json(profile).get<protocol::ProfileInfo>() == profile);
  profile.needs.clear();
  profile.without_needs = {"tensor_parallel"};
  profile.required_only = true;
  CHECK(protocol::is_in(profile, info, all));
  info.clauses = {"A-1", "A-2"};
  CHECK_FALSE(protocol::is_in(profile, info, all));
  info.clauses = {"B-1"};  // no table has this clause
  CHECK(protocol::is_in(profile, info, all));
}

TEST_CASE("a listing of another protocol says so, whatever else it holds") {
  CHECK_THROWS_WITH(ordered_json({{"protocol", 3}}).get<protocol::Listing>(),
                    ContainsSubstring("speaks protocol 3, this launcher speaks 2"));
}

TEST_CASE("a plan survives the way through JSON and a spoiled one is refused") {
  const ordered_json json = plan();
  const auto back = json.get<protocol::WorldPlan>();
  CHECK(ordered_json(back) == json);
  CHECK(back.seed == std::numeric_limits<std::uint64_t>::max());
  CHECK(back.case_timeout == std::chrono::milliseconds(1500));
  CHECK(back.rendezvous == "/dev/shm/x");
  refuses_every_spoiled_field<protocol::WorldPlan>(json);
  for (const auto* field : {"size", "case_timeout_ms"}) {
    auto none = json;
    none[field] = 0;
    CHECK_THROWS_WITH(none.get<protocol::WorldPlan>(), ContainsSubstring("at least 1"));
  }
}

TEST_CASE("a plan says where its world's memory is, and why times are longer, only where it matters") {
  for (const char* const field : {"on_disk", "ranks_per_core"}) CHECK_FALSE(ordered_json(plan()).contains(field));
  protocol::WorldPlan unusual = plan();
  unusual.on_disk = true;
  unusual.ranks_per_core = 3;
  const auto back = ordered_json(unusual).get<protocol::WorldPlan>();
  CHECK(back.on_disk);
  CHECK(back.ranks_per_core == 3);
}

TEST_CASE("a plan says where the modules of MPI libraries are, if its launcher knows") {
  CHECK_FALSE(ordered_json(plan()).contains("mpi_modules"));
  protocol::WorldPlan messages = plan();
  messages.fabric = protocol::mpi_fabric;
  messages.mpi_modules = "/opt/lib/shardproof";
  const auto back = ordered_json(messages).get<protocol::WorldPlan>();
  CHECK(back.fabric == "mpi");
  CHECK(back.mpi_modules == "/opt/lib/shardproof");
}

TEST_CASE("a plan names a scheduler where its ranks are threads, and only a known one") {
  CHECK_FALSE(ordered_json(plan()).contains("scheduler"));
  protocol::WorldPlan threads = plan();
  threads.fabric = protocol::thread_fabric;
  threads.scheduler = protocol::Scheduler::free;
  ordered_json json = threads;
  CHECK(json.get<protocol::WorldPlan>().scheduler == protocol::Scheduler::free);
  json["scheduler"] = "lucky";
  CHECK_THROWS_WITH(json.get<protocol::WorldPlan>(), ContainsSubstring("scheduler") && ContainsSubstring("lucky"));
}

TEST_CASE("a plan says where times come from, unless it is events, and only what there is") {
  CHECK_FALSE(ordered_json(plan()).contains("times"));
  protocol::WorldPlan recorded = plan();
  recorded.times = protocol::cupti_times;
  ordered_json json = recorded;
  CHECK(json.get<protocol::WorldPlan>().times == "cupti");
  json["times"] = "sundial";
  CHECK_THROWS_WITH(json.get<protocol::WorldPlan>(), ContainsSubstring("\"times\"") && ContainsSubstring("sundial"));
}

TEST_CASE("a plan of documents has a case for each, numbered where there are several") {
  CHECK_FALSE(ordered_json(plan()).contains("scenarios"));
  CHECK(protocol::play_case_ids(plan()).empty());
  protocol::WorldPlan played = plan();
  played.scenarios = {"a.json"};
  CHECK(protocol::play_case_ids(played) == std::vector<std::string>{"play/scenario[W=4]"});
  played.scenarios.emplace_back("b.json");
  CHECK(protocol::play_case_ids(played) ==
        std::vector<std::string>{"play/scenario[W=4,n=0]", "play/scenario[W=4,n=1]"});
  CHECK(ordered_json(played).get<protocol::WorldPlan>().scenarios == played.scenarios);
}

TEST_CASE("a plan says which shared object its subject is in, where it is in one") {
  CHECK_FALSE(ordered_json(plan()).contains("subject_library"));
  protocol::WorldPlan loaded = plan();
  loaded.subject_library = "/engines/mine.so";
  ordered_json json = loaded;
  CHECK(json.get<protocol::WorldPlan>().subject_library == "/engines/mine.so");
  json["subject_library"] = 7;
  CHECK_THROWS_WITH(json.get<protocol::WorldPlan>(), ContainsSubstring("\"subject_library\""));
}

TEST_CASE("a plan records its ranks' environment, and why it is skipped or unfit for timing, where it is") {
  for (const char* field : {"environment", "unfit_for_timing", "skipped"})
    CHECK_FALSE(ordered_json(plan()).contains(field));
  protocol::WorldPlan written = plan();
  written.environment = {{{"A", "1"}}, {{"A", "2"}}};
  written.unfit_for_timing = "shared";
  written.skipped = "too large";
  const ordered_json json = written;
  const auto back = json.get<protocol::WorldPlan>();
  CHECK(back.environment == written.environment);
  CHECK(back.unfit_for_timing == "shared");
  CHECK(back.skipped == "too large");
  for (const char* field : {"environment", "unfit_for_timing", "skipped"}) {
    auto spoiled = json;
    spoiled[field] = 7;
    CHECK_THROWS_WITH(spoiled.get<protocol::WorldPlan>(), ContainsSubstring(std::string("\"") + field + "\""));
  }
}

TEST_CASE("a list of GPUs survives the way through JSON and a spoiled one is refused") {
  const ordered_json json = gpus();
  CHECK(json.get<protocol::GpuListing>() == gpus());
  refuses_every_spoiled_field<protocol::GpuListing>(json);
  refuses_every_spoiled_field<protocol::GpuInfo>(json["gpus"][0]);
  const auto refused = [&](const auto& spoil, const char* why) {
    auto spoiled = json;
    spoil(spoiled);
    CHECK_THROWS_WITH(spoiled.get<protocol::GpuListing>(), ContainsSubstring(why));
  };
  refused([](auto& spoiled) { spoiled["protocol"] = 2; }, "\"protocol\": expected 1, found 2");
  refused([](auto& spoiled) { spoiled["gpus"] = ordered_json::array(); }, "why there are none");
  refused([](auto& spoiled) { spoiled["why_none"] = "both"; }, "why there are none");
  refused([](auto& spoiled) { spoiled["gpus"][1]["uuid"] = "GPU-1"; }, "two GPUs are GPU-1");
  for (const char* uuid : {"", "GPU-1,GPU-2", "GPU 1", "GPU-1\n"})
    refused([&](auto& spoiled) { spoiled["gpus"][1]["uuid"] = uuid; }, "without blanks and commas");
  for (const char* field :
       {"index", "compute_major", "compute_minor", "multiprocessors", "clock_khz", "memory_clock_khz"})
    refused([&](auto& spoiled) { spoiled["gpus"][0][field] = -1; }, field);
  // Optional fields are checked as strictly if they are present.
  for (const char* field : {"numa_node", "clock_now_khz", "memory_clock_now_khz", "pci_path", "slowed_by", "peers"})
    refused([&](auto& spoiled) { spoiled["gpus"][1][field] = -1; }, field);
  for (const char* field : {"performance_rank", "native_atomics", "nvlink", "pci", "can_access"})
    refused([&](auto& spoiled) { spoiled["gpus"][1]["peers"][0][field] = -1; }, field);
  refused([](auto& spoiled) { spoiled["gpus"][1]["peers"][0]["pci"] = "NVL"; }, "PIX, PXB, PHB, NODE or SYS");
  refused([](auto& spoiled) { spoiled["gpus"][1]["peers"][0].erase("can_access"); }, "\"can_access\" is missing");
  for (const char* field : {"numa_node", "pci_path", "clock_now_khz", "memory_clock_now_khz", "slowed_by", "peers"})
    CHECK_FALSE(json["gpus"][0].contains(field));
  for (const char* peer : {"GPU-2", "GPU-3"})
    refused([&](auto& spoiled) { spoiled["gpus"][1]["peers"][0]["uuid"] = peer; }, "to be another GPU of the list");
  refused([](auto& spoiled) { spoiled["gpus"][1]["peers"].push_back(spoiled["gpus"][1]["peers"][0]); },
          "listed once; found GPU-1");
  protocol::GpuListing none;
  none.why_none = "no driver";
  CHECK(ordered_json(none).get<protocol::GpuListing>() == none);
  protocol::GpuListing without_records = gpus();
  CHECK_FALSE(json.contains("why_no_records"));
  without_records.why_no_records = "no libcupti";
  CHECK(ordered_json(without_records).get<protocol::GpuListing>() == without_records);
  refused([](auto& spoiled) { spoiled["why_no_records"] = 7; }, "\"why_no_records\"");
}

TEST_CASE("pairs of GPUs are strangers when either is known not to reach the other, and not when nothing is known") {
  const auto gpu = [](const char* uuid, std::vector<protocol::GpuPeer> peers) {
    protocol::GpuInfo info;
    info.uuid = uuid;
    info.peers = std::move(peers);
    return info;
  };
  const auto peer = [](const char* uuid, bool can_access) {
    protocol::GpuPeer known;
    known.uuid = uuid;
    known.can_access = can_access;
    return known;
  };
  const std::vector<protocol::GpuInfo> gpus{gpu("a", {peer("b", true), peer("c", true)}), gpu("b", {peer("a", true)}),
                                            gpu("c", {peer("a", false)}), gpu("d", {})};
  using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;
  CHECK(protocol::unreachable_pairs(gpus) == Pairs{{0, 2}});
  CHECK(protocol::pairs_text(Pairs{}).empty());
  CHECK(protocol::pairs_text(Pairs{{0, 2}, {1, 2}}) == "0 and 2, 1 and 2");
  CHECK(protocol::pairs_text(Pairs{{0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 5}}) == "0 and 1, 0 and 2, 0 and 3, and 2 more");
}

TEST_CASE("versions have the form that the libraries' users know") {
  CHECK(protocol::cuda_version_text(13000) == "13.0");
  CHECK(protocol::cuda_version_text(12040) == "12.4");
  CHECK(protocol::nccl_version_text(22809) == "2.28.9");
  CHECK(protocol::nccl_version_text(23003) == "2.30.3");
}

TEST_CASE("every way of ending survives the way through JSON") {
  for (int how = 0; how < 6; ++how) {
    const protocol::Ending ending{3, static_cast<protocol::Ending::How>(how), 11, 5, "SIGSEGV"};
    CHECK(ordered_json(ending).get<protocol::Ending>() == ending);
  }
  const ordered_json json = protocol::Ending{};
  refuses_every_spoiled_field<protocol::Ending>(json);
  auto other = json;
  other["how"] = "vanished";
  CHECK_THROWS_WITH(other.get<protocol::Ending>(), ContainsSubstring("\"vanished\""));
}

TEST_CASE("the end of a rank that another launcher started survives the way through JSON") {
  using protocol::RankEnd;
  for (const auto asked_by : {RankEnd::AskedBy::none, RankEnd::AskedBy::launcher, RankEnd::AskedBy::foreign_launcher}) {
    const RankEnd end{.rank = 3,
                      .signalled = true,
                      .code = 9,
                      .asked_by = asked_by,
                      .asked_signal = 15,
                      .lacked_memory = true,
                      .stream_bytes = 1,
                      .standard_output_bytes = 2,
                      .standard_error_bytes = 3,
                      .last_words = "no memory"};
    CHECK(ordered_json(end).get<RankEnd>() == end);
  }
  refuses_every_spoiled_field<RankEnd>(ordered_json(RankEnd{}));
}

}  // namespace
}  // namespace shardproof
