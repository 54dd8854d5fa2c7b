#include "launch/cuda_backend.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>
#include <string_view>

#include "base/env.h"
#include "base/error.h"
#include "launch/run_config.h"

namespace colibri {
namespace {

constexpr char kFileName[] = "libcolibri_cuda.so";

void check_fits(const CudaBackend& backend, const std::string& path) {
  const bool fits = backend.abi == kCudaBackendAbi && backend.struct_bytes == sizeof(CudaBackend) &&
                    std::string_view(backend.version) == kVersion;
  if (fits) return;
  fail(ErrorKind::kUnsupported, path, " is of colibri ", backend.version, " (interface ",
       backend.abi, ", ", backend.struct_bytes, " bytes), this program is ", kVersion,
       " (interface ", kCudaBackendAbi, ", ", sizeof(CudaBackend), " bytes); build both together");
}

// Where the program lies, or the library that this code is part of.
std::filesystem::path own_folder() {
  Dl_info info = {};
  link_map* object = nullptr;
  const int found = dladdr1(reinterpret_cast<void*>(&cuda_library_path), &info,
                            reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP);
  // The program itself has no name there.
  if (found != 0 && object != nullptr && object->l_name[0] != '\0') {
    return std::filesystem::absolute(object->l_name).parent_path();
  }
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    fail(ErrorKind::kEnvironment, "/proc/self/exe: ", error.message(),
         "; COLIBRI_CUDA_LIBRARY can name ", kFileName);
  }
  return program.parent_path();
}

}  // namespace

std::string cuda_library_path() {
  if (const auto named = read_env("COLIBRI_CUDA_LIBRARY")) return *named;
  const std::filesystem::path folder = own_folder();
  const std::filesystem::path beside = folder / kFileName;
  const std::filesystem::path installed = folder.parent_path() / "lib" / kFileName;
  std::error_code error;
  const bool is_installed =
      !std::filesystem::exists(beside, error) && std::filesystem::exists(installed, error);
  return (is_installed ? installed : beside).string();
}

const CudaBackend& open_cuda_backend(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    fail(ErrorKind::kUnsupported, "--device cuda: this build has no GPU part: ", path,
         " is not there; configure with -DCOLIBRI_CUDA=on (cmake --preset cuda) and build");
  }
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fail(ErrorKind::kUnsupported, "--device cuda: ", path, " cannot be loaded: ", dlerror());
  }
  using Entry = const CudaBackend* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, kCudaBackendSymbol));
  if (entry == nullptr) {
    fail(ErrorKind::kUnsupported, "--device cuda: ", path, " is not colibri's: it has no symbol ",
         kCudaBackendSymbol);
  }
  const CudaBackend& backend = *entry();
  check_fits(backend, path);
  return backend;
}

}  // namespace colibri
