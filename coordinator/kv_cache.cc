#include "coordinator/kv_cache.h"

#include "base/error.h"
#include "model/config.h"

namespace colibri {

KvCache::KvCache(const KvLayout& layout, int num_layers, int32_t num_pages, const Backend& backend)
    : backend_(backend),
      layout_(layout),
      num_pages_(num_pages),
      was_used_(static_cast<size_t>(num_pages), false) {
  const auto bytes = static_cast<size_t>(num_pages + 1) * static_cast<size_t>(layout.page_bytes());
  for (int layer = 0; layer < num_layers; ++layer) layers_.emplace_back(*backend.device, bytes);
  for (int32_t page = num_pages; page > 0; --page) free_.push_back(page - 1);
}

void* KvCache::pool(int layer) { return layers_[static_cast<size_t>(layer)].data(); }

int32_t KvCache::take_page() {
  if (free_.empty()) {
    fail(ErrorKind::kEnvironment, "the KV cache is full: all ", num_pages_, " pages of ", kTile,
         " positions are in use; raise --max-context or lower --max-batch");
  }
  const int32_t page = free_.back();
  free_.pop_back();
  const auto page_bytes = static_cast<size_t>(layout_.page_bytes());
  if (was_used_[static_cast<size_t>(page)]) {
    for (Buffer& layer : layers_) {
      backend_.device->zero(layer.as<char>() + static_cast<size_t>(page) * page_bytes, page_bytes,
                            *backend_.stream);
    }
  }
  was_used_[static_cast<size_t>(page)] = true;
  return page;
}

void KvCache::give_back(std::vector<int32_t>& pages) {
  for (auto page = pages.rbegin(); page != pages.rend(); ++page) free_.push_back(*page);
  pages.clear();
}

KvLayout kv_layout_of(const AttentionConfig& attention, DType kv_dtype) {
  KvLayout layout;
  layout.dtype = kv_dtype;
  if (attention.kind == AttentionKind::kLatent) {
    layout.num_kv_heads = 1;
    layout.key_dim = attention.kv_lora_rank + attention.qk_rope_head_dim;
    layout.value_dim = attention.kv_lora_rank;
    layout.shared_value = true;
  } else {
    layout.num_kv_heads = attention.num_kv_heads;
    layout.key_dim = attention.head_dim;
    layout.value_dim = attention.head_dim;
  }
  return layout;
}

}  // namespace colibri
