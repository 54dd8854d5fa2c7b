#include "kernels/cuda/dense_probe.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>

#include "base/cuda_check.h"
#include "base/error.h"

namespace colibri::cuda {
namespace {

cudaStream_t native(Stream& stream) { return static_cast<cudaStream_t>(stream.native_handle()); }

// An algorithm of one bucket that gave the probe row the same bits at every position.
struct Member {
  size_t bucket_idx = 0;
  size_t place = 0;  // in the heuristic's list
};

// All members with one result of the probe row.
struct BitClass {
  std::vector<float> result;
  std::vector<Member> members;  // by bucket, then place
};

// Numbers of widely different size: sums of them differ in nearly every other order.
std::vector<std::byte> random_pattern(size_t count, DType dtype) {
  std::mt19937 random(20240229);
  std::vector<std::byte> bytes(count * size_of(dtype));
  for (size_t i = 0; i < count; ++i) {
    const auto mantissa = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f;
    const float value = std::ldexp(mantissa, static_cast<int>(random() % 12) - 6);
    if (dtype == DType::kF32) {
      std::memcpy(bytes.data() + i * 4, &value, 4);
    } else {
      const uint16_t bits = float_to_bf16(value);
      std::memcpy(bytes.data() + i * 2, &bits, 2);
    }
  }
  return bytes;
}

class Probe {
 public:
  Probe(const DenseShape& shape, const ProbeTools& tools);
  void try_bucket(int64_t rows);
  const BitClass* choose() const;
  // The fastest member of the class in this bucket, and what the report says of it.
  size_t pick(const BitClass& best, size_t bucket_idx, DenseChoice& choice);
  std::vector<PinnedBucket> take_buckets(const BitClass& best, DenseReport& report);
  std::string why_not() const;

 private:
  struct Bucket {
    int64_t rows = 0;
    std::unique_ptr<LtProduct> product;
    std::vector<cublasLtMatmulAlgo_t> candidates;
  };
  size_t row_bytes() const { return static_cast<size_t>(shape_.k) * size_of(shape_.dtype); }
  void fill(void* memory, size_t bytes, size_t skip);
  void copy(void* to, const void* from, size_t bytes) {
    tools_.device->copy(to, from, bytes, *tools_.stream);
  }
  LtArrays arrays() {
    return {weight_.data(), x_.data(), out_.as<float>(), tools_.workspace,
            tools_.options->workspace_bytes};
  }
  std::optional<std::vector<float>> result_of(const Bucket& bucket,
                                              const cublasLtMatmulAlgo_t& algo);
  double time_us(const Bucket& bucket, const cublasLtMatmulAlgo_t& algo);

