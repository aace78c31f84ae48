// PageMapping maps the memory of a control page, and finds the parts of its layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <new>
#include <string_view>

#include "harness/control/page_layout.hpp"

namespace shardproof::control {

class PageMapping {
 public:
  // See the functions of the same names in ControlPage.
  static std::unique_ptr<PageMapping> create(const std::filesystem::path& file, int world_size, std::string_view nonce);
  static std::unique_ptr<PageMapping> open(const std::filesystem::path& file, std::string_view nonce);
  static std::unique_ptr<PageMapping> anonymous(int world_size);

  ~PageMapping();
  PageMapping(const PageMapping&) = delete;
  PageMapping& operator=(const PageMapping&) = delete;

  std::size_t ranks() const { return layout_.ranks; }
  page::State& state() const { return *at<page::State>(layout_.state); }
  page::Vote& vote(std::uint64_t round, std::size_t rank) const {
    return at<page::Vote>(layout_.votes)[round % 2 * layout_.ranks + rank];
  }
  /// Throws std::out_of_range for a rank that is not in the world.
  page::RankArea& area(int rank) const;
  /// The words and texts of the abort, and of the doom.
  page::AbortWord abort() const { return abort_word(state().abort, state().abort_tickets, layout_.abort_texts); }
  page::AbortWord doom() const { return abort_word(state().doom, state().doom_tickets, layout_.doom_texts); }
  /// The end of the world that this page proposes to the hub.
  page::AbortWord proposed_doom() const {
    return abort_word(state().proposed_doom, state().proposal_tickets, layout_.proposal_texts);
  }
  /// Wakes all ranks, on every doorbell.
  void ring_all() const;

 private:
  PageMapping(void* address, int world_size) : layout_(world_size), base_(static_cast<std::byte*>(address)) {}
  template <class T> T* at(std::size_t offset) const { return std::launder(reinterpret_cast<T*>(base_ + offset)); }
  page::AbortWord abort_word(std::atomic<std::uint64_t>& word, std::atomic<std::uint32_t>& tickets,
                             std::size_t texts) const {
    return {word, tickets, {at<page::AbortText>(texts), layout_.abort_slots}};
  }
  void fill_header(std::string_view nonce) const;

  page::Layout layout_;
  std::byte* base_;
};

}  // namespace shardproof::control
