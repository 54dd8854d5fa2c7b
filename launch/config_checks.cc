#include "launch/config_checks.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/error.h"
#include "coordinator/return_capacity.h"
#include "launch/device_choice.h"
#include "launch/rebalance_option.h"

namespace colibri {
namespace {

// CLI11 reads "-1" for an unsigned as a huge number; every count is signed here and bounded by
// name.
template <class T>
void check_range(const std::string& option, T value, T low, T high) {
  if (value >= low && value <= high) return;
  fail(ErrorKind::kInput, option, " is ", value, ", want ", low, " to ", high);
}

void check_word(const std::string& option, const std::string& value,
                const std::vector<std::string>& words) {
  if (std::find(words.begin(), words.end(), value) != words.end()) return;
  std::string wanted;
  for (const std::string& word : words) wanted += (wanted.empty() ? "" : ", ") + word;
  fail(ErrorKind::kInput, option, " is '", value, "', want one of ", wanted);
}

void check_common(const CommonOptions& o) {
  check_word("--weights", o.weights, {"auto", "f32", "bf16", "q8", "q4"});
  check_word("--dense-weights", o.dense_weights, {"auto", "f32", "bf16", "q8", "q4"});
  check_word("--page-cache", o.page_cache, {"keep", "drop"});
  check_word("--kv-dtype", o.kv_dtype, {"auto", "f32", "bf16"});
  check_word("--activations", o.activations, {"auto", "f32", "bf16"});
  check_word("--transport", o.transport, {"auto", "local", "mpi", "nccl"});
  check_word("--combine", o.combine, {"exact", "reduced"});
  check_word("--bind", o.bind, {"own", "inherit"});
  check_word("--isa", o.isa, {"auto", "portable", "avx2", "avx512"});
  check_range("--loads-decay", o.loads_decay, 0.0, 1.0);
  check_range("--ranks", o.ranks, 0, 4096);
  check_range("--threads", o.threads, 0, 4096);
  check_range("--coordinator-experts", o.coordinator_experts, 0, 1 << 20);
  check_range<int64_t>("--chunk", o.chunk, 1, 1 << 20);
  check_range<int64_t>("--max-context", o.max_context, 0, int64_t{1} << 30);
  check_range("--max-batch", o.max_batch, 0, 1 << 16);
  check_range("--fixed-share", o.fixed_share, 1, ReturnCapacity::kShares);
  check_range("--step-timeout", o.step_timeout_s, 1, 86400);
  check_range("--start-timeout", o.start_timeout_s, 1, 86400);
  if (o.device != "auto" && parse_device(o.device).ordinal >= 0 && o.ranks > 1) {
    fail(ErrorKind::kInput, "--device ", o.device, " is one GPU and --ranks ", o.ranks,
         " wants one for each rank; want --device cuda");
  }
  if (o.combine == "reduced") {
    fail(ErrorKind::kUnsupported, "--combine reduced is not part of this version; want exact");
  }
}

void check_generate(const GenerateOptions& o) {
  const int given = (o.has_prompt ? 1 : 0) + (o.prompt_file.empty() ? 0 : 1) +
                    (o.prompt_ids.empty() ? 0 : 1) + (o.prompts_file.empty() ? 0 : 1);
  if (given != 1) {
    fail(ErrorKind::kInput, given, " prompts given, want exactly one of --prompt, --prompt-file, ",
         "--prompt-ids and --prompts");
  }
  check_range<int64_t>("--max-tokens", o.max_tokens, o.score_prompt ? 0 : 1, int64_t{1} << 30);
  if (o.print_ids && o.print_json) fail(ErrorKind::kInput, "want --ids or --json, not both");
  if (o.score_prompt && o.logits_out.empty()) {
    fail(ErrorKind::kInput, "--score-prompt wants --logits-out FILE");
  }
}

void check_serve(const ServeOptions& o) {
  check_range("--port", o.port, 0, 65535);
  check_range("--max-waiting", o.max_waiting, 0, 1 << 20);
  check_range("--survive", o.survive, 0, 1);
  rebalance_steps(o.rebalance);
}

void check_model(const CommonOptions& o) {
  if (!o.model.empty() && !o.shape.empty()) {
    fail(ErrorKind::kInput, "--model and --shape are given, want one of them");
  }
  if (o.model.empty() && o.shape.empty()) {
    fail(ErrorKind::kInput,
         "--model is missing, want the directory of a checkpoint or a .colibri file");
  }
  check_range("--layers", o.layers, 0, 1 << 20);
  if (o.shape.empty() && (o.layers != 0 || o.scale_vocab)) {
    fail(ErrorKind::kInput, "--layers and --scale-vocab go with --shape");
  }
}

// A shape has no tokenizer.
void check_chat_model(const CommonOptions& o) {
  check_model(o);
  if (o.shape.empty()) return;
  fail(ErrorKind::kInput, "chat wants --model, because --shape has no tokenizer");
}

void check_score(const ScoreOptions& o) {
  const int given = (o.document.empty() ? 0 : 1) + (o.document_file.empty() ? 0 : 1) +
                    (o.requests_file.empty() ? 0 : 1);
  if (given != 1) {
    fail(ErrorKind::kInput, given, " documents given, want exactly one of --document, ",
         "--document-file and --requests");
  }
  if (o.requests_file.empty() == o.continuations.empty()) {
    fail(ErrorKind::kInput, o.requests_file.empty()
                                ? "--continuation is missing, want at least one text to score"
                                : "--continuation goes with --document, not with --requests");
  }
}

void check_bench(const BenchOptions& o) {
  for (const int64_t tokens : o.prompt_tokens) {
    check_range<int64_t>("--prompt-tokens", tokens, 0, 1 << 20);
  }
  for (const int64_t tokens : o.new_tokens) {
    check_range<int64_t>("--new-tokens", tokens, 0, 1 << 20);
  }
  for (const int batch : o.batches) check_range("--batch", batch, 1, 1 << 12);
  check_range("--repetitions", o.repetitions, 1, 1000);
  check_word("--format", o.format, {"md", "json", "csv"});
}

void check_serving_bench(const ServingBenchOptions& o) {
  check_word("--endpoint", o.endpoint, {"completions", "chat"});
  check_range("--num-prompts", o.num_prompts, 1, 10'000'000);
  check_range<int64_t>("--output-len", o.output_len, 0, 1 << 30);
  check_range<int64_t>("--random-input-len", o.random_input_len, 1, 1 << 24);
  check_range<int64_t>("--random-output-len", o.random_output_len, 1, 1 << 24);
  check_range("--random-range-ratio", o.random_range_ratio, 0.0, 1.0);
  check_range("--request-timeout", o.request_timeout_s, 1, 86400);
  for (const int bound : o.max_concurrency) check_range("--max-concurrency", bound, 0, 1 << 20);
  if (request_rates(o).size() > 1 && o.max_concurrency.size() > 1) {
    fail(ErrorKind::kInput,
         "--request-rate and --max-concurrency are lists, want one of them as one");
  }
}

void check_convert(const ConvertOptions& o) {
  if (o.source.empty()) fail(ErrorKind::kInput, "convert wants the directory of a checkpoint");
  if (o.out.empty()) fail(ErrorKind::kInput, "--out is missing, want the .colibri file to write");
  check_word("--weights", o.weights, {"q4", "q8", "bf16"});
  check_word("--dense-weights", o.dense_weights, {"auto", "f32", "bf16", "q8", "q4"});
  check_range("--min-free-gb", o.min_free_gb, 0.0, 1e9);
  check_range("--threads", o.threads, 0, 4096);
}

void check_inspect(const RunConfig& config) {
  check_range<int64_t>("--tokens", config.inspect.tokens, 0, int64_t{1} << 40);
  if (config.inspect.tokens > 0 && config.inspect.routes.empty()) {
    fail(ErrorKind::kInput, "--tokens goes with --routes");
  }
  const std::pair<const char*, bool> subjects[] = {{"--model", !config.common.model.empty()},
                                                   {"--routes", !config.inspect.routes.empty()},
                                                   {"--loads", !config.inspect.loads.empty()}};
  const char* given = nullptr;
  for (const auto& [name, is_given] : subjects) {
    if (!is_given) continue;
    if (given != nullptr) {
      fail(ErrorKind::kInput, given, " and ", name, " are given, want one of them");
    }
    given = name;
  }
  if (given == nullptr || !config.common.model.empty()) check_model(config.common);
}

void check_plan(const RunConfig& config) {
  check_word("--device", config.common.device, {"auto", "cpu", "cuda"});
  const PlanOptions& o = config.plan;
  if (o.batch.size() != 1) {
    fail(ErrorKind::kInput, "--batch has ", o.batch.size(), " numbers, plan wants one");
  }
  check_range<int64_t>("--batch", o.batch[0], 1, 1 << 20);
  check_range<int64_t>("--context", o.context, 0, int64_t{1} << 30);
  check_range<int64_t>("--max-moves", o.max_moves, -1, int64_t{1} << 40);
  check_range("--survive", o.survive, 0, 1);
  check_range("--replicas", o.replicas, -1, 1 << 20);
  if (!o.show) check_model(config.common);
}

void check_simulate(const RunConfig& config) {
  check_word("--device", config.common.device, {"auto", "cpu", "cuda"});
  const SimulateOptions& o = config.simulate;
  for (const int ranks : o.ranks) check_range("--ranks", ranks, 0, 4096);
  for (const int64_t batch : o.batches) check_range<int64_t>("--batch", batch, 1, 1 << 20);
  check_range<int64_t>("--context", o.context, 1, int64_t{1} << 30);
  check_word("--format", o.format, {"md", "json", "csv"});
  if (o.points.empty()) check_model(config.common);
}

}  // namespace

std::vector<double> request_rates(const ServingBenchOptions& options) {
  std::vector<double> rates;
  for (const std::string& word : options.request_rate) {
    double rate = std::numeric_limits<double>::infinity();
    const char* const end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, rate);
    if (error != std::errc() || stop != end || !(rate > 0) || (rate < 1e-6)) {
      fail(ErrorKind::kInput, "--request-rate is '", word, "', want a number above 0, or inf");
    }
    rates.push_back(rate);
  }
  return rates;
}

