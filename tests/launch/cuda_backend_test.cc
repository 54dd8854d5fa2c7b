// Opening libcolibri_cuda.so without one, and with files that only look like one.
#include "launch/cuda_backend.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/support/expect_error.h"
#include "tests/support/temp_dir.h"

namespace colibri {
namespace {

const std::string kMadeUp = std::string(COLIBRI_BINARY_DIR) + "/made_up_backends/";

TEST(CudaBackendTest, LibraryLiesBesideTheProgram) {
  EXPECT_EQ(cuda_library_path(), std::string(COLIBRI_BINARY_DIR) + "/libcolibri_cuda.so");
}

TEST(CudaBackendTest, VariableNamesAnother) {
  ::setenv("COLIBRI_CUDA_LIBRARY", "elsewhere/x.so", 1);
  const std::string path = cuda_library_path();
  ::unsetenv("COLIBRI_CUDA_LIBRARY");
  EXPECT_EQ(path, "elsewhere/x.so");
}

TEST(CudaBackendTest, MissingLibraryNamesItsPathAndTheOptionThatBuildsIt) {
  EXPECT_ERROR(open_cuda_backend("nowhere/libcolibri_cuda.so"), kUnsupported,
               "nowhere/libcolibri_cuda.so is not there; configure with -DCOLIBRI_CUDA=on");
}

TEST(CudaBackendTest, FileThatIsNoLibraryIsTheLoadersError) {
  const TempDir dir;
  const std::string path = dir / "x.so";
  std::ofstream(path) << "text";
  EXPECT_ERROR(open_cuda_backend(path), kUnsupported, "x.so cannot be loaded: ");
}

TEST(CudaBackendTest, LibraryWithoutTheSymbolIsNotOurs) {
  EXPECT_ERROR(open_cuda_backend(kMadeUp + "libno_symbol.so"), kUnsupported,
               "has no symbol colibri_cuda_backend");
}

TEST(CudaBackendTest, LibraryOfAnotherInterfaceNamesBothVersions) {
  EXPECT_ERROR(open_cuda_backend(kMadeUp + "libother_version.so"), kUnsupported,
               "is of colibri 9.9.9 (interface 4000000000, ");
}

}  // namespace
}  // namespace colibri
