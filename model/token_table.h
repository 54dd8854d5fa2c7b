// Token texts and their ids, both ways, in one block of memory: a vocabulary of 150 000 loads in
// milliseconds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace colibri {

inline constexpr int32_t kNoToken = -1;

// Ids of a tokenizer lie in [0, kMaxTokens); the id table is that large at most.
inline constexpr int32_t kMaxTokens = 1 << 24;

class TokenTable {
 public:
  // Adds a token. Fails with kInput, naming both, when the text or the id is there already or the
  // id is outside [0, kMaxTokens). Not thread safe; everything below is.
  void add(std::string_view text, int64_t id);

  // kNoToken if there is no such token.
  int32_t id_of(std::string_view text) const;
  bool has(int32_t id) const {
    return id >= 0 && id < num_ids() && entry_of_id_[static_cast<size_t>(id)] >= 0;
  }
  // The text of a token that is there; lives as long as the table and no token is added.
  std::string_view text_of(int32_t id) const {
    return text_at(entry_of_id_[static_cast<size_t>(id)]);
  }
  // Largest id + 1; ids below it may be holes.
  int32_t num_ids() const { return static_cast<int32_t>(entry_of_id_.size()); }
  int32_t size() const { return static_cast<int32_t>(entries_.size()); }

 private:
  struct Entry {
    uint32_t begin, num_bytes;
    int32_t id;
  };
  struct Slot {
    uint32_t hash;
    int32_t entry;  // -1: free
  };
  std::string_view text_at(int32_t entry) const {
    const Entry& e = entries_[static_cast<size_t>(entry)];
    return std::string_view(bytes_).substr(e.begin, e.num_bytes);
  }
  // The slot that holds `text` or would hold it. slots_ is not empty.
  size_t slot_of(std::string_view text, uint32_t hash) const;
  void grow();

  std::string bytes_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;           // open addressing, a power of two, at most half full
  std::vector<int32_t> entry_of_id_;  // or -1 for a hole
};

}  // namespace colibri
