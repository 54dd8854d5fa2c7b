// What `colibri bench` prints: tables for people, JSON with every sample, CSV with a line a test.
#pragma once

#include <string>
#include <vector>

#include "launch/bench_run.h"
#include "launch/perplexity.h"

namespace colibri {

// The machine's limits, measured in the same process between the repetitions. Empty: not measured.
struct BenchLimits {
  std::vector<double> read_gbps;   // by all threads of rank 0
  std::vector<double> f32_gflops;  // fused multiply-adds, two operations each
  std::vector<double> int8_gops;   // dot products of bytes, two operations a multiply-add
  GpuLimits gpu = {};              // instead of the others, on a GPU
};

struct BenchFacts {
  std::string model;  // path, or shape with its layers
  std::string family;
  std::string weights;  // "q4 experts, bf16 dense"
  bool has_quantised_experts = false;
  bool is_on_gpu = false;  // adds tables, keys and columns to all three forms
  std::string routing, placement, backend, transport;
  int num_layers = 0, num_ranks = 1, threads_per_rank = 1;
  std::string version, date, command;
  std::string cpu, machine;  // model name; a line a fact
};

struct BenchReport {
  BenchFacts facts;
  BenchLimits limits;
  std::vector<BenchResult> results;
};

double median(std::vector<double> values);  // 0 for none
double standard_deviation(const std::vector<double>& values);

// In any of the three forms.
std::string perplexity_text(const std::string& format, const Perplexity& measured,
                            const BenchFacts& facts);

std::string report_markdown(const BenchReport& report);
std::string report_json(const BenchReport& report);
std::string report_csv(const BenchReport& report);

}  // namespace colibri
