// What the command line asks for. Precedence: flag, COLIBRI_* variable, --config file, default.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace colibri {

inline constexpr const char* kVersion = "0.1.0";

// Options that every verb with a model shares.
struct CommonOptions {
  std::string model;
  std::string shape;                // instead of a model: random weights of a named shape
  int layers = 0;                   // of the shape; 0: all
  bool scale_vocab = false;         // the shape's vocabulary shrinks with its layers
  std::string page_cache = "keep";  // keep or drop what was read of the weights' files
  std::string record_routes;        // file for what the routers chose; empty: none
  std::string record_loads;         // file for how often experts were chosen; empty: none
  double loads_decay = 0;           // what that file held before counts this much less; 0: nothing
  std::string loads;                // such a file, uniform or zipf:S, for --placement auto
  std::string machine;              // a machine file or name, likewise; empty: ranks that are alike
  std::string weights = "auto";
  std::string dense_weights = "auto";
  std::string device = "cpu";     // cpu, cuda or cuda:N
  bool allow_mixed_gpus = false;  // unequal compute capabilities: promise 1 does not hold then
  std::string transport = "auto";
  int ranks = 0;    // 0: not given
  int threads = 0;  // 0: all cores of this rank's share
  std::string placement = "contiguous";
  int coordinator_experts = 0;
  std::string combine = "exact";
  int64_t chunk = 512;
  std::string kv_dtype = "auto";
  std::string activations = "auto";  // of a GPU's products with bf16 weights: f32 or bf16
  int64_t max_context = 0;           // 0: what the requests need
  int max_batch = 0;                 // 0: as many as there are prompts, at most 16
  std::string log_level = "warn";
  int step_timeout_s = 30;
  int start_timeout_s = 120;
  std::string bind =
      "own";  // own: cores from the cgroup and the local rank; inherit: the mask as it came
  std::string isa = "auto";
  bool self_exchange = false;
  int fixed_share = 32;  // FixedCapacity::first_share over NCCL
};

struct GenerateOptions {
  std::string prompt, prompt_file, prompt_ids, prompts_file;
  bool has_prompt = false;
  int64_t max_tokens = 128;
  bool greedy = false;
  // Not given: generation_config.json's. Temperature 0 is greedy.
  std::optional<double> temperature, top_p, min_p;
  std::optional<int> top_k;
  uint64_t seed = 0;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  bool print_ids = false, print_json = false;
  std::string logits_out;
  bool score_prompt = false;
};

struct InspectOptions {
  int for_ranks = 0;    // 0: no placement shown
  bool verify = false;  // read every byte and hold it against the checksums
  std::string routes;   // a file of --record-routes to summarise
  int64_t tokens = 0;   // lines of it to print
  std::string loads;    // a file of --record-loads to summarise
};

struct ConvertOptions {
  std::string source;  // a Hugging Face directory
  std::string out;     // the .colibri file
  std::string weights, dense_weights = "auto";
  bool consume = false;    // delete each source file once all of it is written
  double min_free_gb = 1;  // of disk, left for others
  int threads = 0;
  std::string log_level = "warn";
};

struct BenchOptions {
  std::vector<int64_t> prompt_tokens{512};
  std::vector<int64_t> new_tokens{128};
  std::vector<int> batches{1};
  int repetitions = 5;
  std::string routing = "model";  // or uniform, zipf:S, a file of --record-routes
  std::string perplexity;         // a text file: measure that instead
  std::string format = "md";      // md, json or csv
  bool probes = true;
  std::string trace;      // a directory for traces of one more run; empty: none
  std::string calibrate;  // a machine file to write instead
  std::string predict;    // a machine to predict each test on
};

// bench --serve: load on a server instead of a model of its own.
struct ServingBenchOptions {
  std::string url;  // empty: no such run
  std::string endpoint = "completions";
  std::string api_key;
  int num_prompts = 100;
  std::string dataset;  // a file; empty: random prompts
  int64_t output_len = 0;
  int64_t random_input_len = 1024, random_output_len = 128;
  double random_range_ratio = 0;
  std::vector<std::string> request_rate{"inf"};  // a second
  std::vector<int> max_concurrency{0};           // 0: no bound
  uint64_t seed = 0;
  bool ignore_eos = false;
  int request_timeout_s = 600;
  std::string out, svg;  // files
};