// The stages of a step on a GPU are the host's: nothing of them tells what an operation takes.
void check_calibrate(const RunConfig& config) {
  const std::string& device = config.common.device;
  if (device == "cpu" || device == "auto" || device.empty()) return;
  fail(ErrorKind::kUnsupported, "--calibrate times a CPU's operations, and --device is '", device,
       "'; for GPUs take a machine of configs/machines, or write its numbers into a file");
}

void check_config(const RunConfig& config) {
  check_common(config.common);
  switch (config.verb) {
    case Verb::kGenerate:
      check_generate(config.generate);
      return check_model(config.common);
    case Verb::kChat:
      check_range<int64_t>("--max-tokens", config.generate.max_tokens, 0, int64_t{1} << 30);
      return check_chat_model(config.common);
    case Verb::kServe:
      check_serve(config.serve);
      return check_model(config.common);
    case Verb::kScore:
      check_score(config.score);
      return check_model(config.common);
    case Verb::kBench:
      check_bench(config.bench);
      if (!config.serving_bench.url.empty()) return check_serving_bench(config.serving_bench);
      if (!config.bench.calibrate.empty()) return check_calibrate(config);
      return check_model(config.common);
    case Verb::kConvert:
      return check_convert(config.convert);
    case Verb::kInspect:
      return check_inspect(config);
    case Verb::kPlan:
      return check_plan(config);
    case Verb::kSimulate:
      return check_simulate(config);
    case Verb::kDoctor:
      return;
  }
}

}  // namespace colibri
