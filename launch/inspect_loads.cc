#include "launch/inspect_loads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <utility>
#include <vector>

#include "topology/load_file.h"

namespace colibri {
namespace {

constexpr size_t kMostListed = 3;  // experts, and pairs

// An expert of a layer, or two that were chosen together, with their share of the layer's tokens.
struct Choice {
  size_t layer = 0, expert = 0, other = 0;
  double share = 0;
  double times_chance = 0;  // of a pair: against experts chosen independently
};

class LoadSummary {
 public:
  explicit LoadSummary(const ExpertLoads& loads) : loads_(loads) {}

  std::string text() {
    const auto layers = static_cast<size_t>(loads_.num_layers);
    std::string table;
    size_t num_moe = 0;
    for (size_t layer = 0; layer < layers; ++layer) {
      if (loads_.phases[0][layer].tokens.empty()) continue;
      ++num_moe;
      table += layer_line(layer);
    }
    std::string text = fmt::format(
        "{} {}, {} layers, {} of them with experts, top {} of {} experts\n", loads_.family,
        loads_.fingerprint, layers, num_moe, loads_.top_k, loads_.num_experts);
    if (num_moe == 0) return text + "no token was counted\n";
    text += fmt::format(
        "prefill {:.0f} tokens, decode {:.0f}; an even load gives an expert {:.1f} % of them\n",
        most_tokens(LoadPhase::kPrefill), most_tokens(LoadPhase::kDecode),
        100.0 * loads_.top_k / loads_.num_experts);
    text += fmt::format("{:>5} {:>9} {:>9} {:>8} {:>6} {:>14}  {}\n", "layer", "prefill", "decode",
                        "max/mean", "never", "busiest", "strongest pair");
    return text + table + busiest_text() + pairs_text();
  }

 private:
  double most_tokens(LoadPhase phase) const {
    double most = 0;
    for (const LayerLoads& layer : loads_.phases[static_cast<size_t>(phase)]) {
      most = std::max(most, layer.num_tokens);
    }
    return most;
  }

  // Keeps the largest.
  static void keep(std::vector<Choice>& list, const Choice& choice) {
    const auto place =
        std::upper_bound(list.begin(), list.end(), choice,
                         [](const Choice& a, const Choice& b) { return a.share > b.share; });
    list.insert(place, choice);
    if (list.size() > kMostListed) list.pop_back();
  }

  std::string layer_line(size_t layer) {
    const LayerLoads& prefill = loads_.phases[0][layer];
    const LayerLoads& decode = loads_.phases[1][layer];
    const double num_tokens = prefill.num_tokens + decode.num_tokens;
    std::string line =
        fmt::format("{:>5} {:>9.0f} {:>9.0f}", layer, prefill.num_tokens, decode.num_tokens);
    if (num_tokens <= 0) return line + "\n";
    std::vector<double> shares(prefill.tokens.size());
    for (size_t e = 0; e < shares.size(); ++e) {
      shares[e] = (prefill.tokens[e] + decode.tokens[e]) / num_tokens;
      keep(busiest_, {.layer = layer, .expert = e, .share = shares[e]});
    }
    const auto largest = std::max_element(shares.begin(), shares.end());
    const double mean =
        std::accumulate(shares.begin(), shares.end(), 0.0) / static_cast<double>(shares.size());
    line += fmt::format(" {:>8.2f} {:>6} {:>14}", mean > 0 ? *largest / mean : 0,
                        std::count(shares.begin(), shares.end(), 0.0),
                        fmt::format("{}: {:.1f} %", largest - shares.begin(), 100 * *largest));
    const Choice pair = strongest_pair(layer, shares);
    if (pair.share > 0) {
      line += fmt::format("  {}, {}: {:.1f} %", pair.expert, pair.other, 100 * pair.share);
    }
    return line + "\n";
  }

  // Share 0 where no pairs were counted.
  Choice strongest_pair(size_t layer, const std::vector<double>& shares) {
    Choice strongest;
    double num_tokens = 0;
    for (const auto& layers : loads_.phases) {
      if (!layers[layer].pairs.empty()) num_tokens += layers[layer].num_tokens;
    }
    for (size_t high = 1; high < shares.size() && num_tokens > 0; ++high) {
      for (size_t low = 0; low < high; ++low) {
        double count = 0;
        for (const auto& layers : loads_.phases) {
          if (!layers[layer].pairs.empty()) count += layers[layer].pairs[pair_index(low, high)];
        }
        if (count <= 0) continue;
        const double share = count / num_tokens, chance = shares[low] * shares[high];
        const Choice pair{.layer = layer,
                          .expert = low,
                          .other = high,
                          .share = share,
                          .times_chance = share / chance};
        if (pair.share > strongest.share) strongest = pair;
        keep(pairs_, pair);
      }
    }
    return strongest;
  }

  std::string busiest_text() const {
    std::string text = "busiest:";
    const char* separator = " ";
    for (const Choice& one : busiest_) {
      text += fmt::format("{}layer {} expert {} {:.1f} %", std::exchange(separator, ", "),
                          one.layer, one.expert, 100 * one.share);
    }
    return text + "\n";
  }

  std::string pairs_text() const {
    if (pairs_.empty()) return "pairs were not counted\n";
    std::string text;
    for (const Choice& pair : pairs_) {
      text += fmt::format("strong pair: layer {} experts {} and {} {:.1f} %, {:.1f} times chance\n",
                          pair.layer, pair.expert, pair.other, 100 * pair.share, pair.times_chance);
    }
    return text;
  }

  const ExpertLoads& loads_;
  std::vector<Choice> busiest_, pairs_;  // largest first, of all layers
};

}  // namespace

std::string loads_summary(const ExpertLoads& loads) { return LoadSummary(loads).text(); }

int inspect_loads(const InspectOptions& options) {
  std::fputs(loads_summary(read_loads(options.loads)).c_str(), stdout);
  return 0;
}

}  // namespace colibri
