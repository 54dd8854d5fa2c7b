#include "model/added_tokens.h"

#include <algorithm>

#include "base/error.h"
#include "model/tokenizer_utf8.h"

namespace colibri {
namespace {

constexpr size_t kMaxContentBytes = 4096;

// Start of the last character of text[0, end); end > 0.
size_t last_char(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

size_t skip_space_left(std::string_view text, size_t end, size_t limit) {
  while (end > limit) {
    const size_t at = last_char(text, end);
    if (!is_white_space(decode_utf8(text, at).code_point)) break;
    end = at;
  }
  return std::max(end, limit);
}

size_t skip_space_right(std::string_view text, size_t at) {
  while (at < text.size()) {
    const Utf8Char next = decode_utf8(text, at);
    if (!is_white_space(next.code_point)) break;
    at += next.num_bytes;
  }
  return at;
}

}  // namespace

void AddedTokens::Trie::add(std::string_view text, int32_t token_idx) {
  size_t node = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    auto& edges = nodes[node].edges;
    const auto edge =
        std::lower_bound(edges.begin(), edges.end(), byte,
                         [](const auto& have, unsigned char want) { return have.first < want; });
    if (edge != edges.end() && edge->first == byte) {
      node = static_cast<size_t>(edge->second);
      continue;
    }
    const size_t next = nodes.size();
    edges.insert(edge, {byte, static_cast<int32_t>(next)});
    nodes.emplace_back();
    node = next;
  }
  if (nodes[node].token_idx < 0) nodes[node].token_idx = token_idx;
}

int32_t AddedTokens::Trie::longest(std::string_view text, size_t at, uint32_t& num_bytes) const {
  int32_t best = -1;
  size_t node = 0;
  for (size_t i = at; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto& edges = nodes[node].edges;
    const auto edge =
        std::lower_bound(edges.begin(), edges.end(), byte,
                         [](const auto& have, unsigned char want) { return have.first < want; });
    if (edge == edges.end() || edge->first != byte) break;
    node = static_cast<size_t>(edge->second);
    if (nodes[node].token_idx >= 0) {
      best = nodes[node].token_idx;
      num_bytes = static_cast<uint32_t>(i + 1 - at);
    }
  }
  return best;
}

AddedTokens::AddedTokens(std::vector<AddedTokenSpec> tokens, const Normalizer& normalizer)
    : tokens_(std::move(tokens)) {
  // Special tokens stand first: where two normalize to one text, theirs wins.
  std::stable_partition(tokens_.begin(), tokens_.end(),
                        [](const AddedTokenSpec& token) { return token.special; });
  RegexScratch scratch;
  bool keeps_start = true;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const AddedTokenSpec& token = tokens_[i];
    idx_of_id_.emplace(token.id, i);
    idx_of_content_.emplace(token.content, i);
    const std::string text =
        token.normalized ? normalizer.apply(token.content, scratch, keeps_start) : token.content;
    if (text.empty() || text.size() > kMaxContentBytes) {
      fail(ErrorKind::kUnsupported, "added token \"", token.content, "\" (id ", token.id, ") is ",
           text.size(), " bytes long when matched, want 1 to ", kMaxContentBytes);
    }
    (token.normalized ? normalized_ : raw_).add(text, static_cast<int32_t>(i));
    if (token.single_word && !word_) {
      const std::string word = "\\A[" + std::string(kWordClass) + "]";
      word_ = std::make_unique<const Regex>(Regex::from_pcre(word, "single_word"));
    }
  }
}

bool AddedTokens::is_single_word(std::string_view text, ByteRange range,
                                 RegexScratch& scratch) const {
  std::vector<ByteRange> matches;
  const auto is_word = [&](size_t at) {
    word_->find_all(text.substr(at, decode_utf8(text, at).num_bytes), scratch, matches);
    return !matches.empty();
  };
  if (range.begin > 0 && is_word(last_char(text, range.begin))) return false;
  return range.end == text.size() || !is_word(range.end);
}

void AddedTokens::cut(std::string_view text, Stage stage, RegexScratch& scratch,
                      std::vector<AddedTokenCut>& cuts) const {
  const Trie& trie = stage == Stage::kRaw ? raw_ : normalized_;
  cuts.clear();
  uint32_t done = 0;  // everything before it is cut
  for (size_t at = 0; at < text.size() && !trie.nodes[0].edges.empty();) {
    uint32_t num_bytes = 0;
    const int32_t idx = trie.longest(text, at, num_bytes);
    if (idx < 0) {
      ++at;
      continue;
    }
    const AddedTokenSpec& token = tokens_[static_cast<size_t>(idx)];
    ByteRange range{static_cast<uint32_t>(at), static_cast<uint32_t>(at + num_bytes)};
    at = range.end;
    if (token.single_word && !is_single_word(text, range, scratch)) continue;
    if (token.lstrip) {
      range.begin = static_cast<uint32_t>(skip_space_left(text, range.begin, done));
    }
    if (token.rstrip) range.end = static_cast<uint32_t>(skip_space_right(text, range.end));
    if (done < range.begin) cuts.push_back({{done, range.begin}, kNoToken});
    cuts.push_back({range, token.id});
    done = range.end;
  }
  if (done < text.size()) cuts.push_back({{done, static_cast<uint32_t>(text.size())}, kNoToken});
}

const AddedTokenSpec* AddedTokens::find(int32_t id) const {
  const auto at = idx_of_id_.find(id);
  return at == idx_of_id_.end() ? nullptr : &tokens_[at->second];
}

const AddedTokenSpec* AddedTokens::find(std::string_view content) const {
  const auto at = idx_of_content_.find(content);
  return at == idx_of_content_.end() ? nullptr : &tokens_[at->second];
}

}  // namespace colibri
