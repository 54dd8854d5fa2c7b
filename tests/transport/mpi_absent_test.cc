// A build without MPI.
#include <gtest/gtest.h>

#include "base/error.h"
#include "transport/mpi_transport.h"

namespace colibri {
namespace {

TEST(MpiAbsentTest, StartNamesTheOptionThatBuildsIt) {
  EXPECT_FALSE(has_mpi());
  try {
    make_mpi_transport({});
    FAIL() << "started";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("-DCOLIBRI_MPI=on"), std::string::npos);
  }
}

}  // namespace
}  // namespace colibri
