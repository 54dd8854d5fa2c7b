#include "coordinator/token_picker.h"

#include <gtest/gtest.h>

#include <limits>

#include "coordinator/logit_rules.h"
#include "tests/coordinator/token_picker_rig.h"
#include "tests/support/expect_error.h"

namespace colibri {
namespace {

constexpr int64_t kVocab = 1000;

class TokenPickerTest : public testing::Test {
 protected:
  ThreadPool pool_{{.num_threads = 2}};
  std::unique_ptr<Device> device_ = make_cpu_device(pool_);
  std::unique_ptr<Stream> stream_ = device_->make_stream();
  std::unique_ptr<Ops> ops_ = make_cpu_ops(Isa::kPortable);
  TokenPickerRig rig_{{device_.get(), stream_.get(), ops_.get(), &pool_}, kVocab};
};

TEST_F(TokenPickerTest, EveryRowHasTheTokenThatWasAskedFor) {
  for (uint64_t position = 0; position < 20; ++position) {
    const std::vector<LogitRow> rows = {drawn(40, position, kVocab), picked({}),
                                        drawn(0, position, kVocab)};
    const auto got = rig_.run(rows);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(got[i].id, sample(rig_.row(i), *rows[i].pick)) << i << " at " << position;
    }
  }
}

TEST_F(TokenPickerTest, RowsThatAreOnlyShownHaveNoToken) {
  const auto got = rig_.run({{.is_shown = true}, picked({})});
  EXPECT_EQ(got[0].id, -1);
  EXPECT_TRUE(std::equal(got[0].logits.begin(), got[0].logits.end(), rig_.row(0).begin()));
  EXPECT_EQ(got[1].id, sample(rig_.row(1), {}));
}

TEST_F(TokenPickerTest, RowsWithRulesArePickedOfWhatTheyMakeOfTheLogits) {
  LogitRules rules({.biases = {{3, 50.0f}}}, {}, {});
  LogitRow ruled = picked({});
  ruled.rules = &rules;
  const auto got = rig_.run({picked({}), ruled, drawn(40, 5, kVocab)});
  EXPECT_EQ(got[0].id, sample(rig_.row(0), {}));
  EXPECT_EQ(got[1].id, 3);
  EXPECT_EQ(got[2].id, sample(rig_.row(2), *drawn(40, 5, kVocab).pick));
}

TEST_F(TokenPickerTest, NotFiniteLogitsFailWhereATokenIsPicked) {
  rig_.logits[kVocab + 17] = std::numeric_limits<float>::infinity();
  EXPECT_ERROR(rig_.run({picked({}), picked({})}), kInput, "the logit of token 17 is inf");
  EXPECT_ERROR(rig_.run({picked({}), drawn(0, 1, kVocab)}), kInput, "token 17");
  EXPECT_EQ(rig_.run({picked({}), {.is_shown = true}}).size(), 2u);
}

}  // namespace
}  // namespace colibri
