// What people see of a memory plan: the table and the error.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/units.h"
#include "topology/memory_plan.h"

namespace colibri {
namespace {

struct Item {
  const char* name;
  int64_t RankMemory::*bytes;
};
constexpr std::array<Item, 6> kItems = {{{"experts", &RankMemory::expert_bytes},
                                         {"weights", &RankMemory::weight_bytes},
                                         {"kv cache", &RankMemory::kv_cache_bytes},
                                         {"workspace", &RankMemory::workspace_bytes},
                                         {"messages", &RankMemory::message_bytes},
                                         {"process", &RankMemory::process_bytes}}};

const Item& largest_item(const RankMemory& memory) {
  return *std::max_element(kItems.begin(), kItems.end(), [&](const Item& a, const Item& b) {
    return memory.*a.bytes < memory.*b.bytes;
  });
}

// The sum over a node's ranks; a sum past 64 bits counts as the largest number.
int64_t node_need(std::span<const RankMemory> plan, size_t node) {
  int64_t need = 0;
  for (const RankMemory& memory : plan) {
    if (memory.node != static_cast<int>(node)) continue;
    if (__builtin_add_overflow(need, memory.total_bytes(), &need)) return INT64_MAX;
  }
  return need;
}

void pad_left(const std::string& text, size_t width, std::string& line) {
  if (text.size() < width) line.append(width - text.size(), ' ');
  line += text;
}

}  // namespace

void check_memory(std::span<const RankMemory> plan, std::span<const NodeMemory> nodes) {
  for (size_t node = 0; node < nodes.size(); ++node) {
    const int64_t need = node_need(plan, node);
    const int64_t have = nodes[node].available_bytes;
    if (need <= have) continue;
    size_t largest = plan.size();
    for (size_t rank = 0; rank < plan.size(); ++rank) {
      if (plan[rank].node != static_cast<int>(node)) continue;
      if (largest == plan.size() || plan[rank].total_bytes() > plan[largest].total_bytes()) {
        largest = rank;
      }
    }
    const Item& item = largest_item(plan[largest]);
    fail(ErrorKind::kEnvironment, "not enough memory on ", nodes[node].name, ": its ranks need ",
         format_bytes(need), ", available are ", format_bytes(have), "; rank ", largest,
         " needs most, ", format_bytes(plan[largest].total_bytes()), ", of which ", item.name, " ",
         format_bytes(plan[largest].*item.bytes),
         "; use more nodes, a smaller --max-context, --max-batch or --chunk, or smaller weights");
  }
}

std::string memory_table(std::span<const RankMemory> plan, std::span<const NodeMemory> nodes) {
  constexpr size_t kName = 8, kColumn = 11;
  std::string text = "memory  ";
  for (const Item& item : kItems) pad_left(item.name, kColumn, text);
  pad_left("total", kColumn, text);
  text += '\n';
  for (size_t rank = 0; rank < plan.size(); ++rank) {
    std::string line = "rank " + std::to_string(rank);
    line.resize(std::max(line.size(), kName), ' ');
    for (const Item& item : kItems) pad_left(format_bytes(plan[rank].*item.bytes), kColumn, line);
    pad_left(format_bytes(plan[rank].total_bytes()), kColumn, line);
    text += line + '\n';
  }
  for (size_t node = 0; node < nodes.size(); ++node) {
    text += nodes[node].name + ": needs " + format_bytes(node_need(plan, node)) + " of " +
            format_bytes(nodes[node].available_bytes) + " available\n";
  }
  return text;
}

}  // namespace colibri
