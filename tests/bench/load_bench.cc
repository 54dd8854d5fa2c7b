// How fast a rank's experts come from the page cache into memory, against what the machine copies.
//
//   load_bench [GB] [repetitions] [threads]     default 4, 5, all cores
//
// Writes a .colibri file of that many GB of q4 experts with random bytes into the directory for
// temporary files, and removes it. Every figure is GB/s of bytes brought to their place:
//   load    ExpertShard: takes fresh memory, reads all experts
//   pread   the same file by positional reads of 8 MB into memory that was touched before
//   memcpy  memory to memory, both touched before
//   fresh   filling fresh memory with zeros: what page faults alone cost

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "base/buffer.h"
#include "base/error.h"
#include "base/quantised.h"
#include "model/checksum.h"
#include "model/container_format.h"
#include "model/output_file.h"
#include "model/tensor_names.h"
#include "tests/support/temp_dir.h"
#include "worker/expert_shard.h"

namespace colibri {
namespace {

constexpr size_t kPieceBytes = 8 << 20;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string config_json(int num_layers) {
  return nlohmann::json{{"model_type", "qwen3_moe"},
                        {"hidden_size", 2048},
                        {"intermediate_size", 768},
                        {"num_hidden_layers", num_layers},
                        {"num_attention_heads", 4},
                        {"num_key_value_heads", 4},
                        {"head_dim", 32},
                        {"num_experts", 128},
                        {"num_experts_per_tok", 8},
                        {"moe_intermediate_size", 768},
                        {"vocab_size", 1024},
                        {"max_position_embeddings", 1024}}
      .dump();
}

// The index of such a model: experts q4, the rest as it is kept.
ContainerIndex index_of(const ModelConfig& config, const std::string& text) {
  ContainerIndex index;
  for (const TensorKey& key : tensor_keys(config)) {
    const WantedShape shape = wanted_shape(config, key.role);
    const DType kept = kept_dtype(key.role, DType::kBF16, {.experts = WeightFormat::kQ4});
    index.tensors.push_back({.key = key, .dtype = kept, .rows = shape.rows, .cols = shape.cols});
  }
  index.texts.push_back({.name = "config.json", .size_bytes = text.size()});
  index.texts[0].checksum = Checksum::of(text.data(), text.size());
  uint64_t at = align_up(index.front_bytes(), kContainerAlignment);
  index.texts[0].offset_bytes = at;
  at += text.size();
  for (ContainerTensor& tensor : index.tensors) {
    const bool begins = tensor.key.expert < 0 || tensor.key.role == TensorRole::kExpertGate;
    tensor.offset_bytes = align_up(at, begins ? kContainerAlignment : kContainerTensorAlignment);
    tensor.size_bytes = static_cast<uint64_t>(matrix_bytes(tensor.dtype, tensor.rows, tensor.cols));
    at = tensor.offset_bytes + tensor.size_bytes;
  }
  index.file_bytes = at;
  return index;
}

void write_model(const std::filesystem::path& path, double gigabytes) {
  const ModelConfig one = parse_model_config(config_json(1), "bench");
  const auto layer_bytes = static_cast<double>(
      one.num_experts * 3 * matrix_bytes(DType::kQ4, one.expert_width, one.hidden_size));
  const std::string text =
      config_json(std::max(1, static_cast<int>(gigabytes * 1e9 / layer_bytes)));
  const ContainerIndex index = index_of(parse_model_config(text, "bench"), text);
  OutputFile file(path);
  std::vector<uint64_t> noise((64 << 20) / sizeof(uint64_t));
  std::mt19937_64 random(1);
  for (uint64_t& word : noise) word = random();
  const size_t noise_bytes = noise.size() * sizeof(uint64_t);
  for (uint64_t at = 0; at < index.file_bytes; at += noise_bytes) {
    file.write(at, noise.data(), std::min<uint64_t>(noise_bytes, index.file_bytes - at));
  }
  file.write(index.texts[0].offset_bytes, text.data(), text.size());
  const std::string front = encode_container_front(index);
  file.write(0, front.data(), front.size());
}

// Seconds of piece(i) for all pieces of `bytes`.
double time_pieces(ThreadPool& pool, size_t bytes,
                   const std::function<void(size_t, size_t)>& piece) {
  const double start = now_s();
  pool.run(static_cast<int64_t>((bytes + kPieceBytes - 1) / kPieceBytes), [&](int64_t i) {
    const size_t at = static_cast<size_t>(i) * kPieceBytes;
    piece(at, std::min(kPieceBytes, bytes - at));
  });
  return now_s() - start;
}

double load_gbps(const Checkpoint& checkpoint, ThreadPool& pool) {
  const ModelShape shape = model_shape(checkpoint.config(), {}, DType::kF32);
  const Placement all = contiguous_placement(shape, {.num_ranks = 1});
  const auto ops = make_cpu_ops(best_isa());
  const double start = now_s();
  const auto device = make_cpu_device(pool);
  const auto stream = device->make_stream();
  const ExpertShard shard(checkpoint, all, {.max_pairs = 8},
                          {device.get(), stream.get(), ops.get(), &pool});
  return static_cast<double>(shard.resident_bytes()) / (now_s() - start) / 1e9;
}

void print_machine_rates(const std::filesystem::path& path, ThreadPool& pool, size_t bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY);
  const auto gbps = [bytes](double seconds) { return static_cast<double>(bytes) / seconds / 1e9; };
  Buffer to(bytes);
  auto* memory = to.as<char>();
  const double fresh =
      time_pieces(pool, bytes, [&](size_t at, size_t size) { std::memset(memory + at, 0, size); });
  const double pread_s = time_pieces(pool, bytes, [&](size_t at, size_t size) {
    check(::pread(fd, memory + at, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size),
          "short read");
  });
  const size_t half = bytes / 2;
  const double copy = 2 * time_pieces(pool, half, [&](size_t at, size_t size) {
                        std::memcpy(memory + at, memory + half + at, size);
                      });
  ::close(fd);
  std::printf("  pread %6.2f  memcpy %6.2f  fresh %6.2f\n", gbps(pread_s), gbps(copy), gbps(fresh));
}

int run(double gigabytes, int repetitions, int threads) {
  const TempDir dir;
  const std::filesystem::path path = dir / "load.colibri";
  write_model(path, gigabytes);
  ThreadPool pool({.num_threads = threads});
  const Checkpoint checkpoint = Checkpoint::open(path);
  const auto bytes = static_cast<size_t>(checkpoint.summary().expert_bytes);
  std::printf("%.2f GB of experts, %d threads; GB/s\n", static_cast<double>(bytes) / 1e9, threads);
  for (int i = 0; i < repetitions; ++i) {
    std::printf("load %6.2f", load_gbps(checkpoint, pool));
    print_machine_rates(path, pool, bytes);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace colibri

int main(int argc, char** argv) {
  try {
    return colibri::run(
        argc > 1 ? std::atof(argv[1]) : 4, argc > 2 ? std::atoi(argv[2]) : 5,
        argc > 3 ? std::atoi(argv[3]) : static_cast<int>(colibri::allowed_cpus().size()));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
