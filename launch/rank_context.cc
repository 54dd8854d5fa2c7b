#include "launch/rank_context.h"

#include <new>
#include <optional>

#include "base/error.h"
#include "launch/local_ranks.h"
#include "transport/collectives.h"

namespace colibri {
namespace {

std::optional<ErrorInfo> outcome_of(const std::function<void()>& work) {
  try {
    work();
    return std::nullopt;
  } catch (const Error& error) {
    return ErrorInfo{error.kind(), error.what()};
  } catch (const std::bad_alloc&) {
    return ErrorInfo{ErrorKind::kEnvironment, "out of memory"};
  } catch (const std::exception& error) {
    return ErrorInfo{ErrorKind::kInternal, std::string("a bug of ours: ") + error.what()};
  }
}

}  // namespace

void agreed(RankContext& context, const std::string& what, int64_t timeout_ms,
            const std::function<void()>& work) {
  const std::optional<ErrorInfo> mine = outcome_of(work);
  if (context.transport != nullptr) {
    agree(*context.transport, mine, Deadline::after_ms(timeout_ms), what);
  }
  if (mine) throw Error(mine->kind, mine->message);
}

}  // namespace colibri
