// A shard on a GPU as whoever has rows in host memory sees it.
#pragma once

#include "base/buffer.h"
#include "kernels/backend.h"
#include "transport/expert_exchange.h"

namespace colibri {

class StagedExperts : public LocalExperts {
 public:
  // The largest call; sizes the GPU's copies of rows and results.
  struct Limits {
    int64_t max_rows = 0, max_pairs = 0;
  };
  // `inner` outlives it.
  StagedExperts(LocalExperts& inner, const Backend& backend, const TokenRows& row_form,
                const Limits& limits);

  // Token rows 0 .. the largest of row_token and `out` lie in host memory; done when it returns.
  // Errors: those of `inner`.
  void run(const LocalRows& rows, Stream& stream) override;

  // Of rows and results on the device.
  size_t size_bytes() const { return rows_.size_bytes() + results_.size_bytes(); }

 private:
  LocalExperts& inner_;
  Backend backend_;
  Buffer rows_, results_;
};

}  // namespace colibri
