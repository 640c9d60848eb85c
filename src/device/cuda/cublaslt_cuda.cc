// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/cublaslt.h"

#include <algorithm>
#include <cstdlib>
#include <system_error>

namespace fovea {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The folders in a folder, sorted; none where it cannot be read.
std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->is_directory(error)) found.push_back(at->path());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

std::vector<std::string> cublaslt_files(const std::string& name, const fs::path& folder) {
  if (const auto named = variable("FOVEA_CUBLASLT_LIBRARY"); !named.empty()) return {named};
  std::vector<std::string> files{name};
  std::error_code error;
  const auto add = [&](const fs::path& file) {
    if (fs::exists(file, error)) files.push_back(file.string());
  };
  for (const char* toolkit : {"CUDA_HOME", "CUDA_PATH"})
    if (const auto home = variable(toolkit); !home.empty()) add(fs::path(home) / "lib64" / name);
  add(fs::path("/usr/local/cuda/lib64") / name);
  const auto add_wheels = [&](const fs::path& packages) {
    for (const fs::path& wheel : folders_in(packages / "nvidia")) add(wheel / "lib" / name);
  };
  // Not beside any folder above: of some, such as /tmp, everybody may write what lies there.
  for (fs::path at = folder; at.has_relative_path(); at = at.parent_path())
    if (at.filename() == "site-packages" || at.filename() == "dist-packages") add_wheels(at);
  if (const auto venv = variable("VIRTUAL_ENV"); !venv.empty())
    for (const fs::path& python : folders_in(fs::path(venv) / "lib"))
      add_wheels(python / "site-packages");
  return files;
}

}  // namespace fovea

#if defined(FOVEA_EMULATE)

bool fovea::has_cublaslt() { return false; }

#else

#include <cublasLt.h>
#include <dlfcn.h>

namespace fovea {
namespace {

void* open_cublaslt() {
  const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  Dl_info own{};
  fs::path folder;
  if (dladdr(reinterpret_cast<const void*>(&open_cublaslt), &own) != 0 &&
      own.dli_fname != nullptr) {
    std::error_code error;
    folder = fs::absolute(own.dli_fname, error).parent_path();
  }
  for (const std::string& file : cublaslt_files(name, folder))
    if (void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

void* cublaslt() {
  static void* const library = open_cublaslt();  // stays open: kernels refer to it
  return library;
}

// The library's own function of this name and type, looked for once; null where there is none.
template <auto kDeclared>
decltype(kDeclared) function(const char* name) {
  static const auto found = reinterpret_cast<decltype(kDeclared)>(
      cublaslt() == nullptr ? nullptr : dlsym(cublaslt(), name));
  return found;
}

template <auto kDeclared, class... Args>
cublasStatus_t call(const char* name, Args... args) {
  const auto found = function<kDeclared>(name);
  return found == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : found(args...);
}

}  // namespace

bool has_cublaslt() { return cublaslt() != nullptr; }

}  // namespace fovea

// The functions that ops/matmul_lt_cuda.cu calls, in place of those that the linker would name.
using fovea::call;

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return call<&cublasLtCreate>("cublasLtCreate", handle);
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return call<&cublasLtDestroy>("cublasLtDestroy", handle);
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  const auto found = fovea::function<&cublasLtGetStatusString>("cublasLtGetStatusString");
  return found == nullptr ? "the library was not found" : found(status);
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* way,
                              void* workspace, size_t bytes, cudaStream_t stream) {
  return call<&cublasLtMatmul>("cublasLtMatmul", handle, product, alpha, a, a_layout, b, b_layout,
                               beta, c, c_layout, d, d_layout, way, workspace, bytes, stream);
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* way,
                                       cublasLtMatmulHeuristicResult_t* result) {
  return call<&cublasLtMatmulAlgoCheck>("cublasLtMatmulAlgoCheck", handle, product, a, b, c, d, way,
                                        result);
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t wish, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  return call<&cublasLtMatmulAlgoGetHeuristic>("cublasLtMatmulAlgoGetHeuristic", handle, product, a,
                                               b, c, d, wish, wanted, results, found);
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return call<&cublasLtMatmulDescCreate>("cublasLtMatmulDescCreate", product, compute, scale);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  return call<&cublasLtMatmulDescDestroy>("cublasLtMatmulDescDestroy", product);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t what, const void* from,
                                              size_t bytes) {
  return call<&cublasLtMatmulDescSetAttribute>("cublasLtMatmulDescSetAttribute", product, what,
                                               from, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* wish) {
  return call<&cublasLtMatmulPreferenceCreate>("cublasLtMatmulPreferenceCreate", wish);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t wish) {
  return call<&cublasLtMatmulPreferenceDestroy>("cublasLtMatmulPreferenceDestroy", wish);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t wish,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void* from, size_t bytes) {
  return call<&cublasLtMatmulPreferenceSetAttribute>("cublasLtMatmulPreferenceSetAttribute", wish,
                                                     what, from, bytes);
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t cols, int64_t stride) {
  return call<&cublasLtMatrixLayoutCreate>("cublasLtMatrixLayoutCreate", layout, type, rows, cols,
                                           stride);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return call<&cublasLtMatrixLayoutDestroy>("cublasLtMatrixLayoutDestroy", layout);
}

#endif
