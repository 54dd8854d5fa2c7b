#include "coordinator/prefix_cache.h"

#include <algorithm>

#include "base/error.h"
#include "model/checksum.h"

namespace colibri {

uint64_t PrefixCache::hash_of(uint64_t before, std::span<const int32_t> tokens) {
  Checksum hash;
  hash.add(&before, sizeof(before));
  hash.add(tokens.data(), tokens.size_bytes());
  return hash.value();
}

PrefixCache::PrefixCache(int64_t block_size, uint64_t salt, Hash hash)
    : block_size_(block_size), salt_(salt), hash_(hash) {
  check(block_size > 0, "prefix blocks of ", block_size, " tokens");
}

uint64_t PrefixCache::hash_after(std::string_view salt, int32_t before) const {
  if (before >= 0) return known_.at(before).hash;
  Checksum hash;
  hash.add(&salt_, sizeof(salt_));
  hash.add(salt.data(), salt.size());
  return hash.value();
}

int32_t PrefixCache::find(const Block& block, uint64_t hash) const {
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    const Known& known = known_.at(it->second);
    const bool is_same = known.before == block.before &&
                         (block.before >= 0 || known.salt == block.salt) &&
                         std::equal(known.tokens.begin(), known.tokens.end(), block.tokens.begin(),
                                    block.tokens.end());
    if (is_same) return it->second;
  }
  return -1;
}

void PrefixCache::take(Known& known) {
  if (known.num_references == 0) idle_.erase(known.idle);
  ++known.num_references;
}

void PrefixCache::acquire(std::span<const int32_t> tokens, std::string_view salt,
                          std::vector<int32_t>& pages) {
  const auto size = static_cast<size_t>(block_size_);
  int32_t before = -1;
  for (size_t at = 0; at + size <= tokens.size(); at += size) {
    const auto block = tokens.subspan(at, size);
    const uint64_t hash = hash_(hash_after(salt, before), block);
    const int32_t page = find({.tokens = block, .salt = salt, .before = before}, hash);
    if (page < 0) return;
    take(known_.at(page));
    pages.push_back(page);
    before = page;
  }
}

int32_t PrefixCache::publish(const Block& block) {
  check(static_cast<int64_t>(block.tokens.size()) == block_size_, "prefix block of ",
        block.tokens.size(), " tokens, want ", block_size_);
  check(!known_.contains(block.page), "page ", block.page, " is published twice");
  const uint64_t hash = hash_(hash_after(block.salt, block.before), block.tokens);
  if (const int32_t page = find(block, hash); page >= 0) {
    take(known_.at(page));
    return page;
  }
  Known& known = known_[block.page];
  known.tokens.assign(block.tokens.begin(), block.tokens.end());
  if (block.before < 0) known.salt = block.salt;
  known.before = block.before;
  known.hash = hash;
  known.num_references = 1;
  by_hash_.emplace(hash, block.page);
  return block.page;
}

void PrefixCache::release(std::span<const int32_t> pages) {
  for (auto page = pages.rbegin(); page != pages.rend(); ++page) {
    Known& known = known_.at(*page);
    check(known.num_references > 0, "page ", *page, " is released more often than taken");
    if (--known.num_references == 0) known.idle = idle_.insert(idle_.end(), *page);
  }
}

int32_t PrefixCache::evict() {
  if (idle_.empty()) return -1;
  const int32_t page = idle_.front();
  idle_.pop_front();
  auto [it, end] = by_hash_.equal_range(known_.at(page).hash);
  while (it != end && it->second != page) ++it;
  by_hash_.erase(it);
  known_.erase(page);
  return page;
}

void PrefixCache::count(int64_t num_queried_tokens, int64_t num_hit_tokens) {
  stats_.num_queried_tokens += num_queried_tokens;
  stats_.num_hit_tokens += num_hit_tokens;
}

}  // namespace colibri
