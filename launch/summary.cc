#include "launch/summary.h"

#include <fmt/format.h>

namespace colibri {
namespace {

double rate(int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

std::string rank_line(const SummaryInput& in, int rank) {
  const int64_t slots = in.placement->num_slots(rank);
  const auto r = static_cast<size_t>(rank);
  std::string line = fmt::format("  rank {}: {} experts in {} layers, {:.1f} MB", rank, slots,
                                 in.shape->num_moe_layers(),
                                 static_cast<double>(slots * in.shape->expert_bytes) / 1e6);
  if (in.exchange->compute_us[r] > 0) {
    line += fmt::format(", computed {:.1f} ms", in.exchange->compute_us[r] / 1e3);
  }
  if (rank > 0 && in.exchange->wait_us[r] > 0)
    line += fmt::format(", waited for {:.1f} ms", in.exchange->wait_us[r] / 1e3);
  return line + "\n";
}

}  // namespace

std::string summary_text(const SummaryInput& in) {
  const EngineTotals& e = *in.engine;
  std::string text = fmt::format(
      "{} prompt tokens at {:.0f} tokens/s, {} new tokens at {:.1f} tokens/s ({})\n"
      "ready after {:.0f} ms, first token {:.0f} ms later\n",
      e.num_prompt_tokens, rate(e.num_prompt_tokens, e.prefill_s), e.num_new_tokens,
      rate(e.num_new_tokens, in.elapsed_s), in.backend, in.load_s * 1e3, in.first_token_s * 1e3);
  for (int rank = 0; rank < in.placement->num_ranks(); ++rank) text += rank_line(in, rank);
  const ExchangeTotals& x = *in.exchange;
  if (x.num_messages > 0) {
    text += fmt::format(
        "  dispatch {:.2f} MB in {} messages ({:.1f} ms), combine {:.2f} MB ({:.1f} ms waiting)\n",
        static_cast<double>(x.dispatch_bytes) / 1e6, x.num_messages, x.begin_us / 1e3,
        static_cast<double>(x.combine_bytes) / 1e6, x.finish_us / 1e3);
  }
  if (in.fixed.num_steps > 0) {
    text += fmt::format("  {} steps with messages of fixed size, {} ({:.2f} %) run again\n",
                        in.fixed.num_steps, in.fixed.num_reruns,
                        100 * rate(static_cast<int64_t>(in.fixed.num_reruns),
                                   static_cast<double>(in.fixed.num_steps)));
  }
  return text;
}

}  // namespace colibri
