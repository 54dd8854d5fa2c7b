// ExpertExchange over a Transport: remote rows as messages, own slots by the shard that launch
// hands in.
#pragma once

#include <memory>
#include <vector>

#include "base/buffer.h"
#include "kernels/ops.h"
#include "transport/expert_exchange.h"
#include "transport/row_batch.h"
#include "transport/transport.h"

namespace colibri {

struct ExchangeOptions {
  Transport* transport = nullptr;  // null: one rank alone
  LocalExperts* local = nullptr;   // null: this rank holds no expert
  Device* device = nullptr;
  Ops* ops = nullptr;
  DType row_dtype = DType::kF32;     // of the rows that the experts take
  DType result_dtype = DType::kF32;  // of those they return: kF32 or kBF16
  int64_t hidden_size = 0;
  int num_layers = 0;
  int64_t max_tokens = 0;  // largest T of a batch
  int64_t top_k = 0;
  bool may_spin = true;        // ranks do not outnumber cores
  bool self_exchange = false;  // own rows travel as messages too (tests)
};

// One coordinator's side. Messages lie in host memory: on a GPU, rows are gathered there and copied
// into them, and results copied back. Buffers are taken here, once. One thread.
std::unique_ptr<ExpertExchange> make_exchange(const ExchangeOptions& options);

}  // namespace colibri
