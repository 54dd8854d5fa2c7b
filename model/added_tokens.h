// Tokens that are cut out of the text before anything else: specials and those added later.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/normalizer.h"
#include "model/tokenizer_regex.h"
#include "model/tokenizer_spec.h"

namespace colibri {

// A stretch of text: an added token, or ordinary text between them (id is kNoToken).
struct AddedTokenCut {
  ByteRange range;
  int32_t id = kNoToken;
};

// Immutable, usable from several threads.
class AddedTokens {
 public:
  // Which tokens are looked for: those matched in the text as it came, or those (normalized: true)
  // matched, in their own normalized form, in normalized text.
  enum class Stage : uint8_t { kRaw, kNormalized };

  AddedTokens(std::vector<AddedTokenSpec> tokens, const Normalizer& normalizer);

  // Cuts all of `text`: leftmost token first, the longest where several begin. Stretches of text
  // are never empty; the token's stretch takes the white space that lstrip and rstrip give it. O(n)
  // times the length of the longest token that begins like the text.
  void cut(std::string_view text, Stage stage, RegexScratch& scratch,
           std::vector<AddedTokenCut>& cuts) const;

  // nullptr if the id or text is not an added token's.
  const AddedTokenSpec* find(int32_t id) const;
  const AddedTokenSpec* find(std::string_view content) const;
  const std::vector<AddedTokenSpec>& all() const { return tokens_; }

 private:
  // A trie in two arrays: edges sorted by byte once built.
  struct Trie {
    struct Node {
      std::vector<std::pair<unsigned char, int32_t>> edges;
      int32_t token_idx = -1;
    };
    std::vector<Node> nodes{1};
    void add(std::string_view text, int32_t token_idx);
    // Longest token at text[at]; its index or -1, and its bytes.
    int32_t longest(std::string_view text, size_t at, uint32_t& num_bytes) const;
  };

  bool is_single_word(std::string_view text, ByteRange range, RegexScratch& scratch) const;

  std::vector<AddedTokenSpec> tokens_;
  std::unordered_map<int32_t, size_t> idx_of_id_;
  std::unordered_map<std::string_view, size_t> idx_of_content_;  // views into tokens_
  Trie raw_, normalized_;
  std::unique_ptr<const Regex> word_;
};

}  // namespace colibri
