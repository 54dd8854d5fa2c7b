#include <cmath>
#include <functional>

#include "tests/topology/machines.h"
#include "tests/topology/published.h"
#include "topology/cluster.h"
#include "topology/rank_map.h"

namespace colibri {
namespace {

const char* const kAic = "ai-dynamo/aiconfigurator 095f58a, systems/data";
constexpr double kMiB = 1024.0 * 1024;

// Constants of an exchange through a switch; the link's rate is not the device's.
struct Exchange {
  double start_us = 0, start_us_per_peer = 0, gbps = 0, sharpness = 1, tail = 0;

  // `bytes` is what a rank sends to all ranks, itself included.
  double us(double bytes, int num_ranks) const {
    DeviceSpec device;
    device.exchange_us = start_us;
    device.exchange_us_per_peer = start_us_per_peer;
    device.exchange_sharpness = sharpness;
    const int peers = num_ranks - 1;
    const double link_us = bytes * peers / num_ranks / (gbps * 1e3);
    return device.exchange_total_us(device.exchange_start_us(peers), link_us * (1 + tail / peers));
  }
};

std::string ranks_text(int num_ranks) { return std::to_string(num_ranks) + " ranks"; }

// NCCL, as nccl-tests measures it: floor for small messages, rate of 512 MiB a rank.
struct NcclRow {
  int num_ranks;
  double floor_us, algorithm_gbps;
  RowUse use = RowUse::kJudged;
};
struct NcclTable {
  const char* name;
  std::vector<NcclRow> rows;
};
// From H200's row of 8 MiB, see raw_nccl; the same for all.
constexpr double kNcclSharpness = 0.7;

double at_512_mib(const NcclRow& row) { return 512 * kMiB / (row.algorithm_gbps * 1e3); }

// GB/s of the link at 512 MiB, were the tail 0.
double port_gbps(const NcclRow& row) {
  const double p = kNcclSharpness;
  const double link_us = std::pow(std::pow(at_512_mib(row), p) - std::pow(row.floor_us, p), 1 / p);
  return 512 * kMiB * (row.num_ranks - 1) / row.num_ranks / link_us / 1e3;
}

Exchange fitted(const NcclRow& few, const NcclRow& many) {
  const double peers_few = few.num_ranks - 1, peers_many = many.num_ranks - 1;
  Exchange e;
  e.sharpness = kNcclSharpness;
  e.start_us_per_peer = (many.floor_us - few.floor_us) / (peers_many - peers_few);
  e.start_us = few.floor_us - e.start_us_per_peer * peers_few;
  // gbps = g peers / (peers + tail) at both.
  const double a = port_gbps(few), b = port_gbps(many);
  e.tail = (b - a) / (a / peers_few - b / peers_many);
  e.gbps = a * (1 + e.tail / peers_few);
  return e;
}

PublishedTable nccl(const NcclTable& table, const Exchange& exchange, const char* constants) {
  PublishedTable result{table.name, kAic, constants, {}};
  for (const NcclRow& row : table.rows) {
    result.rows.push_back({ranks_text(row.num_ranks) + ", floor", row.floor_us,
                           exchange.us(0, row.num_ranks), row.use});
    result.rows.push_back({ranks_text(row.num_ranks) + ", 512 MiB", at_512_mib(row),
                           exchange.us(512 * kMiB, row.num_ranks), row.use});
  }
  return result;
}

const NcclTable kH200{"NCCL 2.29.2 all-to-all, H200",
                      {{2, 6.7, 595, RowUse::kFit}, {4, 6.8, 425}, {8, 8.7, 356, RowUse::kFit}}};
const NcclTable kH100{"NCCL 2.27.3 all-to-all, H100",
                      {{2, 6.5, 556, RowUse::kFit}, {4, 6.9, 443}, {8, 8.0, 363, RowUse::kFit}}};
const NcclTable kB200{"NCCL 2.28.9 all-to-all, B200",
                      {{2, 9.3, 625, RowUse::kFit}, {4, 10.5, 613}, {8, 11.0, 607, RowUse::kFit}}};

std::vector<PublishedTable> nccl_tables() {
  const char* const kEnds = "from 2 and 8 ranks; sharpness 0.7 from H200's 8 MiB";
  const Exchange h100 = fitted(kH100.rows[0], kH100.rows[2]);
  const Exchange h200 = fitted(kH200.rows[0], kH200.rows[2]);
  const Exchange b200 = fitted(kB200.rows[0], kB200.rows[2]);
  return {nccl(kH200, h200, kEnds),
          nccl(kH100, h100, kEnds),
          nccl(kB200, b200, kEnds),
          nccl({"NCCL 2.29.2 all-to-all, H100", {{8, 7.5, 360}}}, h100, "those of 2.27.3"),
          nccl({"NCCL 2.29.2 all-to-all, B200", {{8, 11.0, 644}}}, b200, "those of 2.28.9"),
          nccl({"NCCL 2.29.2 all-to-all, GB200", {{2, 9.9, 665}, {4, 10.8, 650}}}, b200,
               "those of B200: no row of this table")};
}

PublishedTable raw_nccl() {
  const Exchange h200 = fitted(kH200.rows[0], kH200.rows[2]);
  PublishedTable result{"NCCL 2.29.2 all-to-all, 8 H200, by bytes a rank",
                        kAic,
                        "as above; sharpness from 8 MiB",
                        {}};
  const std::vector<std::pair<double, double>> rows{
      {16, 7.3},    {64, 12.1},   {128, 9.8},    {256, 14.1},  {512, 14.2},
      {1024, 16.2}, {2048, 17.7}, {4096, 26.6},  {8192, 40.3}, {16384, 73.4},
      {32768, 124}, {65536, 219}, {131072, 404}, {262144, 771}};
  for (const auto& [kib, us] : rows) {
    result.rows.push_back({std::to_string(static_cast<int>(kib)) + " KiB", us,
                           h200.us(kib * 1024, 8), kib == 8192 ? RowUse::kFit : RowUse::kJudged});
  }
  return result;
}

// DeepEP's kernels for decoding on one node: every (token, expert) pair is sent. The first row
// gives the start, the row of 1024 tokens the rate.
struct LowLatencyTable {
  const char* name;
  int num_ranks;
  double hidden, row_bytes_a_value;
  std::vector<std::pair<double, double>> rows;  // tokens a rank, us
};
constexpr double kFp8Row = 1.03, kBf16Row = 2;  // FP8 with a scale for 128 values

double pair_bytes(const LowLatencyTable& t, double tokens) {
  return tokens * 8 * t.hidden * t.row_bytes_a_value;
}

Exchange fitted(const LowLatencyTable& t) {
  const auto& [few, few_us] = t.rows.front();
  const auto& [many, many_us] = t.rows.back();
  const double remote = (t.num_ranks - 1.0) / t.num_ranks;
  Exchange e;
  e.gbps = (pair_bytes(t, many) - pair_bytes(t, few)) * remote / (many_us - few_us) / 1e3;
  e.start_us = few_us - pair_bytes(t, few) * remote / (e.gbps * 1e3);
  return e;
}

PublishedTable low_latency(const LowLatencyTable& t, const Exchange& exchange, bool is_fitted) {
  PublishedTable result{
      t.name,
      kAic,
      is_fitted ? "start from the first row, rate from the last" : "those of hidden size 7168",
      {}};
  for (size_t i = 0; i < t.rows.size(); ++i) {
    const bool is_end = i == 0 || i + 1 == t.rows.size();
    result.rows.push_back({std::to_string(static_cast<int>(t.rows[i].first)) + " tokens",
                           t.rows[i].second,
                           exchange.us(pair_bytes(t, t.rows[i].first), t.num_ranks),
                           is_end && is_fitted ? RowUse::kFit : RowUse::kJudged});
  }
  return result;
}

std::vector<std::pair<double, double>> by_tokens(const std::vector<double>& us) {
  const std::vector<double> tokens{1, 16, 32, 64, 128, 256, 512, 1024};
  std::vector<std::pair<double, double>> rows;
  for (size_t i = 0; i < us.size(); ++i) rows.emplace_back(tokens[i], us[i]);
  return rows;
}

std::vector<PublishedTable> low_latency_tables() {
  const LowLatencyTable h200_out{"DeepEP dispatch, 8 H200", 8, 7168, kFp8Row,
                                 by_tokens({12, 14, 16, 23, 35, 61, 112, 211})};
  const LowLatencyTable h200_back{"DeepEP combine, 8 H200", 8, 7168, kBf16Row,
                                  by_tokens({13, 18, 25, 39, 68, 124, 244, 481})};
  const std::vector<LowLatencyTable> fitted_tables{
      {"DeepEP dispatch, 8 H100", 8, 7168, kFp8Row, by_tokens({13, 16, 18, 25, 37, 63, 116, 224})},
      {"DeepEP combine, 8 H100", 8, 7168, kBf16Row, by_tokens({14, 21, 26, 40, 67, 130, 259, 489})},
      h200_out,
      h200_back,
      {"DeepEP dispatch, 8 B200", 8, 7168, kFp8Row, by_tokens({22, 23, 24, 27, 33, 44, 73, 130})},
      {"DeepEP combine, 8 B200", 8, 7168, kBf16Row, by_tokens({22, 23, 26, 31, 41, 63, 105, 189})},
      {"DeepEP dispatch, 4 GB200", 4, 7168, kFp8Row, by_tokens({17, 18, 19, 22, 27, 37, 63, 113})},
      {"DeepEP combine, 4 GB200", 4, 7168, kBf16Row, by_tokens({18, 19, 19, 26, 36, 55, 92, 168})}};
  std::vector<PublishedTable> tables;
  for (const LowLatencyTable& t : fitted_tables) {
    tables.push_back(low_latency(t, fitted(t), true));
  }
  tables.push_back(low_latency({"DeepEP dispatch, 8 H200, hidden 4096",
                                8,
                                4096,
                                kFp8Row,
                                {{1, 10}, {32, 13}, {128, 23}, {512, 69}, {1024, 129}}},
                               fitted(h200_out), false));
  tables.push_back(low_latency({"DeepEP combine, 8 H200, hidden 4096",
                                8,
                                4096,
                                kBf16Row,
                                {{1, 11}, {32, 18}, {128, 40}, {512, 141}, {1024, 284}}},
                               fitted(h200_back), false));
  return tables;
}

// The same kernels over several nodes of eight, 128 tokens a rank, through the machine's links: the
// busiest link of all pairs decides, as in the simulator's symmetric form.
// Of rows of bf16; those of others take as much more or less as they are longer.
double over_nodes_us(int num_ranks, double nvlink_gbps, double nic_gbps) {
  DeviceSpec device;
  device.name = "gpu";
  device.is_gpu = true;
  Cluster cluster = switched_machine(std::max(1, num_ranks / 8), 8, device);
  for (ClusterLink& link : cluster.links) {
    link.latency_us = 0;
    link.gbps = link.kind == "nvlink" ? nvlink_gbps : link.kind == "ib" ? nic_gbps : 1000;
  }
  std::vector<int> all;
  for (int rank = 0; rank < num_ranks; ++rank) all.push_back(rank);
  const RankMap ranks(cluster, default_rank_parts(cluster, num_ranks, false), all);
  ModelShape shape = shape_of(256, {true});
  shape.hidden_size = 7168;
  const LayerTerms terms = link_terms(shape, ranks, {});
  // Each rank gets 128 tokens' 8 pairs from all, in equal parts.
  const std::vector<double> pairs(static_cast<size_t>(num_ranks), 128 * 8);
  return busiest_link(terms.combine_links, &LinkTerm::result_us, pairs).us;
}

struct NodesRow {
  int num_ranks;
  double dispatch_us, combine_us;
};

// NIC: from EP64's dispatch; NVLink: from EP8's combine; start 13 us, as on one node of H100.
PublishedTable over_nodes(const char* name, const char* source, double nvlink_gbps, double nic_gbps,
                          const std::vector<NodesRow>& rows, bool is_fitted) {
  PublishedTable result{name,
                        source,
                        is_fitted ? "NIC from EP64's dispatch, NVLink from EP8's combine, start 13 "
                                    "us from one node of H100"
                                  : "NIC of the table above, NVLink from one node of H100",
                        {}};
  for (const NodesRow& row : rows) {
    const std::string what = "EP" + std::to_string(row.num_ranks);
    const double links_us = over_nodes_us(row.num_ranks, nvlink_gbps, nic_gbps);
    const auto use = [&](int fit) {
      return is_fitted && row.num_ranks == fit ? RowUse::kFit : RowUse::kJudged;
    };
    result.rows.push_back(
        {what + " dispatch", row.dispatch_us, 13 + links_us * kFp8Row / kBf16Row, use(64)});
    result.rows.push_back({what + " combine", row.combine_us, 13 + links_us, use(8)});
  }
  return result;
}

std::vector<PublishedTable> over_nodes_tables() {
  const double dispatch_bytes = 128 * 8 * 7168 * kFp8Row, combine_bytes = 128 * 8 * 7168 * kBf16Row;
  const double nic = dispatch_bytes * 56 / 64 / (173 - 13) / 1e3;
  const double nvlink = combine_bytes * 7 / 8 / (114 - 13) / 1e3;
  const double nvlink_h100 = 224;  // 256 GB/s with a rank's own eighth, DeepEP combine on 8 H100
  return {
      over_nodes("DeepEP over RDMA, H800", "deepseek-ai/DeepEP README (first generation)", nvlink,
                 nic,
                 {{8, 77, 114},
                  {16, 118, 195},
                  {32, 155, 273},
                  {64, 173, 314},
                  {128, 192, 369},
                  {256, 194, 360}},
                 true),
      over_nodes("DeepEP over RDMA as others measured it", "pplx-garden fabric-lib README",
                 nvlink_h100, nic,
                 {{8, 42.6, 72.0}, {16, 123.9, 203}, {32, 159.1, 285}, {64, 177.9, 325}}, false)};
}

// TensorRT-LLM's one-sided kernels, bf16, GB200 NVL72.
struct OneSidedRow {
  int num_ranks;
  double tokens, dispatch_us, combine_us;
};
const std::vector<OneSidedRow> kOneSided{
    {8, 1, 18.9, 31.0},      {8, 32, 18.2, 32.7},   {8, 128, 31.7, 38.1},  {8, 512, 89.5, 91.7},
    {8, 2048, 311.8, 322.6}, {16, 128, 34.6, 39.9}, {32, 128, 37.8, 41.1}, {32, 2048, 373.7, 369.5},
    {64, 1, 27.8, 32.6},     {64, 128, 41.6, 44.5}, {64, 2048, 399, 372}};

PublishedTable one_sided(bool is_dispatch) {
  const auto us = [&](const OneSidedRow& row) {
    return is_dispatch ? row.dispatch_us : row.combine_us;
  };
  const auto bytes = [](const OneSidedRow& row) { return row.tokens * 8 * 7168 * 2; };
  const OneSidedRow &first = kOneSided[0], &large = kOneSided[4], &wide = kOneSided[8];
  Exchange e;
  e.start_us_per_peer = (us(wide) - us(first)) / (63 - 7);
  e.start_us = us(first) - 7 * e.start_us_per_peer;
  // Sharper than one after the other, as both are one kernel: from 512 tokens of EP8.
  e.sharpness = is_dispatch ? 1.2 : 1.7;
  const double p = e.sharpness;
  const double link_us = std::pow(std::pow(us(large), p) - std::pow(us(first), p), 1 / p);
  e.gbps = bytes(large) * 7 / 8 / link_us / 1e3;
  PublishedTable result{std::string("TensorRT-LLM one-sided ") +
                            (is_dispatch ? "dispatch" : "combine") + ", GB200 NVL72",
                        "TensorRT-LLM's blog on its one-sided kernels",
                        "start from one token of EP8 and EP64, rate from 2048 tokens of EP8, "
                        "sharpness from 512",
                        {}};
  for (const OneSidedRow& row : kOneSided) {
    const bool is_fit = row.tokens == 1 || (row.num_ranks == 8 && row.tokens >= 512);
    result.rows.push_back({"EP" + std::to_string(row.num_ranks) + ", " +
                               std::to_string(static_cast<int>(row.tokens)) + " tokens",
                           us(row), e.us(bytes(row), row.num_ranks),
                           is_fit ? RowUse::kFit : RowUse::kJudged});
  }
  return result;
}

}  // namespace

std::vector<FittedDevice> fitted_exchanges() {
  std::vector<FittedDevice> devices;
  const auto add = [&](const char* device, const char* link, const NcclTable& table) {
    const Exchange e = fitted(table.rows[0], table.rows[2]);
    devices.push_back({.device = device,
                       .link = link,
                       .experts = {},
                       .exchange_us = e.start_us,
                       .exchange_us_per_peer = e.start_us_per_peer,
                       .exchange_tail = e.tail,
                       .link_gbps = e.gbps});
  };
  add("h200", "nvlink4", kH200);
  add("h100", "nvlink4", kH100);
  add("b200", "nvlink5", kB200);
  return devices;
}

std::vector<PublishedTable> published_exchanges() {
  std::vector<PublishedTable> tables = nccl_tables();
  tables.push_back(raw_nccl());
  for (const auto& more : {low_latency_tables(), over_nodes_tables()}) {
    tables.insert(tables.end(), more.begin(), more.end());
  }
  tables.push_back(one_sided(true));
  tables.push_back(one_sided(false));
  return tables;
}

}  // namespace colibri