  DenseShape shape_;
  ProbeTools tools_;
  std::vector<std::byte> pattern_;
  Buffer weight_, x_, out_;
  std::vector<Bucket> buckets_;
  std::vector<BitClass> classes_;
};

constexpr size_t kPatternCount = 1000003;  // a prime: rows of a matrix start at different places

Probe::Probe(const DenseShape& shape, const ProbeTools& tools)
    : shape_(shape),
      tools_(tools),
      pattern_(random_pattern(
          std::min(kPatternCount, static_cast<size_t>(shape.n * shape.k + 4 * shape.k)),
          shape.dtype)) {
  const int64_t rows = buckets_of(shape, *tools.options).back();
  weight_ = Buffer(*tools.device, static_cast<size_t>(shape.n) * row_bytes());
  x_ = Buffer(*tools.device, static_cast<size_t>(rows) * row_bytes());
  out_ = Buffer(*tools.device, static_cast<size_t>(rows * shape.n) * sizeof(float));
  fill(weight_.data(), weight_.size_bytes(), 0);
  fill(x_.data(), x_.size_bytes(), std::min(row_bytes() / 2, pattern_.size() - 1) / 4 * 4);
  tools.stream->synchronize();
}

// The pattern over and over, from `skip` on.
void Probe::fill(void* memory, size_t bytes, size_t skip) {
  auto* at = static_cast<std::byte*>(memory);
  for (size_t done = 0; done < bytes; skip = 0) {
    const size_t count = std::min(bytes - done, pattern_.size() - skip);
    copy(at + done, pattern_.data() + skip, count);
    done += count;
  }
}

// The probe row's result, if it is the same at the first, middle and last position.
std::optional<std::vector<float>> Probe::result_of(const Bucket& bucket,
                                                   const cublasLtMatmulAlgo_t& algo) {
  const auto n = static_cast<size_t>(shape_.n);
  tools_.device->zero(out_.data(), static_cast<size_t>(bucket.rows) * n * sizeof(float),
                      *tools_.stream);
  if (bucket.product->enqueue(arrays(), algo, native(*tools_.stream)) != CUBLAS_STATUS_SUCCESS) {
    return std::nullopt;
  }
  std::vector<float> first(n), other(n);
  copy(first.data(), out_.data(), n * sizeof(float));
  for (const int64_t row : {bucket.rows / 2, bucket.rows - 1}) {
    copy(other.data(), out_.as<float>() + static_cast<size_t>(row) * n, n * sizeof(float));
    tools_.stream->synchronize();
    if (std::memcmp(first.data(), other.data(), n * sizeof(float)) != 0) return std::nullopt;
  }
  return first;
}

void Probe::try_bucket(int64_t rows) {
  Bucket bucket;
  bucket.rows = rows;
  bucket.product =
      std::make_unique<LtProduct>(tools_.handle, rows, shape_.n, shape_.k, shape_.dtype);
  bucket.candidates =
      bucket.product->candidates(tools_.options->workspace_bytes, tools_.options->max_candidates);
  for (const int64_t row : {rows / 2, rows - 1}) {
    if (row == 0) continue;
    copy(x_.as<std::byte>() + static_cast<size_t>(row) * row_bytes(), x_.data(), row_bytes());
  }
  const size_t bucket_idx = buckets_.size();
  for (size_t place = 0; place < bucket.candidates.size(); ++place) {
    auto result = result_of(bucket, bucket.candidates[place]);
    if (!result) continue;
    auto same = std::find_if(classes_.begin(), classes_.end(), [&](const BitClass& one) {
      return std::memcmp(one.result.data(), result->data(), result->size() * sizeof(float)) == 0;
    });
    if (same == classes_.end()) same = classes_.insert(same, {std::move(*result), {}});
    same->members.push_back({bucket_idx, place});
  }
  buckets_.push_back(std::move(bucket));
}

// Of the classes with a member in every bucket, the one of the lowest sum of best places; of equal
// ones the first found. Null where there is none.
const BitClass* Probe::choose() const {
  const BitClass* best = nullptr;
  size_t best_sum = 0;
  for (const BitClass& one : classes_) {
    size_t sum = 0, num_served = 0;
    for (size_t i = 0; i < one.members.size(); ++i) {
      if (i > 0 && one.members[i].bucket_idx == one.members[i - 1].bucket_idx) continue;
      sum += one.members[i].place;
      ++num_served;
    }
    if (num_served < buckets_.size()) continue;
    if (best == nullptr || sum < best_sum) {
      best = &one;
      best_sum = sum;
    }
  }
  return best;
}

std::string Probe::why_not() const {
  for (const Bucket& bucket : buckets_) {
    if (bucket.candidates.empty()) {
      return "cuBLASLt offers no algorithm for " + std::to_string(bucket.rows) + " rows";
    }
  }
  return "no algorithm gives a row the same bits at every position of every bucket";
}

double Probe::time_us(const Bucket& bucket, const cublasLtMatmulAlgo_t& algo) {
  const auto enqueue = [&] {
    lt_check(bucket.product->enqueue(arrays(), algo, native(*tools_.stream)), "a probed product");
  };
  return tools_.options->time_us(enqueue, *tools_.stream);
}

size_t Probe::pick(const BitClass& best, size_t bucket_idx, DenseChoice& choice) {
  const Bucket& bucket = buckets_[bucket_idx];
  std::vector<size_t> places;
  for (const Member& member : best.members) {
    if (member.bucket_idx == bucket_idx) places.push_back(member.place);
  }
  choice.bucket = bucket.rows;
  choice.num_candidates = static_cast<int>(bucket.candidates.size());
  choice.num_bit_equal = static_cast<int>(places.size());
  size_t chosen = places.front();
  if (tools_.options->measures) {
    for (size_t place = 0; place < bucket.candidates.size(); ++place) {
      const bool is_member = std::find(places.begin(), places.end(), place) != places.end();
      double us = 0;
      try {
        us = time_us(bucket, bucket.candidates[place]);
      } catch (const Error&) {
        if (is_member) throw;
        continue;  // one that the probe could not run either
      }
      if (choice.free_time_us == 0 || us < choice.free_time_us) choice.free_time_us = us;
      if (is_member && (choice.time_us == 0 || us < choice.time_us)) {
        choice.time_us = us;
        chosen = place;
      }
    }
  }
  choice.algorithm = describe(bucket.candidates[chosen]);
  return chosen;
}

std::vector<PinnedBucket> Probe::take_buckets(const BitClass& best, DenseReport& report) {
  std::vector<PinnedBucket> pinned;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    DenseChoice choice;
    const size_t place = pick(best, i, choice);
    report.choices.push_back(choice);
    pinned.push_back(
        {buckets_[i].rows, std::move(buckets_[i].product), buckets_[i].candidates[place]});
  }
  return pinned;
}

uint64_t hash_of(const std::vector<float>& values) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const float value : values) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    hash = (hash ^ bits) * 0x100000001B3u;
  }
  return hash;
}

}  // namespace

std::span<const int64_t> buckets_of(const DenseShape& shape, const DenseOptions& options) {
  size_t count = 1;
  while (count < options.buckets.size() && options.buckets[count - 1] < shape.max_tokens) ++count;
  return std::span(options.buckets).first(count);
}

PinnedShape pin_algorithms(const DenseShape& shape, const ProbeTools& tools, DenseReport& report) {
  PinnedShape pinned;
  pinned.shape = report.shape = shape;
  Probe probe(shape, tools);
  for (const int64_t rows : buckets_of(shape, *tools.options)) probe.try_bucket(rows);
  const BitClass* best = probe.choose();
  report.fits = best != nullptr;
  if (best == nullptr) {
    report.reason = probe.why_not();
    return pinned;
  }
  pinned.fingerprint = hash_of(best->result);
  pinned.buckets = probe.take_buckets(*best, report);
  return pinned;
}

}  // namespace colibri::cuda
