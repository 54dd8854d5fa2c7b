// Which pages hold the keys and values of which tokens, so that a prompt that begins like an
// earlier one need not be computed again. Pure: it knows page numbers, not memory.
//
// A block is a full page: `block_size` tokens at positions [i * block_size, (i + 1) * block_size)
// of a text. What a page holds depends on all tokens up to its last one and on nothing else, so a
// block is known by its tokens and the block before it, the first one by its text's salt. A hash
// chained over blocks finds it, and a find counts only when the tokens, the salt and the page of
// the block before are equal: the hash is never trusted.
//
// Invariants:
// * A page is known for at most one block, and a block by at most one page.
// * Who holds a block holds all blocks before it. So a block nobody holds has none after it that
//   anybody holds, and every idle page can be evicted.
// * References are released last block first, so a block is evicted after all those behind it.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace colibri {

struct PrefixStats {
  int64_t num_queried_tokens = 0;  // of texts looked up
  int64_t num_hit_tokens = 0;      // of these, found
};

class PrefixCache {
 public:
  // XXH3-64 of `before` and the tokens.
  static uint64_t hash_of(uint64_t before, std::span<const int32_t> tokens);
  using Hash = uint64_t (*)(uint64_t before, std::span<const int32_t> tokens);

  // Blocks of one model on one engine: `salt` is mixed into every hash. `hash` may be replaced by
  // tests only.
  PrefixCache(int64_t block_size, uint64_t salt, Hash hash = hash_of);

  // Appends the pages of the longest known chain of full blocks at the start of `tokens` and takes
  // a reference of each. Texts of another `salt` are never found. O(tokens).
  void acquire(std::span<const int32_t> tokens, std::string_view salt, std::vector<int32_t>& pages);

  struct Block {
    std::span<const int32_t> tokens;  // [block_size]
    std::string_view salt;
    int32_t before = -1;  // page of the block before, of which the caller holds a reference
    int32_t page = 0;     // where it was computed; not known yet
  };
  // Makes a computed block known and takes a reference. Returns the page to go on with: the given
  // one, or where the block is known already, with the same bits; then the given page stays
  // unknown and the caller's.
  int32_t publish(const Block& block);

  // Gives back references of a chain's first pages, as acquire and publish returned them.
  void release(std::span<const int32_t> pages);

  // Forgets the block released longest ago and returns its page, which is the caller's now; -1 when
  // all are held.
  int32_t evict();

  // Known pages that nobody holds.
  int32_t num_idle() const { return static_cast<int32_t>(idle_.size()); }
  int32_t num_known() const { return static_cast<int32_t>(by_hash_.size()); }

  // Counted by the caller, because a text may be looked up again before it runs.
  void count(int64_t num_queried_tokens, int64_t num_hit_tokens);
  const PrefixStats& stats() const { return stats_; }

 private:
  struct Known {
    std::vector<int32_t> tokens;
    std::string salt;  // of a first block
    int32_t before = -1;
    uint64_t hash = 0;
    int32_t num_references = 0;
    std::list<int32_t>::iterator idle = {};  // its place there while nobody holds it
  };

  uint64_t hash_after(std::string_view salt, int32_t before) const;
  int32_t find(const Block& block, uint64_t hash) const;
  void take(Known& known);

  int64_t block_size_;
  uint64_t salt_;
  Hash hash_;
  std::unordered_map<int32_t, Known> known_;            // by page
  std::unordered_multimap<uint64_t, int32_t> by_hash_;  // pages
  std::list<int32_t> idle_;                             // pages, released longest ago first
  PrefixStats stats_;
};

}  // namespace colibri
