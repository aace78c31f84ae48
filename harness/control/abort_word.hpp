// AbortWord is the abort word or the doom word of a control page. A single atomic word decides which caller was first,
// and its parts are never torn. The text is in a slot of its own, which no later caller overwrites while the word names
// it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "harness/base/page_words.hpp"
#include "harness/control/abort.hpp"
#include "harness/protocol/failure_text.hpp"

namespace shardproof::control::page {

using AbortText = base::page::Text<protocol::abort_text_limit>;

class AbortWord {
 public:
  /// A rank that finds no abort writes its text before it tries to be the first. At most every rank, the launcher and
  /// the link to other hosts do so.
  static constexpr std::size_t slots_for(std::size_t ranks) { return ranks + 3; }

  AbortWord(std::atomic<std::uint64_t>& word, std::atomic<std::uint32_t>& tickets, std::span<AbortText> texts)
      : word_(word), tickets_(tickets), texts_(texts) {}

  /// Returns whether this call was the first one for the epoch, and no later epoch has an abort.
  bool raise(std::uint32_t epoch, const Abort& abort);
  /// Makes this the abort of the epoch, also where the epoch has another one. The latest epoch stays.
  void replace(std::uint32_t epoch, const Abort& abort);
  /// The latest aborted epoch.
  std::optional<std::uint32_t> epoch() const;
  /// The abort of this epoch, if it is the latest one.
  std::optional<Abort> of(std::uint32_t epoch) const;

 private:
  template <class MayReplace>
  bool store(std::uint32_t epoch, const Abort& abort, const MayReplace& may_replace);
  // A stray write of a rank may have changed the slot number. The modulo keeps readers inside the page.
  AbortText& text(std::size_t slot) const { return texts_[slot % texts_.size()]; }

  std::atomic<std::uint64_t>& word_;
  std::atomic<std::uint32_t>& tickets_;
  std::span<AbortText> texts_;
};

}  // namespace shardproof::control::page
