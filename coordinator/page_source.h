// Where pages of the KV cache come from.
#pragma once

#include <cstdint>
#include <vector>

namespace colibri {

// Whoever takes a page gives it back.
class PageSource {
 public:
  virtual ~PageSource() = default;
  // A zeroed page. Errors: kEnvironment when all are in use.
  virtual int32_t take_page() = 0;
  // And clears `pages`.
  virtual void give_back(std::vector<int32_t>& pages) = 0;
  virtual int32_t num_free_pages() const = 0;
};

}  // namespace colibri