// Of --request-rate, "inf" being infinite. Fails with kInput naming the one that is no number
// above 0.
std::vector<double> request_rates(const ServingBenchOptions& options);

struct ScoreOptions {
  std::string document, document_file;
  std::vector<std::string> continuations;
  std::string requests_file;  // JSON lines {"document": ..., "continuations": [...]}
};

// Its sampling, stop strings and max_tokens are those of GenerateOptions.
struct ChatOptions {
  std::string system;
};

struct ServeOptions {
  std::string host = "127.0.0.1";
  int port = 8000;  // 0: one that is free
  std::string api_key;
  std::string served_model_name;  // empty: the last part of the model's path
  int max_waiting = 256;          // requests that wait; more are refused
  int survive = 0;                // lost ranks that memory is kept for: 0 or 1
  std::string rebalance = "off";  // or every=N: plan by recent loads each N steps
  bool metrics_experts = false;   // /metrics counts each expert's tokens
  std::string profile_dir;        // below which /start_profile writes; empty: it is refused
};

struct DoctorOptions {
  bool ping_only = false;  // what the two ranks that doctor starts run
};

// Machine, loads and sizes that `plan` places by.
struct PlanOptions {
  std::string machine = "auto";    // a machine file, the name of one inside, or auto: this machine
  bool show = false;               // print and draw the machine instead of planning
  std::string loads;               // a file of --record-loads; empty: uniform
  std::vector<int64_t> batch{64};  // one: tokens of a decode step
  int64_t context = 0;             // positions of each sequence; 0: 2048
  std::string previous;            // a placement file to stay near
  int64_t max_moves = -1;          // slots that ranks may have to read; -1: any number
  int survive = 0;                 // lost ranks that memory is kept for: 0 or 1
  int replicas = -1;               // slots a layer beyond one an expert; -1: as advised
  std::string out;                 // the placement file to write
  // Pictures: of the machine, of loads, of experts on ranks, of how even the ranks are.
  std::string svg, loads_svg, map_svg, balance_svg;
};

// What `simulate` sweeps over: every machine with every number of ranks, batch and coordinators.
struct SimulateOptions {
  std::vector<std::string> machines{"auto"};
  std::vector<int> ranks{0};  // 0: as many as the machine has GPUs, or one on a CPU
  std::vector<int64_t> batches{256};
  bool is_batch_a_rank = false;  // batches are for each rank
  int64_t context = 2048;
  std::vector<std::string> coordinators{"1"};  // numbers, or all: every rank runs its own attention
  std::string routing = "uniform";             // or zipf:S, or a file of --record-loads
  std::string format = "md";                   // md, json or csv
  std::string svg;                             // file for the scaling chart
  std::string points;                          // a directory of measured points to print instead
};

enum class Verb {
  kGenerate,
  kChat,
  kServe,
  kScore,
  kBench,
  kConvert,
  kInspect,
  kPlan,
  kSimulate,
  kDoctor
};

struct RunConfig {
  Verb verb = Verb::kGenerate;
  std::string config_file;    // --config: read before this is complete
  bool print_config = false;  // print the configuration instead of running it
  std::string command;        // as it was given, for records
  CommonOptions common;
  GenerateOptions generate;
  ChatOptions chat;
  ServeOptions serve;
  ScoreOptions score;
  BenchOptions bench;
  ServingBenchOptions serving_bench;
  ConvertOptions convert;
  InspectOptions inspect;
  PlanOptions plan;
  SimulateOptions simulate;
  DoctorOptions doctor;
};

// Result of reading the command line: a configuration, or text to print and leave with (help,
// version, --print-config).
struct ParsedCommandLine {
  RunConfig config;
  bool wants_text = false;
  std::string text;
  std::vector<std::string>
      unknown_variables;  // COLIBRI_* names in the environment that mean nothing
};

// Underscores in option names are read as hyphens. Reads the file of --config. Errors: kInput with
// what came and what was wanted; kUnsupported for valid values this version lacks (--combine
// reduced, verbs to come).
ParsedCommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace colibri
