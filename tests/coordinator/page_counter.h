// Pages that are numbers and nothing else.
#pragma once

#include <gtest/gtest.h>

#include "coordinator/page_source.h"

namespace colibri {

class PageCounter : public PageSource {
 public:
  explicit PageCounter(int32_t num_pages) {
    for (int32_t page = num_pages; page > 0; --page) free_.push_back(page - 1);
  }
  int32_t take_page() override {
    EXPECT_FALSE(free_.empty());
    const int32_t page = free_.back();
    free_.pop_back();
    return page;
  }
  void give_back(std::vector<int32_t>& pages) override {
    free_.insert(free_.end(), pages.rbegin(), pages.rend());
    pages.clear();
  }
  int32_t num_free_pages() const override { return static_cast<int32_t>(free_.size()); }

 private:
  std::vector<int32_t> free_;
};

}  // namespace colibri
