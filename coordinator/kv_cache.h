// Keys and values of all sequences, in pages of one tile (64 positions). The pool reserves
// addresses for all its pages; physical memory is taken page by page as sequences grow.
//
// One page number stands for the same 64 positions in every layer, so a sequence has one page
// table.
#pragma once

#include <cstdint>
#include <vector>

#include "base/buffer.h"
#include "coordinator/page_source.h"
#include "kernels/backend.h"

namespace colibri {

class KvCache final : public PageSource {
 public:
  // num_pages is the most that all sequences together may hold. The pages lie where the backend
  // computes.
  KvCache(const KvLayout& layout, int num_layers, int32_t num_pages, const Backend& backend);

  const KvLayout& layout() const { return layout_; }
  // Page 0 of a layer, as kernels/ops.h wants it.
  void* pool(int layer);

  // A zeroed page. Fails with kEnvironment when all are in use (num_pages and what to do named).
  int32_t take_page() override;
  void give_back(std::vector<int32_t>& pages) override;
  // The page table of nobody: where a step's padding writes. One page that take_page() never gives.
  const int32_t* scratch_table() const { return &num_pages_; }
  int32_t num_pages() const { return num_pages_; }
  int32_t num_free_pages() const override { return static_cast<int32_t>(free_.size()); }

 private:
  Backend backend_;
  KvLayout layout_;
  int32_t num_pages_;  // and the number of the scratch page, which comes after them
  std::vector<Buffer> layers_;
  std::vector<int32_t> free_;   // a stack
  std::vector<bool> was_used_;  // fresh pages are zero already
};

// The layout a model's attention asks for.
struct AttentionConfig;
KvLayout kv_layout_of(const AttentionConfig& attention, DType kv_dtype);

}  // namespace colibri
