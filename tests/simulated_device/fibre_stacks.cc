#include "fibre_stacks.h"

#include <sys/mman.h>

#include <new>
#include <vector>

#include "memory.h"

namespace colibri_sim {
namespace {

constexpr size_t kStackBytes = 128 * 1024;
constexpr size_t kOffsetStep = 320, kNumOffsets = 12;  // all below a page

std::vector<boost::context::stack_context>& free_stacks() {
  static auto* list = new std::vector<boost::context::stack_context>;
  return *list;
}

}  // namespace

boost::context::stack_context FibreStacks::allocate() {
  if (!free_stacks().empty()) {
    const boost::context::stack_context stack = free_stacks().back();
    free_stacks().pop_back();
    return stack;
  }
  static size_t num_stacks = 0;
  void* map = mmap(nullptr, kStackBytes + kPageBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) throw std::bad_alloc();
  mprotect(map, kPageBytes, PROT_NONE);
  boost::context::stack_context stack;
  stack.size = kStackBytes - num_stacks++ % kNumOffsets * kOffsetStep;
  stack.sp = static_cast<unsigned char*>(map) + kPageBytes + stack.size;
  return stack;
}

void FibreStacks::deallocate(boost::context::stack_context& stack) noexcept {
  free_stacks().push_back(stack);
}

}  // namespace colibri_sim
