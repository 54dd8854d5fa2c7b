#include "tests/topology/published.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "topology/catalogue.h"

namespace colibri {
namespace {

const char* to_string(RowUse use) {
  switch (use) {
    case RowUse::kFit:
      return "fit";
    case RowUse::kJudged:
      return "judged";
    case RowUse::kShown:
      return "shown";
  }
  return "";
}

std::vector<double> judged_errors(const std::vector<PublishedTable>& tables) {
  std::vector<double> errors;
  for (const PublishedTable& table : tables) {
    for (const PublishedRow& row : table.rows) {
      if (row.use == RowUse::kJudged) errors.push_back(std::abs(row.error()));
    }
  }
  std::sort(errors.begin(), errors.end());
  return errors;
}

// COLIBRI_PRINT_TABLES=1 shows every row (docs/placement.md).
void print(const std::vector<PublishedTable>& tables) {
  if (std::getenv("COLIBRI_PRINT_TABLES") == nullptr) return;
  for (const PublishedTable& table : tables) {
    const std::vector<double> errors = judged_errors({table});
    std::printf("\n**%s.** Source: %s. Constants: %s.", table.name.c_str(), table.source.c_str(),
                table.constants.c_str());
    if (!errors.empty()) {
      std::printf(" Judged: %zu rows, median %.1f %%, worst %.1f %%.", errors.size(),
                  100 * errors[errors.size() / 2], 100 * errors.back());
    }
    std::printf("\n\n| row | published us | predicted us | error | |\n|---|---:|---:|---:|---|\n");
    for (const PublishedRow& row : table.rows) {
      std::printf("| %s | %.1f | %.1f | %+.1f %% | %s |\n", row.what.c_str(), row.published_us,
                  row.predicted_us, 100 * row.error(), to_string(row.use));
    }
  }
}

void expect_within_bounds(const std::vector<PublishedTable>& tables, size_t at_least) {
  print(tables);
  const std::vector<double> errors = judged_errors(tables);
  ASSERT_GE(errors.size(), at_least);
  EXPECT_LE(errors[errors.size() / 2], 0.10);
  for (const PublishedTable& table : tables) {
    for (const PublishedRow& row : table.rows) {
      if (row.use != RowUse::kJudged) continue;
      EXPECT_LE(std::abs(row.error()), 0.25) << table.name << ": " << row.what;
    }
  }
}

TEST(PublishedTest, ExpertsAndAttentionAreWithinTheBounds) {
  expect_within_bounds(published_experts(), 50);
}

TEST(PublishedTest, ExchangesAreWithinTheBounds) {
  expect_within_bounds(published_exchanges(), 90);
}

// Three percent for links: H100 and H200 share one link of the catalogue.
TEST(PublishedTest, TheCatalogueHasTheFittedNumbers) {
  const Catalogue& catalogue = builtin_catalogue();
  for (const FittedDevice& fitted : fitted_experts()) {
    const OpCost& cost = catalogue.devices.at(fitted.device).cost(OpKind::kExperts, true);
    EXPECT_NEAR(cost.fixed_us / fitted.experts.fixed_us, 1, 0.02) << fitted.device;
    EXPECT_NEAR(cost.gbps / fitted.experts.gbps, 1, 0.02) << fitted.device;
    EXPECT_NEAR(cost.gops / fitted.experts.gops, 1, 0.02) << fitted.device;
  }
  for (const FittedDevice& fitted : fitted_exchanges()) {
    const DeviceSpec& device = catalogue.devices.at(fitted.device);
    EXPECT_NEAR(device.exchange_us / fitted.exchange_us, 1, 0.02) << fitted.device;
    EXPECT_NEAR(device.exchange_us_per_peer / fitted.exchange_us_per_peer, 1, 0.02);
    EXPECT_NEAR(device.exchange_tail, fitted.exchange_tail, 0.02) << fitted.device;
    EXPECT_NEAR(catalogue.links.at(fitted.link).gbps / fitted.link_gbps, 1, 0.03);
  }
}

}  // namespace
}  // namespace colibri
