#include "coordinator/sequence_pages.h"

#include <algorithm>
#include <span>

#include "kernels/ops.h"

namespace colibri {

SequencePages::SequencePages(PageSource& source, std::optional<uint64_t> prefix_salt)
    : source_(source),
      keeps_prefixes_(prefix_salt.has_value()),
      prefixes_(kTile, prefix_salt.value_or(0)) {}

int64_t SequencePages::pages_for(int64_t num_positions) {
  return (num_positions + kTile - 1) / kTile;
}

void SequencePages::give_back(int32_t page) {
  one_page_.assign(1, page);
  source_.give_back(one_page_);
}

void SequencePages::begin(Sequence& sequence) {
  if (!keeps_prefixes_) return;
  // The last id always runs: its logits are what the sequence goes on with.
  const int64_t most = std::min(sequence.max_reused, sequence.num_known() - 1);
  if (most < kTile) return;
  const auto tokens = std::span(sequence.ids).first(static_cast<size_t>(most));
  prefixes_.acquire(tokens, sequence.salt, sequence.pages);
  sequence.num_shared = static_cast<int64_t>(sequence.pages.size());
  sequence.num_cached = sequence.num_shared * kTile;
}

bool SequencePages::grow(Sequence& sequence, int64_t num_positions) {
  const int64_t wanted = pages_for(num_positions);
  if (wanted - static_cast<int64_t>(sequence.pages.size()) > num_available()) return false;
  while (static_cast<int64_t>(sequence.pages.size()) < wanted) {
    if (source_.num_free_pages() == 0) give_back(prefixes_.evict());
    sequence.pages.push_back(source_.take_page());
  }
  return true;
}

void SequencePages::publish(Sequence& sequence) {
  if (!keeps_prefixes_) return;
  const int64_t most = std::min(sequence.num_cached, sequence.max_published);
  for (; (sequence.num_shared + 1) * kTile <= most; ++sequence.num_shared) {
    const auto idx = static_cast<size_t>(sequence.num_shared);
    int32_t& page = sequence.pages[idx];
    const int32_t known =
        prefixes_.publish({.tokens = std::span(sequence.ids).subspan(idx * kTile, kTile),
                           .salt = sequence.salt,
                           .before = idx == 0 ? -1 : sequence.pages[idx - 1],
                           .page = page});
    if (known != page) give_back(page);
    page = known;
  }
}

void SequencePages::release(Sequence& sequence) {
  const auto num_shared = static_cast<size_t>(sequence.num_shared);
  prefixes_.release(std::span(sequence.pages).first(num_shared));
  sequence.pages.erase(sequence.pages.begin(),
                       sequence.pages.begin() + static_cast<ptrdiff_t>(num_shared));
  source_.give_back(sequence.pages);
  sequence.num_shared = 0;
  sequence.num_cached = 0;
}

void SequencePages::count(const Sequence& sequence) {
  if (keeps_prefixes_) prefixes_.count(sequence.num_known(), sequence.num_cached);
}

void SequencePages::forget_prefixes() {
  for (int32_t page = prefixes_.evict(); page >= 0; page = prefixes_.evict()) give_back(page);
}

}  // namespace colibri
