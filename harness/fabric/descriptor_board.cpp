#include "harness/fabric/descriptor_board.hpp"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "harness/base/page_words.hpp"
#include "harness/control/doorbell.hpp"  // Deadline

namespace shardproof::fabric {

namespace {

struct Note {
  std::atomic<std::uint64_t> number;  // of the call, from 1; 0: being written
  base::page::Bytes<sizeof(Descriptor)> asked;
};

// The notes of one rank.
struct Notes {
  std::atomic<std::uint64_t> posted;
  std::atomic<std::uint64_t> compared;
  std::array<Note, DescriptorBoard::kept> calls;
};

constexpr std::size_t name_bytes = 104;

}  // namespace

struct DescriptorBoard::Layout {
  enum Verdict : std::uint64_t { none, being_written, written };

  std::atomic<std::uint64_t> verdict;
  base::page::Text<512> mismatch;

  static std::size_t bytes(int size) { return sizeof(Layout) + static_cast<std::size_t>(size) * sizeof(Notes); }
  Notes& of(int rank) { return *std::launder(reinterpret_cast<Notes*>(this + 1) + rank); }

  void put(int rank, const Descriptor& asked) {
    Notes& notes = of(rank);
    Note& note = notes.calls[asked.sequence % DescriptorBoard::kept];
    note.number.store(0, std::memory_order_release);
    note.asked.store(&asked, sizeof asked);
    note.number.store(asked.sequence + 1, std::memory_order_release);
    notes.posted.store(asked.sequence + 1, std::memory_order_release);
  }

  /// False: there is a verdict already.
  bool put_verdict(std::string_view text) {
    std::uint64_t no_verdict = none;
    if (!verdict.compare_exchange_strong(no_verdict, being_written)) return false;
    mismatch.store(text);
    verdict.store(written, std::memory_order_release);
    return true;
  }
};

std::unique_ptr<DescriptorBoard> DescriptorBoard::make(shm::SharedMemory& memory, Group& group) {
  const std::size_t bytes = Layout::bytes(group.size());
  std::shared_ptr<shm::Region> region;
  const Tensor name = Tensor::host(DType::u8, {name_bytes});
  if (group.rank() == 0) {
    auto [made, text] = memory.create(bytes);
    region = std::move(made);
    std::memcpy(name.data(), text.data(), std::min(text.size(), name_bytes - 1));
  }
  const Tensor shared = group.broadcast(name, 0, "descriptor board");
  if (!region) region = memory.attach(reinterpret_cast<const char*>(shared.data()), bytes);
  group.barrier("descriptor board");
  if (group.rank() == 0) region->drop_name();
  return std::unique_ptr<DescriptorBoard>(new DescriptorBoard(std::move(region), group, nullptr));
}

std::unique_ptr<DescriptorBoard> DescriptorBoard::make_copy(const Group& group, std::unique_ptr<Wire> wire) {
  std::shared_ptr<shm::Region> region = shm::make_thread_memory()->create(Layout::bytes(group.size())).region;
  return std::unique_ptr<DescriptorBoard>(new DescriptorBoard(std::move(region), group, std::move(wire)));
}

DescriptorBoard::DescriptorBoard(std::shared_ptr<shm::Region> region, const Group& group, std::unique_ptr<Wire> wire)
    : region_(std::move(region)),
      wire_(std::move(wire)),
      layout_(reinterpret_cast<Layout*>(region_->data())),  // zero bytes are an empty board
      name_(group.name()),
      members_(group.members().begin(), group.members().end()),
      rank_(group.rank()) {}

void DescriptorBoard::receive() {
  if (wire_) wire_->receive(*this);
}

bool DescriptorBoard::has_room() {
  receive();
  for (int rank = 0; rank < static_cast<int>(members_.size()); ++rank) {
    if (layout_->of(rank).compared.load(std::memory_order_acquire) + kept <= posted_) return false;
  }
  return true;
}

std::uint64_t DescriptorBoard::post(Descriptor asked) {
  asked.sequence = posted_++;
  layout_->put(rank_, asked);
  // If two ranks post and then look, at least one of them sees the other's note.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (wire_) wire_->posted(asked);
  return asked.sequence;
}

void DescriptorBoard::take_posted(int rank, const Descriptor& asked) { layout_->put(rank, asked); }

void DescriptorBoard::take_compared(int rank, std::uint64_t number) {
  layout_->of(rank).compared.store(number, std::memory_order_release);
}

void DescriptorBoard::take_mismatch(std::string_view text) { layout_->put_verdict(text); }

std::string DescriptorBoard::missing_calls() const {
  std::string text;
  for (int rank = 0; rank < static_cast<int>(members_.size()); ++rank) {
    const std::uint64_t posted = layout_->of(rank).posted.load(std::memory_order_acquire);
    if (posted >= posted_) continue;
    text += fmt::format("{}rank {} has posted {} of {} calls of group {}", text.empty() ? "" : ", ",
                        members_[static_cast<std::size_t>(rank)], posted, posted_, name_);
  }
  return text;
}

DescriptorBoard::Comparison DescriptorBoard::compare(std::uint64_t sequence) const {
  const auto of_world = [this](int member) { return members_[static_cast<std::size_t>(member)]; };
  Comparison comparison;
  std::vector<std::pair<int, Descriptor>> requests;
  bool enforces_tag = false;
  for (int rank = 0; rank < static_cast<int>(members_.size()); ++rank) {
    const Note& note = layout_->of(rank).calls[sequence % kept];
    const std::uint64_t number = note.number.load(std::memory_order_acquire);
    Descriptor asked;
    note.asked.load(&asked, sizeof asked);
    const bool is_stable = note.number.load(std::memory_order_acquire) == number;
    if (!is_stable || number != sequence + 1) {
      comparison.is_complete = false;
      continue;
    }
    enforces_tag |= asked.enforces_tag;
    requests.emplace_back(rank, asked);
  }
  for (auto& [rank, asked] : requests) {
    asked.enforces_tag = enforces_tag;
    if (same_request(requests.front().second, asked)) continue;
    comparison.difference = fmt::format("group {}, call #{}: rank {} asks for {}, rank {} for {}", name_, sequence,
                                        of_world(requests.front().first), describe_request(requests.front().second),
                                        of_world(rank), describe_request(asked));
    break;
  }
  return comparison;
}

void DescriptorBoard::check(Look look) {
  receive();
  while (compared_ < posted_) {
    const Comparison comparison = compare(compared_);
    if (!comparison.difference.empty() && (comparison.is_complete || look == Look::at_everything)) {
      if (layout_->put_verdict(comparison.difference) && wire_) wire_->found(comparison.difference);
      // The first rank will soon have written its text. If it dies before, each other rank throws its own result.
      const control::Deadline soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
      while (layout_->verdict.load(std::memory_order_acquire) != Layout::written) {
        if (std::chrono::steady_clock::now() > soon) throw Mismatch(comparison.difference);
        std::this_thread::yield();
      }
      break;
    }
    if (!comparison.is_complete) break;
    layout_->of(rank_).compared.store(++compared_, std::memory_order_release);
    if (wire_ && compared_ % between_reports == 0) wire_->compared(compared_);
  }
  if (layout_->verdict.load(std::memory_order_acquire) == Layout::written) throw Mismatch(layout_->mismatch.load());
}

}  // namespace shardproof::fabric
