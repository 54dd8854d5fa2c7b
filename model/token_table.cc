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
  if (slots_[slot].entry >= 0) {
    fail(ErrorKind::kInput, "token \"", text, "\" appears twice, with ids ",
         entries_[static_cast<size_t>(slots_[slot].entry)].id, " and ", id);
  }
  const auto idx = static_cast<size_t>(id);
  if (idx >= entry_of_id_.size()) entry_of_id_.resize(idx + 1, -1);
  if (entry_of_id_[idx] >= 0) {
    fail(ErrorKind::kInput, "id ", id, " belongs to token \"", text_at(entry_of_id_[idx]),
         "\" and to \"", text, "\"");
  }
  const auto entry = static_cast<int32_t>(entries_.size());
  entries_.push_back({static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(text.size()),
                      static_cast<int32_t>(id)});
  bytes_ += text;
  slots_[slot] = {hash, entry};
  entry_of_id_[idx] = entry;
}

int32_t TokenTable::id_of(std::string_view text) const {
  if (slots_.empty()) return kNoToken;
  const int32_t entry = slots_[slot_of(text, hash_of(text))].entry;
  return entry < 0 ? kNoToken : entries_[static_cast<size_t>(entry)].id;
}

size_t TokenTable::slot_of(std::string_view text, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = hash & mask;
  while (slots_[slot].entry >= 0) {
    if (slots_[slot].hash == hash && text_at(slots_[slot].entry) == text) break;
    slot = (slot + 1) & mask;
  }
  return slot;
}

void TokenTable::grow() {
  const std::vector<Slot> old = std::move(slots_);
  slots_.assign(old.empty() ? 1024 : old.size() * 2, Slot{0, -1});
  const size_t mask = slots_.size() - 1;
  for (const Slot& moved : old) {
    if (moved.entry < 0) continue;
    size_t slot = moved.hash & mask;
    while (slots_[slot].entry >= 0) slot = (slot + 1) & mask;
    slots_[slot] = moved;
  }
}

}  // namespace colibri
