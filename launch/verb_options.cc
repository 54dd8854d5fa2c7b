#include "launch/verb_options.h"

#include <CLI/CLI.hpp>

#include "base/env.h"

namespace colibri {
namespace {

template <class T>
CLI::Option* add(CLI::App& app, const std::string& option, T& value, const std::string& help) {
  return app.add_option(option, value, help)
      ->envname(env_name_of_flag(option.substr(option.find("--"))))
      ->capture_default_str();
}

template <class T>
void add_optional(CLI::App& app, const std::string& option, std::optional<T>& value,
                  const std::string& help) {
  app.add_option(option, value, help)->envname(env_name_of_flag(option));
}

void add_model_options(CLI::App& app, CommonOptions& o) {
  add(app, "--model", o.model, "Directory of a Hugging Face checkpoint, or a .colibri file");
  add(app, "--shape", o.shape, "Random weights of a named shape instead: demo, qwen3-30b-a3b, ...");
  add(app, "--layers", o.layers, "Layers of the shape (0: all)");
  app.add_flag("--scale-vocab", o.scale_vocab, "The shape's vocabulary shrinks with its layers");
  add(app, "--weights", o.weights, "Experts in memory: auto (as stored), f32, bf16, q8 or q4");
  add(app, "--dense-weights", o.dense_weights,
      "Attention, dense MLPs and head: auto (wide), f32, bf16, q8 or q4");
  add(app, "--kv-dtype", o.kv_dtype, "KV cache: auto (f32 on the CPU, bf16 on a GPU), f32 or bf16");
  add(app, "--activations", o.activations,
      "what a GPU's products with bf16 weights read: auto (bf16), bf16 or f32");
  add(app, "--max-context", o.max_context, "Most tokens of one sequence (0: what is needed)");
  add(app, "--log-level", o.log_level, "trace, debug, info, warn, error or off");
}

void add_rank_options(CLI::App& app, CommonOptions& o) {
  add(app, "--ranks", o.ranks, "Start this many ranks on this machine");
  add(app, "--device", o.device, "cpu, cuda (a GPU for each rank) or cuda:N");
  app.add_flag("--allow-mixed-gpus", o.allow_mixed_gpus,
               "GPUs of unequal compute capability: tokens may then depend on the placement");
  add(app, "--transport", o.transport,
      "auto, local (ranks are threads), mpi, or nccl (between GPUs)");
  add(app, "--threads", o.threads, "Threads of each rank (0: all cores of its share)");
  add(app, "--bind", o.bind, "own: cores near the GPU, or of the local rank's share; inherit");
  add(app, "--isa", o.isa, "auto, portable, avx2 or avx512: same bits, other speed");
  add(app, "--placement", o.placement, "contiguous, round-robin, random:SEED, auto or a file");
  add(app, "--coordinator-experts", o.coordinator_experts, "Experts a layer that rank 0 holds");
  add(app, "--combine", o.combine, "exact (reduced comes with a later version)");
  add(app, "--chunk", o.chunk, "Most prompt tokens of one step");
  add(app, "--max-batch", o.max_batch, "Most sequences at once (0: all prompts, at most 16)");
  add(app, "--step-timeout", o.step_timeout_s, "Seconds to wait for a rank in a step");
  add(app, "--start-timeout", o.start_timeout_s, "Seconds to wait for ranks while starting");
  app.add_flag("--self-exchange", o.self_exchange, "Rank 0's own rows travel as messages (tests)");
  add(app, "--fixed-share", o.fixed_share,
      "Room for results at first in NCCL's messages of fixed size, in 32nds (tests)");
}

void add_run_options(CLI::App& app, CommonOptions& o) {
  add_model_options(app, o);
  add_rank_options(app, o);
  add(app, "--page-cache", o.page_cache, "keep or drop what was read of the weights' files");
  app.add_option("--record-routes", o.record_routes, "File for the experts chosen, see inspect");
  app.add_option("--record-loads", o.record_loads,
                 "File for how often experts were chosen, see plan");
  add(app, "--loads-decay", o.loads_decay, "Share at which what that file held already counts");
  app.add_option("--loads", o.loads, "File of --record-loads that --placement auto plans by");
  app.add_option("--machine", o.machine, "Machine that it plans for: a file or a name");
}

void add_sampling_options(CLI::App& app, GenerateOptions& o) {
  app.add_flag("--greedy", o.greedy, "Always the most likely token");
  add_optional(app, "--temperature", o.temperature, "0 is greedy. Default: generation_config.json");
  add_optional(app, "--top-p", o.top_p, "Default: generation_config.json");
  add_optional(app, "--top-k", o.top_k, "Default: generation_config.json; 0 is off");
  add_optional(app, "--min-p", o.min_p, "Default: generation_config.json");
  add(app, "--seed", o.seed, "Of the random draws");
  app.add_option("--stop", o.stop, "Text that ends the answer; may be given again")
      ->allow_extra_args(false);
}

void add_generate(CLI::App& app, RunConfig& config) {
  GenerateOptions& o = config.generate;
  add_run_options(app, config.common);
  app.add_option("--prompt", o.prompt, "Text to go on from");
  app.add_option("--prompt-file", o.prompt_file, "File with the text to go on from");
  app.add_option("--prompt-ids", o.prompt_ids, "Token ids, as 1,2,3");
  app.add_option("--prompts", o.prompts_file, "JSON lines, each a string or {\"prompt\": ...}");
  add(app, "--max-tokens", o.max_tokens, "Most new tokens");
  add_sampling_options(app, o);
  app.add_flag("--ignore-eos", o.ignore_eos, "Go on after the end-of-text token");
  app.add_flag("--ids", o.print_ids, "Print the new ids, one line a prompt, nothing else");
  app.add_flag("--json", o.print_json, "Print one JSON object a prompt");
  app.add_option("--logits-out", o.logits_out, "NumPy file for the first prompt's logits");
  app.add_flag("--score-prompt", o.score_prompt, "Logits of the prompt's positions too");
}

void add_chat(CLI::App& app, RunConfig& config) {
  GenerateOptions& o = config.generate;
  o.max_tokens = 0;
  add_run_options(app, config.common);
  app.add_option("--system", config.chat.system, "Message before the conversation");
  add(app, "--max-tokens", o.max_tokens, "Most new tokens of an answer (0: as the context holds)");
  add_sampling_options(app, o);
}

void add_serve(CLI::App& app, RunConfig& config) {
  ServeOptions& o = config.serve;
  add_run_options(app, config.common);
  add(app, "--host", o.host, "Address to listen on; 0.0.0.0 for all");
  add(app, "--port", o.port, "Port to listen on (0: one that is free)");
  add(app, "--api-key", o.api_key, "Key that clients must give; /health and the page need none");
  add(app, "--served-model-name", o.served_model_name, "Instead of the last part of --model");
  add(app, "--max-waiting", o.max_waiting, "Requests that wait; more are refused");
  add(app, "--survive", o.survive, "1: start only where the loss of any one rank can be made good");
  add(app, "--rebalance", o.rebalance, "every=N: each N steps, move experts where that pays; off");
  add(app, "--profile-dir", o.profile_dir, "Directory below which /start_profile may write");
  app.add_flag("--metrics-experts", o.metrics_experts, "/metrics counts each expert's tokens too");
}

void add_inspect(CLI::App& app, RunConfig& config) {
  add_model_options(app, config.common);
  add(app, "--placement", config.common.placement, "Placement to show with --for-ranks");
  add(app, "--coordinator-experts", config.common.coordinator_experts,
      "Experts a layer that rank 0 holds");
  app.add_option("--for-ranks", config.inspect.for_ranks, "Show who would hold what on N ranks");
  app.add_flag("--verify", config.inspect.verify, "Read every byte, check the checksums");
  app.add_option("--routes", config.inspect.routes, "Summarise a file of --record-routes");
  app.add_option("--tokens", config.inspect.tokens, "Print its first N tokens too");
  app.add_option("--loads", config.inspect.loads, "Summarise a file of --record-loads");
}

void add_doctor(CLI::App& app, RunConfig& config) {
  add(app, "--log-level", config.common.log_level, "trace, debug, info, warn, error or off");
  add(app, "--transport", config.common.transport, "auto, local, mpi or nccl");
  add(app, "--device", config.common.device, "cpu, or cuda: rows between the ranks' GPUs too");
  add(app, "--ranks", config.common.ranks, "Ranks that ping each other (2)");
  add(app, "--start-timeout", config.common.start_timeout_s, "Seconds to wait for them");
  app.add_flag("--ping-only", config.doctor.ping_only, "Only the ping between ranks");
}

void add_score(CLI::App& app, RunConfig& config) {
  ScoreOptions& o = config.score;
  add_run_options(app, config.common);
  app.add_option("--document", o.document,
                 "Text that the continuations follow; special tokens are added");
  app.add_option("--document-file", o.document_file, "File with that text");
  app.add_option("--continuation", o.continuations,
                 "A text to score, encoded alone, no special tokens; may be given again")
      ->allow_extra_args(false);
  app.add_option("--requests", o.requests_file,
                 "JSON lines, each {\"document\": ..., \"continuations\": [...]}");
}

void add_serving_bench(CLI::App& app, RunConfig& config) {
  ServingBenchOptions& o = config.serving_bench;
  CLI::Option* const serve = app.add_option(
      "--serve", o.url, "Load on a server of OpenAI's API instead; --model is its name there");
  for (const char* own :
       {"--prompt-tokens", "--new-tokens", "--batch", "--perplexity", "--shape"}) {
    serve->excludes(app.get_option(own));
  }
  const auto option = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->needs(serve)->capture_default_str();
  };
  add(app, "--api-key", o.api_key, "Key that the server wants");
  option("--endpoint", o.endpoint, "completions or chat");
  option("--num-prompts", o.num_prompts, "Requests of each run");
  option("--request-rate", o.request_rate, "Requests sent a second, inf: at once; a sweep as 1,2,4")
      ->delimiter(',');
  option("--max-concurrency", o.max_concurrency, "Most requests at once (0: no bound); or a sweep")
      ->delimiter(',');
  option("--dataset", o.dataset, "JSON lines {\"prompt\", \"max_tokens\"}, or ShareGPT's JSON");
  option("--output-len", o.output_len, "max_tokens for the dataset's prompts (0: its own, or 128)");
  option("--random-input-len", o.random_input_len, "Tokens of a random prompt");
  option("--random-output-len", o.random_output_len, "max_tokens of a random prompt");
  option("--random-range-ratio", o.random_range_ratio, "Lengths differ by up to this share");
  option("--seed", o.seed, "Of random prompts and times");
  option("--request-timeout", o.request_timeout_s, "Seconds until a request counts as failed");
  option("--out", o.out, "File for the figures as JSON");
  option("--svg", o.svg, "File for a picture of latency over load");
  app.add_flag("--ignore-eos", o.ignore_eos, "Ask for all tokens, past the end of text")
      ->needs(serve);
}

void add_bench(CLI::App& app, RunConfig& config) {
  BenchOptions& o = config.bench;
  add_run_options(app, config.common);
  app.add_option("-p,--prompt-tokens", o.prompt_tokens, "Prompt tokens of the prefill runs")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("-n,--new-tokens", o.new_tokens, "New tokens of the decode runs")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("-b,--batch", o.batches, "Sequences at once; several as 1,4,16")
      ->delimiter(',')
      ->capture_default_str();
  add(app, "-r,--repetitions", o.repetitions, "Times that each run is repeated");
  add(app, "--routing", o.routing, "model, uniform, zipf:S or a file of --record-routes");
  app.add_option("--perplexity", o.perplexity, "Measure the perplexity of a text file instead");
  add(app, "--format", o.format, "md, json (with raw samples) or csv");
  app.add_option("--trace", o.trace, "Directory for a trace of each rank, of one more run");
  app.add_option("--predict", o.predict, "Machine file: print the predicted time of a step too");
  app.add_option("--calibrate", o.calibrate,
                 "Write a machine file for this machine instead; takes some minutes");
  app.add_flag("!--no-probes", o.probes, "Do not measure the machine's limits");
  add_serving_bench(app, config);
}

void add_convert(CLI::App& app, RunConfig& config) {
  ConvertOptions& o = config.convert;
  app.add_option("source", o.source, "Directory of a Hugging Face checkpoint");
  app.add_option("--out", o.out, "The .colibri file to write");
  app.add_option("--weights", o.weights, "Experts: q4, q8 or bf16");
  add(app, "--dense-weights", o.dense_weights, "Attention, dense MLPs and head: as generate's");
  app.add_flag("--consume", o.consume, "Delete each source file once all of it is written");
  add(app, "--min-free-gb", o.min_free_gb, "Disk to leave free: refuse, or wait for it");
  add(app, "--threads", o.threads, "Threads (0: all cores)");
  add(app, "--log-level", o.log_level, "trace, debug, info, warn, error or off");
}

void add_plan(CLI::App& app, RunConfig& config) {
  PlanOptions& o = config.plan;
  add_model_options(app, config.common);
  add(app, "--ranks", config.common.ranks, "Ranks to place for (0: one for each GPU)");
  config.common.device = "auto";
  add(app, "--device", config.common.device, "auto (its GPUs, if it has any), cpu or cuda");
  add(app, "--machine", o.machine, "auto (this one), a machine file, or a name such as 8xh200");
  app.add_flag("--show", o.show, "Print the machine instead of planning");
  app.add_option("--loads", o.loads, "File of --record-loads to place by");
  app.add_option("--batch", o.batch, "Tokens of a decode step")
      ->delimiter(',')
      ->capture_default_str();
  add(app, "--context", o.context, "Positions of each sequence (0: 2048)");
  app.add_option("--previous", o.previous, "Placement file to stay near");
  add(app, "--max-moves", o.max_moves, "Most experts that ranks may have to read (-1: any)");
  add(app, "--survive", o.survive, "1: keep room for the experts of any one rank");
  add(app, "--replicas", o.replicas, "Slots a layer beyond one an expert (-1: as advised)");
  app.add_option("--out", o.out, "The placement file to write");
  app.add_option("--svg", o.svg, "File for a picture of the machine");
  app.add_option("--loads-svg", o.loads_svg, "File for a picture of the load of each expert");
  app.add_option("--map-svg", o.map_svg, "File for a picture of the experts on the ranks");
  app.add_option("--balance-svg", o.balance_svg,
                 "File for a chart of how even the ranks are, before and after");
}

void add_simulate(CLI::App& app, RunConfig& config) {
  SimulateOptions& o = config.simulate;
  add_model_options(app, config.common);
  config.common.device = "auto";
  add(app, "--device", config.common.device, "auto (its GPUs, if it has any), cpu or cuda");
  add(app, "--placement", config.common.placement, "contiguous, round-robin, auto or a file");
  const auto list = [&app](const char* name, auto& values, const char* help) {
    app.add_option(name, values, help)->delimiter(',')->capture_default_str();
  };
  list("--machine", o.machines, "auto, a machine file, or a name such as 8xh200; or several");
  list("--ranks", o.ranks, "Ranks (0: one for each GPU); or several");
  list("--batch", o.batches, "Sequences that decode at once; or several");
  add(app, "--context", o.context, "Positions of each sequence");
  app.add_flag("--batch-per-rank", o.is_batch_a_rank, "--batch is for each rank");
  list("--coordinators", o.coordinators,
       "A number, or all: each rank runs its own attention; or several");
  add(app, "--routing", o.routing, "uniform, zipf:S or a file of --record-loads");
  add(app, "--format", o.format, "md, json or csv");
  app.add_option("--svg", o.svg, "File for a chart of throughput over ranks or batch");
  app.add_option("--points", o.points,
                 "Directory of bench's JSON reports: measured beside predicted (launch/scale.sh)");
}

}  // namespace

void add_verbs(CLI::App& app, VerbConfigs& configs) {
  const auto verb = [&](const char* name, const char* help, const auto& add_options) {
    CLI::App& verb_app = *app.add_subcommand(name, help);
    RunConfig& config = configs[name];
    add_options(verb_app, config);
    add(verb_app, "--config", config.config_file, "TOML file; keys are option names, see configs/");
    verb_app.add_flag("--print-config", config.print_config,
                      "Print the configuration as TOML instead of running it");
  };
  verb("generate", "Write text that goes on from a prompt", add_generate);
  verb("chat", "Talk with a model, a line a turn", add_chat);
  verb("serve", "Answer OpenAI's API over HTTP", add_serve);
  verb("score", "Probabilities of given continuations of a document", add_score);
  verb("bench", "Measure tokens/s and where the time goes", add_bench);
  verb("convert", "Write a checkpoint as one .colibri file", add_convert);
  verb("inspect", "Show a checkpoint's shapes, experts, bytes; check its checksums", add_inspect);
  verb("plan", "Place the experts on a machine, or show the machine", add_plan);
  verb("simulate", "Predict a step's time on a machine", add_simulate);
  verb("doctor", "Check this machine; each line ok or the fix", add_doctor);
}

}  // namespace colibri
