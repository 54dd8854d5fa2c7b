#include "launch/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "topology/layer_figures.h"

namespace colibri {
namespace {

std::string bytes_text(double bytes) { return format_bytes(static_cast<int64_t>(bytes)); }

// Sums over the layers, each link by itself.
struct StepSums {
  LayerTime time;
  std::vector<double> out_us, back_us;
  double balance = 0, worst_balance = 1, time_balance = 0;
};

int num_holders(const PlanProblem& problem, const Placement& placement) {
  int count = 0;
  for (int rank = 0; rank < problem.ranks.num_ranks(); ++rank) {
    count += placement.num_slots(rank) > 0 ? 1 : 0;
  }
  return count;
}

StepSums sums_of(const PlanProblem& problem, const LayerTerms& terms, const Placement& placement) {
  StepSums sums;
  sums.out_us.resize(terms.dispatch_links.size());
  sums.back_us.resize(terms.combine_links.size());
  const std::vector<LayerFigures> all = plan_figures(problem, placement);
  for (const LayerFigures& figures : all) {
    const LayerTime time = layer_time(terms, figures);
    sums.time.dispatch_us += time.dispatch_us;
    sums.time.expert_us += time.expert_us;
    sums.time.combine_us += time.combine_us;
    sums.time.exchange_us += time.exchange_us;
    const double balance = balancedness(figures, num_holders(problem, placement));
    sums.balance += balance / static_cast<double>(all.size());
    sums.worst_balance = std::min(sums.worst_balance, balance);
    double us = 0;
    for (size_t rank = 0; rank < figures.pairs.size(); ++rank) {
      if (figures.touched[rank] == 0) continue;
      us += terms.expert_fixed_us[rank] + terms.touched_us[rank] * figures.touched[rank] +
            terms.row_us[rank] * figures.pairs[rank];
    }
    sums.time_balance += us / num_holders(problem, placement) / std::max(1e-12, time.expert_us) /
                         static_cast<double>(all.size());
    const auto& results = terms.adds_results ? figures.rows : figures.pairs;
    for (size_t rank = 0; rank < figures.rows.size(); ++rank) {
      for (size_t l = 0; l < sums.out_us.size(); ++l) {
        sums.out_us[l] += terms.dispatch_links[l].row_us[rank] * figures.rows[rank];
      }
      for (size_t l = 0; l < sums.back_us.size(); ++l) {
        sums.back_us[l] += terms.combine_links[l].result_us[rank] * results[rank];
      }
    }
  }
  return sums;
}

// The busiest three of one direction, and all between sockets or nodes that carry anything.
std::string links_text(const char* what, const std::vector<LinkTerm>& links,
                       const std::vector<double>& us) {
  std::vector<size_t> order;
  for (size_t l = 0; l < links.size(); ++l) {
    if (us[l] > 0) order.push_back(l);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return us[a] > us[b]; });
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(3, order.size()); ++i) {
    text += fmt::format("  {:<8} {:8.3f} ms  {}\n", what, us[order[i]] / 1e3, links[order[i]].name);
  }
  return text;
}

std::string memory_text(const PlanProblem& problem, const std::vector<RankRoom>& rooms,
                        const Placement& placement) {
  std::string text = "memory of each rank\n";
  std::string before;
  int first = 0;
  const auto flush = [&](int end) {
    if (before.empty()) return;
    const std::string ranks = end - first > 1 ? fmt::format("ranks {}-{}", first, end - 1)
                                              : fmt::format("rank {}", first);
    text += fmt::format("  {:<12} {}\n", ranks, before);
  };
  for (int rank = 0; rank < problem.ranks.num_ranks(); ++rank) {
    const RankRoom& room = rooms[static_cast<size_t>(rank)];
    const double experts = static_cast<double>(placement.num_slots(rank)) *
                           static_cast<double>(problem.shape.expert_bytes);
    std::string line = "experts " + bytes_text(experts);
    for (const auto& [name, bytes] : room.fixed) line += ", " + name + " " + bytes_text(bytes);
    line += fmt::format(": {} of {}", bytes_text(experts + room.fixed_bytes()),
                        room.have_bytes > 0 ? bytes_text(room.have_bytes) : "what is not told");
    if (line == before) continue;
    flush(rank);
    before = line;
    first = rank;
  }
  flush(problem.ranks.num_ranks());
  return text;
}

std::string advice_text(const std::vector<PlanAdvice>& advice) {
  std::string text;
  for (const PlanAdvice& each : advice) {
    text += fmt::format("  {}: {} (", each.what, each.answer);
    const char* separator = "";
    for (const auto& [name, us] : each.choices) {
      text += fmt::format("{}{} {:.3f} ms", std::exchange(separator, ", "), name, us / 1e3);
    }
    text += ")\n";
  }
  return text.empty() ? text : "advice, each the fastest by the simulator (a step's time)\n" + text;
}

}  // namespace

