#include <gtest/gtest.h>

// The comparison itself is toolkit_contract.cc, which does not compile where the two differ.
TEST(Toolkit, SaysTheSameAsTheSimulatedDevicesHeaders) {
  const char* const reason = COLIBRI_TOOLKIT_MISSING;
  if (*reason != '\0') GTEST_SKIP() << reason;
}
