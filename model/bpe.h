// Byte-pair merging: one piece of text to token ids.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/token_table.h"
#include "model/tokenizer_spec.h"

namespace colibri {

// Memory that one thread reuses from piece to piece.
class BpeScratch {
 private:
  friend class Bpe;
  struct Symbol {
    int32_t id;          // kNoToken once it is merged into its left neighbour
    int32_t prev, next;  // -1 at the ends
  };
  struct Candidate {
    uint32_t rank;
    int32_t at;
    int32_t merged_id;
  };
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

// Immutable, usable from several threads, each with its own scratch.
class Bpe {
 public:
  // Fails with kInput if a merge names a token that the vocabulary lacks or unk_token is not in it.
  explicit Bpe(BpeSpec spec);

  const TokenTable& vocab() const { return vocab_; }

  // Appends the ids of `piece`, well-formed UTF-8 of less than 2^31 bytes.
  //
  // Characters start as tokens of their own; then the pair with the best merge (lowest rank, then
  // leftmost) merges until none is left. A character the vocabulary lacks becomes its bytes'
  // tokens (byte_fallback, if all are there), else unk_token (runs fused with fuse_unk), else
  // nothing. With ignore_merges a piece that is a token as a whole is that token.
  //
  // Cost: O(n log n) for n characters: a heap of candidates over a linked list.
  void encode(std::string_view piece, BpeScratch& scratch, std::vector<int32_t>& ids) const;

 private:
  struct Merge {
    uint64_t pair;  // left id in the upper half; kFree if the slot is free
    uint32_t rank;
    int32_t merged_id;
  };
  static constexpr uint64_t kFree = UINT64_MAX;

  void add_merges(const TextList& merges);
  const Merge* find_merge(int32_t left, int32_t right) const;
  int32_t id_of_char(std::string_view utf8, char32_t code_point) const;
  void start_symbols(std::string_view piece, BpeScratch& scratch) const;
  bool push_byte_tokens(std::string_view utf8, BpeScratch& scratch) const;
  void merge_all(BpeScratch& scratch) const;

  TokenTable vocab_;
  std::vector<Merge> merges_;  // open addressing, a power of two
  std::array<int32_t, 0x250>
      char_ids_{};  // ids of the first characters, the byte-level ones among them
  std::array<int32_t, 256> byte_ids_{};  // <0x00> ... <0xFF>, or kNoToken
  int32_t unk_id_ = kNoToken;
  bool fuse_unk_, byte_fallback_, ignore_merges_;
};

}  // namespace colibri
