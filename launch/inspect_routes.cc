#include "launch/inspect_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <vector>

#include "coordinator/load_stats.h"

namespace colibri {
namespace {

constexpr uint64_t kTokensForVerdict = 32;  // as in the summaries of the other verbs

// What the summary needs of one layer besides its loads.
struct LayerScores {
  uint64_t num_tokens = 0;
  double sum_of_largest = 0;    // over the tokens whose weights are finite
  uint64_t num_finite = 0;      // these tokens
  uint64_t num_not_finite = 0;  // weights
};

class RouteSummary {
 public:
  RouteSummary(const RouteFileHeader& header, int64_t num_printed)
      : header_(header),
        num_printed_(num_printed),
        loads_(header.num_layers, header.num_experts, header.top_k),
        scores_(static_cast<size_t>(header.num_layers)) {}

  void add(const RouteBlock& block);
  // The lines of the tokens asked for, then the summary.
  std::string text();

 private:
  void print_tokens(const RouteBlock& block);
  std::string layer_line(int layer) const;
  std::string verdict() const;

  RouteFileHeader header_;
  int64_t num_printed_;
  LoadStats loads_;
  std::vector<LayerScores> scores_;  // [L]
  int64_t num_steps_ = 0, num_tokens_ = 0;
  int64_t num_started_ = 0;           // tokens of earlier steps
  std::vector<std::string> printed_;  // one text a token
};

void RouteSummary::add(const RouteBlock& block) {
  if (block.step >= num_steps_) {
    num_started_ = num_tokens_;
    num_steps_ = block.step + 1;
    num_tokens_ += static_cast<int64_t>(block.tokens.size());
  }
  print_tokens(block);
  loads_.add(block.layer, block.expert_ids);
  LayerScores& scores = scores_[static_cast<size_t>(block.layer)];
  scores.num_tokens += block.tokens.size();
  const auto k = static_cast<size_t>(header_.top_k);
  for (auto row = block.weights.begin(); row != block.weights.end();
       row += static_cast<std::ptrdiff_t>(k)) {
    const auto end = row + static_cast<std::ptrdiff_t>(k);
    const auto bad = std::count_if(row, end, [](float weight) { return !std::isfinite(weight); });
    scores.num_not_finite += static_cast<uint64_t>(bad);
    if (bad > 0) continue;
    scores.sum_of_largest += static_cast<double>(*std::max_element(row, end));
    ++scores.num_finite;
  }
}

void RouteSummary::print_tokens(const RouteBlock& block) {
  const auto k = static_cast<size_t>(header_.top_k);
  for (size_t t = 0; t < block.tokens.size(); ++t) {
    const auto number = static_cast<size_t>(num_started_) + t;
    if (number >= static_cast<size_t>(num_printed_)) return;
    if (number == printed_.size()) {
      const RouteToken& token = block.tokens[t];
      printed_.push_back(fmt::format("sequence {}, position {}, token {}\n", token.sequence,
                                     token.position, token.id));
    }
    printed_[number] += fmt::format("  layer {:<3}", block.layer);
    for (size_t i = t * k; i < (t + 1) * k; ++i) {
      printed_[number] += fmt::format("  {}: {:.4f}", block.expert_ids[i], block.weights[i]);
    }
    printed_[number] += "\n";
  }
}

std::string RouteSummary::text() {
  std::string text;
  for (const std::string& token : printed_) text += token;
  const auto moe_layers =
      std::count(header_.layer_is_moe.begin(), header_.layer_is_moe.end(), true);
  text += fmt::format("{} {}, {} layers, {} of them with experts, top {} of {} experts\n",
                      header_.family, header_.fingerprint, header_.num_layers, moe_layers,
                      header_.top_k, header_.num_experts);
  text +=
      fmt::format("{} tokens in {} steps; an even load gives an expert {:.1f} % of the tokens\n",
                  num_tokens_, num_steps_, 100.0 * header_.top_k / header_.num_experts);
  text += fmt::format("{:>5} {:>9} {:>16} {:>7} {:>9} {:>12}\n", "layer", "tokens", "busiest",
                      "never", "entropy", "top-1 score");
  for (int layer = 0; layer < header_.num_layers; ++layer) {
    if (header_.layer_is_moe[static_cast<size_t>(layer)]) text += layer_line(layer);
  }
  return text + verdict();
}

std::string RouteSummary::layer_line(int layer) const {
  const LayerScores& scores = scores_[static_cast<size_t>(layer)];
  if (scores.num_tokens == 0) return fmt::format("{:>5} {:>9}\n", layer, 0);
  const auto loads = loads_.of_layer(layer);
  const auto busiest = std::max_element(loads.begin(), loads.end());
  const auto total = static_cast<double>(std::accumulate(loads.begin(), loads.end(), uint64_t{0}));
  double entropy = 0;
  for (const uint64_t load : loads) {
    const double share = static_cast<double>(load) / total;
    if (load > 0) entropy -= share * std::log(share);
  }
  if (loads.size() > 1) entropy /= std::log(static_cast<double>(loads.size()));
  const double mean = scores.sum_of_largest / static_cast<double>(scores.num_finite);
  const double busiest_share =
      100 * static_cast<double>(*busiest) / static_cast<double>(scores.num_tokens);
  return fmt::format("{:>5} {:>9} {:>16} {:>7} {:>9.3f} {:>12}\n", layer, scores.num_tokens,
                     fmt::format("{}: {:.1f} %", busiest - loads.begin(), busiest_share),
                     std::count(loads.begin(), loads.end(), 0), entropy,
                     scores.num_finite == 0 ? "none finite" : fmt::format("{:.4f}", mean));
}

std::string RouteSummary::verdict() const {
  std::string text;
  for (const std::string& line : loads_.collapsed_layers(kTokensForVerdict)) {
    text += "verdict: collapsed: " + line + "\n";
  }
  for (size_t layer = 0; layer < scores_.size(); ++layer) {
    if (scores_[layer].num_not_finite == 0) continue;
    text += fmt::format("verdict: damaged: layer {} has {} scores that are not finite\n", layer,
                        scores_[layer].num_not_finite);
  }
  if (!text.empty()) return text;
  if (num_tokens_ < static_cast<int64_t>(kTokensForVerdict)) {
    return fmt::format("verdict: all scores are finite; too few tokens to say more, want {}\n",
                       kTokensForVerdict);
  }
  return "verdict: no layer is collapsed, all scores are finite\n";
}

}  // namespace

std::string routes_text(RouteFileReader& reader, int64_t num_tokens) {
  RouteSummary summary(reader.header(), num_tokens);
  RouteBlock block;
  while (reader.next(block)) summary.add(block);
  return summary.text();
}

int inspect_routes(const InspectOptions& options) {
  RouteFileReader reader(options.routes);
  std::fputs(routes_text(reader, options.tokens).c_str(), stdout);
  return 0;
}

}  // namespace colibri
