#include "coordinator/kv_cache.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace colibri {
namespace {

KvLayout small_layout() {
  KvLayout layout;
  layout.key_dim = 2;
  layout.value_dim = 2;
  return layout;
}

// A backend of the host for the cache's memory.
struct Host {
  ThreadPool pool{{.num_threads = 1}};
  std::unique_ptr<Device> device = make_cpu_device(pool);
  std::unique_ptr<Stream> stream = device->make_stream();
  Backend backend() { return {device.get(), stream.get(), nullptr, &pool}; }
};

TEST(KvCacheTest, PageUsedBeforeComesBackZeroed) {
  Host host;
  KvCache cache(small_layout(), 2, 1, host.backend());
  std::vector<int32_t> pages = {cache.take_page()};
  static_cast<float*>(cache.pool(1))[5] = 7;
  cache.give_back(pages);
  cache.take_page();
  EXPECT_EQ(static_cast<float*>(cache.pool(1))[5], 0);
}

TEST(KvCacheTest, FullCacheNamesWhatToRaise) {
  Host host;
  KvCache cache(small_layout(), 1, 1, host.backend());
  cache.take_page();
  try {
    cache.take_page();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
    EXPECT_NE(std::string(error.what()).find("--max-context"), std::string::npos);
  }
}

TEST(KvCacheTest, PagesOfASequenceAreGivenBackForOthers) {
  Host host;
  KvCache cache(small_layout(), 1, 2, host.backend());
  std::vector<int32_t> pages = {cache.take_page(), cache.take_page()};
  EXPECT_NE(pages[0], pages[1]);
  cache.give_back(pages);
  EXPECT_TRUE(pages.empty());
  EXPECT_EQ(cache.num_free_pages(), 2);
}

}  // namespace
}  // namespace colibri
