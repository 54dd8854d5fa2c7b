// Stacks of the threads: kept for reuse, each behind a guard page.
#pragma once

#include <boost/context/stack_context.hpp>

namespace colibri_sim {

// A stack allocator as Boost.Context wants it. Stacks begin at different offsets in their pages:
// at equal ones all threads' frames would share a few lines of the processor's cache.
class FibreStacks {
 public:
  boost::context::stack_context allocate();
  void deallocate(boost::context::stack_context& stack) noexcept;
};

}  // namespace colibri_sim
