// Running texts and their pages: who holds how many, which are shared, which are left.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/page_source.h"
#include "coordinator/prefix_cache.h"

namespace colibri {

// A request's text as scheduler and pages see it. The engine owns it and appends to `ids`; what
// follows `salt` is written by SequencePages and Scheduler.
struct Sequence {
  int32_t number = 0;        // order of arrival
  std::vector<int32_t> ids;  // known: the prompt and what was generated
  int64_t max_reused = 0;    // so many leading positions may come from earlier texts
  std::string salt;          // only texts of the same salt share pages
  bool is_scored = false;    // the logits of all its positions are wanted
  int64_t max_published = std::numeric_limits<int64_t>::max();  // others may share so many

  int64_t num_cached = 0;      // positions whose keys and values are there; less than ids.size()
                               // while there is something to run
  std::vector<int32_t> pages;  // its page table: position p lies on pages[p / kTile]
  int64_t num_shared = 0;      // leading pages that the prefix cache knows
  int num_passed = 0;          // younger requests that were admitted while it waited
  bool was_admitted = false;   // once; it may wait again since

  int64_t num_known() const { return static_cast<int64_t>(ids.size()); }
  int64_t num_to_run() const { return num_known() - num_cached; }
};

// Hands pages to sequences and takes them back. With `prefix_salt`, full pages are kept after their
// sequence ended and serve others that begin alike, until the room is needed. No clock, no memory:
// pages are numbers.
class SequencePages {
 public:
  // `source` outlives it.
  explicit SequencePages(PageSource& source, std::optional<uint64_t> prefix_salt = {});
  ~SequencePages() { forget_prefixes(); }
  SequencePages(const SequencePages&) = delete;
  SequencePages& operator=(const SequencePages&) = delete;

  static int64_t pages_for(int64_t num_positions);

  // Pages that grow() can still hand out; those of prefixes that nobody runs are among them.
  int64_t num_available() const { return source_.num_free_pages() + prefixes_.num_idle(); }

  // For a sequence without pages: takes the known pages of its beginning, at most max_reused
  // positions and never all of its ids, and sets num_cached.
  void begin(Sequence& sequence);
  // Room for positions [0, num_positions). False, and nothing changed, when there are too few.
  bool grow(Sequence& sequence, int64_t num_positions);
  // Makes the full pages of cached positions known to others. A page that another sequence computed
  // meanwhile takes the place of this one's own.
  void publish(Sequence& sequence);
  // Takes all its pages; num_cached is 0 again.
  void release(Sequence& sequence);

  // Counts a sequence that begin() was called for in the statistics.
  void count(const Sequence& sequence);
  const PrefixStats& prefix_stats() const { return prefixes_.stats(); }
  // Gives the pages of prefixes that nobody runs back to the source.
  void forget_prefixes();

 private:
  void give_back(int32_t page);

  PageSource& source_;
  bool keeps_prefixes_;
  PrefixCache prefixes_;
  std::vector<int32_t> one_page_;
};

}  // namespace colibri
