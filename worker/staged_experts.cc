#include "worker/staged_experts.h"

#include <algorithm>

namespace colibri {

StagedExperts::StagedExperts(LocalExperts& inner, const Backend& backend, const TokenRows& row_form,
                             const Limits& limits)
    : inner_(inner),
      backend_(backend),
      rows_(*backend.device, static_cast<size_t>(limits.max_rows * row_form.row_bytes())),
      results_(*backend.device,
               static_cast<size_t>(limits.max_pairs *
                                   token_row_bytes(backend.activations, row_form.width))) {}

void StagedExperts::run(const LocalRows& rows, Stream& stream) {
  if (rows.row_token.empty()) return;
  const int64_t num_rows = *std::max_element(rows.row_token.begin(), rows.row_token.end()) + 1;
  const int64_t num_pairs = rows.pair_begin.back() - rows.pair_begin.front();
  const NamedRange range(*backend_.device, "experts with rows in host memory");
  backend_.device->copy(rows_.data(), rows.tokens.data,
                        static_cast<size_t>(num_rows * rows.tokens.row_bytes()), stream);
  LocalRows staged = rows;
  staged.tokens.data = rows_.data();
  staged.out.data = results_.data();
  inner_.run(staged, stream);
  const int64_t result_bytes = num_pairs * token_row_bytes(rows.out.dtype, rows.tokens.width);
  backend_.device->copy(rows.out.data, results_.data(), static_cast<size_t>(result_bytes), stream);
  stream.synchronize();
}

}  // namespace colibri
