#include "model/token_table.h"

#include <functional>

#include "base/error.h"

namespace colibri {
namespace {

uint32_t hash_of(std::string_view text) {
  const uint64_t hash = std::hash<std::string_view>{}(text);
  return static_cast<uint32_t>(hash ^ (hash >> 32));
}

}  // namespace

void TokenTable::add(std::string_view text, int64_t id) {
  if (id < 0 || id >= kMaxTokens) {
    fail(ErrorKind::kInput, "token \"", text, "\" has id ", id, ", want [0, ", kMaxTokens, ")");
  }
  if (bytes_.size() + text.size() > UINT32_MAX) {
    fail(ErrorKind::kInput, "the vocabulary has more than 4 GiB of text");
  }
  if (2 * (entries_.size() + 1) > slots_.size()) grow();
  const uint32_t hash = hash_of(text);
  const size_t slot = slot_of(text, hash);
  if (slots_[slot] >= 0) {
    fail(ErrorKind::kInput, "token \"", text, "\" appears twice, with ids ",
         entries_[static_cast<size_t>(slots_[slot])].id, " and ", id);
  }
  const auto idx = static_cast<size_t>(id);
  if (idx >= entry_of_id_.size()) entry_of_id_.resize(idx + 1, -1);
  if (entry_of_id_[idx] >= 0) {
    fail(ErrorKind::kInput, "id ", id, " belongs to token \"", text_at(entry_of_id_[idx]),
         "\" and to \"", text, "\"");
  }
  const auto entry = static_cast<int32_t>(entries_.size());
  entries_.push_back({static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(text.size()),
                      static_cast<int32_t>(id), hash});
  bytes_ += text;
  slots_[slot] = entry;
  entry_of_id_[idx] = entry;
}

int32_t TokenTable::id_of(std::string_view text) const {
  if (slots_.empty()) return kNoToken;
  const int32_t entry = slots_[slot_of(text, hash_of(text))];
  return entry < 0 ? kNoToken : entries_[static_cast<size_t>(entry)].id;
}

size_t TokenTable::slot_of(std::string_view text, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = hash & mask;
  while (slots_[slot] >= 0) {
    const Entry& entry = entries_[static_cast<size_t>(slots_[slot])];
    if (entry.hash == hash && text_at(slots_[slot]) == text) break;
    slot = (slot + 1) & mask;
  }
  return slot;
}

void TokenTable::grow() {
  slots_.assign(slots_.empty() ? 1024 : slots_.size() * 4, -1);
  const size_t mask = slots_.size() - 1;
  for (size_t i = 0; i < entries_.size(); ++i) {
    size_t slot = entries_[i].hash & mask;
    while (slots_[slot] >= 0) slot = (slot + 1) & mask;
    slots_[slot] = static_cast<int32_t>(i);
  }
}

}  // namespace colibri
