// Times single steps of known size, stage by stage: what a cost model is fitted to, or held
// against.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "coordinator/stage_times.h"
#include "launch/model_session.h"
#include "launch/op_profile.h"

namespace colibri {

// Steps of one kind: `num_tokens` sequences that each decode behind `context` tokens, or the one
// step that reads a prompt of num_tokens tokens (context 0).
struct StepCase {
  bool is_prefill = false;
  int64_t num_tokens = 1;
  int64_t context = 0;
};

// Medians over the steps of a case.
struct StepSample {
  StepCase what;
  double step_us = 0;
  std::array<double, kNumStages> stage_us = {};
  OpProfile ops{};      // of a step, of operations timed one by one in as many further steps
  double dense_us = 0;  // of them, products but the head's
  double touched = 0;   // experts with a token, mean over the layers with experts
  std::vector<double> compute_us = {}, wait_us = {};  // [R] of a step
  int num_steps = 0;
};

// Samples of one case as one: medians of all times.
StepSample median_sample(const std::vector<StepSample>& samples);

class StepProbe {
 public:
  // All outlive it. The session's chunk and batch hold the cases. `ops` are the session's.
  StepProbe(const ModelSession& session, Serving& serving, ProfiledOps& ops);
  ~StepProbe();

  // Runs `num_steps` steps of the case: decode in one batch, prefill in as many requests, one after
  // the other. The first two are not counted.
  StepSample run(const StepCase& what, int num_steps);

 private:
  struct Touched;
  struct Step;
  void add_requests(const StepCase& what, int num_steps);
  void read_prompts();
  Step time_step(bool profiles);
  std::vector<Step> time_steps(const StepCase& what, int num_steps, bool profiles);

  Serving& serving_;
  ProfiledOps& ops_;
  int64_t vocab_size_;
  int num_added_ = 0;
  std::unique_ptr<Touched> touched_;
};

}  // namespace colibri
