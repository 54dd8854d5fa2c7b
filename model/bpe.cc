#include "model/bpe.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "model/tokenizer_utf8.h"

namespace colibri {
namespace {

uint64_t pair_key(int32_t left, int32_t right) {
  return (uint64_t{static_cast<uint32_t>(left)} << 32) | static_cast<uint32_t>(right);
}

size_t slot_hash(uint64_t key) { return static_cast<size_t>((key * 0x9e3779b97f4a7c15ull) >> 20); }

int32_t id_of_merge_part(const TokenTable& vocab, std::string_view text, size_t rank) {
  const int32_t id = vocab.id_of(text);
  if (id == kNoToken) {
    fail(ErrorKind::kInput, "tokenizer.json: /model/merges/", rank, " needs token \"", text,
         "\", which /model/vocab lacks");
  }
  return id;
}

}  // namespace

Bpe::Bpe(BpeSpec spec)
    : vocab_(std::move(spec.vocab)),
      fuse_unk_(spec.fuse_unk),
      byte_fallback_(spec.byte_fallback),
      ignore_merges_(spec.ignore_merges) {
  for (char32_t c = 0; c < char_ids_.size(); ++c) {
    std::string utf8;
    append_utf8(utf8, c);
    char_ids_[c] = vocab_.id_of(utf8);
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    byte_ids_[byte] = vocab_.id_of(name);
  }
  if (spec.unk_token) {
    unk_id_ = vocab_.id_of(*spec.unk_token);
    if (unk_id_ == kNoToken) {
      fail(ErrorKind::kInput, "tokenizer.json: /model/unk_token is \"", *spec.unk_token,
           "\", which /model/vocab lacks");
    }
  }
  add_merges(spec.merges);
}

void Bpe::add_merges(const TextList& merges) {
  const size_t count = merges.size() / 2;
  size_t num_slots = 16;
  while (num_slots < 2 * count) num_slots *= 2;
  merges_.assign(num_slots, Merge{kFree, 0, kNoToken});
  std::string merged;
  int32_t merged_id = kNoToken;
  for (size_t rank = 0; rank < count; ++rank) {
    const std::string_view left = merges.at(2 * rank), right = merges.at(2 * rank + 1);
    const uint64_t key =
        pair_key(id_of_merge_part(vocab_, left, rank), id_of_merge_part(vocab_, right, rank));
    merged.assign(left).append(right);
    // Vocabularies are mostly written in merge order: the next id saves a search.
    const int32_t guess = merged_id + 1;
    merged_id = vocab_.has(guess) && vocab_.text_of(guess) == merged
                    ? guess
                    : id_of_merge_part(vocab_, merged, rank);
    size_t slot = slot_hash(key) & (num_slots - 1);
    while (merges_[slot].pair != kFree && merges_[slot].pair != key) {
      slot = (slot + 1) & (num_slots - 1);
    }
    merges_[slot] = {key, static_cast<uint32_t>(rank), merged_id};
  }
}

const Bpe::Merge* Bpe::find_merge(int32_t left, int32_t right) const {
  const uint64_t key = pair_key(left, right);
  size_t slot = slot_hash(key) & (merges_.size() - 1);
  while (merges_[slot].pair != key) {
    if (merges_[slot].pair == kFree) return nullptr;
    slot = (slot + 1) & (merges_.size() - 1);
  }
  return &merges_[slot];
}

int32_t Bpe::id_of_char(std::string_view utf8, char32_t code_point) const {
  return code_point < char_ids_.size() ? char_ids_[code_point] : vocab_.id_of(utf8);
}

bool Bpe::push_byte_tokens(std::string_view utf8, BpeScratch& scratch) const {
  if (!byte_fallback_) return false;
  for (const char c : utf8) {
    if (byte_ids_[static_cast<unsigned char>(c)] == kNoToken) return false;
  }
  for (const char c : utf8) {
    scratch.symbols_.push_back({byte_ids_[static_cast<unsigned char>(c)], 0, 0});
  }
  return true;
}

void Bpe::start_symbols(std::string_view piece, BpeScratch& scratch) const {
  auto& symbols = scratch.symbols_;
  symbols.clear();
  bool is_unk_pending = false;  // an unknown token that the next unknown character may join
  for (size_t at = 0; at < piece.size();) {
    const Utf8Char next = decode_utf8(piece, at);
    const std::string_view utf8 = piece.substr(at, next.num_bytes);
    at += next.num_bytes;
    const int32_t id = id_of_char(utf8, next.code_point);
    if (id != kNoToken) {
      if (is_unk_pending) symbols.push_back({unk_id_, 0, 0});
      is_unk_pending = false;
      symbols.push_back({id, 0, 0});
      continue;
    }
    // Byte tokens do not end a pending unknown: it stands behind them, as in the tokenizers
    // package.
    if (push_byte_tokens(utf8, scratch) || unk_id_ == kNoToken) continue;
    if (is_unk_pending && !fuse_unk_) symbols.push_back({unk_id_, 0, 0});
    is_unk_pending = true;
  }
  if (is_unk_pending) symbols.push_back({unk_id_, 0, 0});
  const auto count = static_cast<int32_t>(symbols.size());
  for (int32_t i = 0; i < count; ++i) {
    symbols[static_cast<size_t>(i)].prev = i - 1;
    symbols[static_cast<size_t>(i)].next = i + 1 < count ? i + 1 : -1;
  }
}

void Bpe::merge_all(BpeScratch& scratch) const {
  auto& heap = scratch.heap_;
  const auto symbol = [&scratch](int32_t i) -> BpeScratch::Symbol& {
    return scratch.symbols_[static_cast<size_t>(i)];
  };
  const auto is_later = [](const BpeScratch::Candidate& a, const BpeScratch::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  };
  const auto append = [&](int32_t at) {
    if (at < 0 || symbol(at).next < 0) return false;
    const Merge* merge = find_merge(symbol(at).id, symbol(symbol(at).next).id);
    if (merge != nullptr) heap.push_back({merge->rank, at, merge->merged_id});
    return merge != nullptr;
  };
  heap.clear();
  for (size_t i = 0; i + 1 < scratch.symbols_.size(); ++i) append(static_cast<int32_t>(i));
  std::make_heap(heap.begin(), heap.end(), is_later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), is_later);
    const BpeScratch::Candidate best = heap.back();
    heap.pop_back();
    BpeScratch::Symbol& left = symbol(best.at);
    if (left.id == kNoToken || left.next < 0) continue;
    BpeScratch::Symbol& right = symbol(left.next);
    const Merge* merge = find_merge(left.id, right.id);
    if (merge == nullptr || merge->merged_id != best.merged_id) continue;  // the pair is gone
    left.id = best.merged_id;
    left.next = right.next;
    right.id = kNoToken;
    if (left.next >= 0) symbol(left.next).prev = best.at;
    if (append(left.prev)) std::push_heap(heap.begin(), heap.end(), is_later);
    if (append(best.at)) std::push_heap(heap.begin(), heap.end(), is_later);
  }
}

void Bpe::encode(std::string_view piece, BpeScratch& scratch, std::vector<int32_t>& ids) const {
  if (ignore_merges_) {
    const int32_t whole = vocab_.id_of(piece);
    if (whole != kNoToken) {
      ids.push_back(whole);
      return;
    }
  }
  start_symbols(piece, scratch);
  merge_all(scratch);
  for (const auto& symbol : scratch.symbols_) {
    if (symbol.id != kNoToken) ids.push_back(symbol.id);
  }
}

}  // namespace colibri