std::vector<LayerFigures> plan_figures(const PlanProblem& problem, const Placement& placement) {
  const ExpertLoads* loads = problem.loads ? &*problem.loads : nullptr;
  std::vector<LayerFigures> all;
  for (int layer = 0; layer < problem.shape.num_layers; ++layer) {
    if (!placement.has_experts(layer)) continue;
    all.push_back(layer_figures(placement, layer, expert_shares(loads, problem.shape, layer),
                                static_cast<double>(problem.batch), pair_shares(loads, layer)));
  }
  return all;
}

std::string plan_report(const PlanProblem& problem, const std::vector<RankRoom>& rooms,
                        const ChosenPlan& chosen) {
  const Plan& plan = chosen.best.plan;
  const ModelShape& shape = problem.shape;
  const SimulatedStep& step = chosen.best.step;
  const StepSums sums = sums_of(problem, chosen.terms, plan.placement);
  std::string text = fmt::format(
      "{}: {} ranks, {} layers of {} experts, {} a token, {} each\n"
      "step: {} sequences at {} positions, loads {}\n",
      problem.ranks.cluster().name, problem.ranks.num_ranks(), shape.num_moe_layers(),
      shape.num_experts, shape.top_k, format_bytes(shape.expert_bytes), problem.batch,
      problem.context, problem.loads ? "counted" : "uniform");
  text += describe(plan.placement) + "\n";
  text += fmt::format(
      "predicted step {:.3f} ms, {:.0f} tokens/s; most of it: {}\n"
      "  own {:.3f}, dispatch {:.3f}, rows wait {:.3f}, experts {:.3f}, combine {:.3f}, head "
      "{:.3f} ms\n",
      step.step_us / 1e3, 1e6 * static_cast<double>(problem.batch) / step.step_us,
      step.bottleneck(), (step.attention_us + step.own_us) / 1e3, step.dispatch_us / 1e3,
      step.wait_us / 1e3, step.experts_us / 1e3, step.combine_us / 1e3, step.head_us / 1e3);
  text += fmt::format(
      "what was planned: {:.3f} ms in the layers with experts (dispatch {:.3f}, experts {:.3f}, "
      "combine {:.3f}, starts {:.3f})\n"
      "  bound {:.3f} ms, gap {:.1f} %; {} {:.3f} ms\n",
      plan.predicted_us / 1e3, sums.time.dispatch_us / 1e3, sums.time.expert_us / 1e3,
      sums.time.combine_us / 1e3, sums.time.exchange_us / 1e3, plan.bound_us / 1e3,
      100 * plan.gap(), problem.previous != nullptr ? "the previous placement" : "contiguous parts",
      plan.start_us / 1e3);
  text += fmt::format(
      "mean over most of the ranks that hold experts: of their time {:.4f}, of tokens {:.4f} "
      "(worst "
      "layer {:.4f}); no expert twice on a rank\n",
      sums.time_balance, sums.balance, sums.worst_balance);
  if (problem.previous != nullptr) {
    text += fmt::format("moves: {} experts of {} to read\n", plan.num_moves,
                        format_bytes(plan.num_moves * shape.expert_bytes));
  }
  const std::string links = links_text("dispatch", chosen.terms.dispatch_links, sums.out_us) +
                            links_text("combine", chosen.terms.combine_links, sums.back_us);
  if (!links.empty()) text += "busiest links, a step\n" + links;
  return text + memory_text(problem, rooms, plan.placement) + advice_text(chosen.advice);
}

std::string plan_notes(const PlanProblem& problem, const ChosenPlan& chosen) {
  nlohmann::ordered_json advice = nlohmann::ordered_json::array();
  for (const PlanAdvice& each : chosen.advice) {
    nlohmann::ordered_json choices = nlohmann::ordered_json::object();
    for (const auto& [name, us] : each.choices) choices[name] = us;
    advice.push_back({{"what", each.what}, {"answer", each.answer}, {"step_us", choices}});
  }
  const Plan& plan = chosen.best.plan;
  const nlohmann::ordered_json notes = {{"machine", problem.ranks.cluster().name},
                                        {"batch", problem.batch},
                                        {"context", problem.context},
                                        {"loads", problem.loads ? "counted" : "uniform"},
                                        {"step_us", chosen.best.step.step_us},
                                        {"planned_us", plan.predicted_us},
                                        {"bound_us", plan.bound_us},
                                        {"moves", plan.num_moves},
                                        {"advice", advice}};
  return notes.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace colibri
