#include "base/env.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>

#include "tests/support/expect_error.h"

namespace colibri {
namespace {

using Texts = std::vector<std::string>;

TEST(EnvTest, EveryVariableIsDescribedAndSorted) {
  const auto all = env_variables();
  ASSERT_FALSE(all.empty());
  for (const EnvVariable& variable : all) {
    EXPECT_TRUE(variable.name.starts_with("COLIBRI_")) << variable.name;
    EXPECT_FALSE(variable.values.empty() || variable.default_value.empty() || variable.help.empty())
        << variable.name;
  }
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(),
                             [](const auto& a, const auto& b) { return a.name < b.name; }));
}

TEST(EnvTest, ValueIsReadAndEmptyCountsAsUnset) {
  ::setenv("COLIBRI_ISA", "avx2", 1);
  EXPECT_EQ(read_env("COLIBRI_ISA"), "avx2");
  ::setenv("COLIBRI_ISA", "", 1);
  EXPECT_EQ(read_env("COLIBRI_ISA"), std::nullopt);
  ::unsetenv("COLIBRI_ISA");
  EXPECT_EQ(read_env("COLIBRI_ISA"), std::nullopt);
}

TEST(EnvTest, ReadingAVariableThatIsNotListedIsABug) {
  EXPECT_ERROR(read_env("COLIBRI_SECRET"), kInternal, "COLIBRI_SECRET");
}

TEST(EnvTest, FlagsHaveVariables) {
  EXPECT_EQ(env_name_of_flag("--max-tokens"), "COLIBRI_MAX_TOKENS");
  EXPECT_EQ(env_name_of_flag("kv-dtype"), "COLIBRI_KV_DTYPE");
  EXPECT_EQ(env_name_of_flag("-p"), "COLIBRI_P");
  EXPECT_EQ(env_name_of_flag("--"), "COLIBRI_");
}

TEST(EnvTest, UnknownVariablesAreListedInOrder) {
  const Texts environment = {
      "PATH=x",   "COLIBRI_THREAD=2", "COLIBRI_ISA=avx2", "COLIBRI_THREADS=2",
      "COLIBRI_", "colibri_x=1",      "COLIBRI_ALPHA=a=b"};
  EXPECT_EQ(unknown_env_variables(environment, Texts{"--threads"}),
            (Texts{"COLIBRI_", "COLIBRI_ALPHA", "COLIBRI_THREAD"}));
}

TEST(EnvTest, CurrentEnvironmentHoldsWhatIsSet) {
  ::setenv("COLIBRI_ISA", "portable", 1);
  const Texts environment = current_environment();
  ::unsetenv("COLIBRI_ISA");
  EXPECT_EQ(std::count(environment.begin(), environment.end(), "COLIBRI_ISA=portable"), 1);
}

}  // namespace
}  // namespace colibri
