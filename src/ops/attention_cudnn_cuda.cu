// SPDX-License-Identifier: Apache-2.0
// cuDNN's graph of one operation, scaled dot product attention (9.13 or later):
//   O [1][heads][queries][dim] = softmax(scale Q K') V, by strides where each of them lies.
#include "ops/attention_cudnn_cuda.h"

#if !defined(FOVEA_EMULATE) && __has_include(<cudnn_graph.h>)

#include <cudnn_graph.h>
#include <dlfcn.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace fovea {
namespace {

// The functions of the library that are used.
struct CudnnLibrary {
  std::string reason;  // why it is not there; empty where it is
  decltype(&cudnnCreate) create = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;
  decltype(&cudnnGetErrorString) error_string = nullptr;
  decltype(&cudnnGetLastErrorString) last_error = nullptr;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;
  decltype(&cudnnBackendSetAttribute) set_attribute = nullptr;
  decltype(&cudnnBackendGetAttribute) get_attribute = nullptr;
  decltype(&cudnnBackendExecute) execute = nullptr;

  std::string text_of(cudnnStatus_t status) const {
    std::array<char, 512> more{};
    last_error(more.data(), more.size());
    return std::string(error_string(status)) + (more[0] != 0 ? ": " : "") + more.data();
  }
};

void open_library(CudnnLibrary& library) {
  void* opened = nullptr;
  for (const char* name :
       {"libcudnn.so.9", "libcudnn_graph.so.9", "/usr/local/cuda/lib64/libcudnn.so.9",
        "/usr/local/cuda/lib64/libcudnn_graph.so.9"})
    if (opened = dlopen(name, RTLD_NOW | RTLD_LOCAL); opened != nullptr) break;
  if (opened == nullptr) {
    library.reason = std::string("cuDNN 9 is not on this machine: ") + dlerror();
    return;
  }
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(opened, name));
    if (function == nullptr) library.reason = std::string("cuDNN has no function ") + name;
  };
  find(library.create, "cudnnCreate");
  find(library.set_stream, "cudnnSetStream");
  find(library.error_string, "cudnnGetErrorString");
  find(library.last_error, "cudnnGetLastErrorString");
  find(library.create_descriptor, "cudnnBackendCreateDescriptor");
  find(library.destroy_descriptor, "cudnnBackendDestroyDescriptor");
  find(library.finalize, "cudnnBackendFinalize");
  find(library.set_attribute, "cudnnBackendSetAttribute");
  find(library.get_attribute, "cudnnBackendGetAttribute");
  find(library.execute, "cudnnBackendExecute");
}

const CudnnLibrary& cudnn_library() {
  static const CudnnLibrary library = [] {
    CudnnLibrary found;
    open_library(found);
    return found;
  }();
  return library;
}

// Descriptors that live together. After the first failure, whose reason stays, nothing is done.
class CudnnWork {
 public:
  explicit CudnnWork(const CudnnLibrary& library) : library_(library) {}
  CudnnWork(const CudnnWork&) = delete;
  CudnnWork& operator=(const CudnnWork&) = delete;
  ~CudnnWork() {
    for (auto made = made_.rbegin(); made != made_.rend(); ++made)
      library_.destroy_descriptor(*made);
  }

  cudnnBackendDescriptor_t make(cudnnBackendDescriptorType_t type, const char* what) {
    cudnnBackendDescriptor_t made = nullptr;
    if (!reason.empty()) return made;
    check(library_.create_descriptor(type, &made), what);
    if (made != nullptr) made_.push_back(made);
    return made;
  }
  template <class T>
  void set(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
           cudnnBackendAttributeType_t type, const std::vector<T>& values) {
    if (!reason.empty()) return;
    check(
        library_.set_attribute(of, name, type, static_cast<int64_t>(values.size()), values.data()),
        "an attribute");
  }
  void set(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
           cudnnBackendDescriptor_t part) {
    set<cudnnBackendDescriptor_t>(of, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, {part});
  }
  void finalize(cudnnBackendDescriptor_t what_is_made, const char* what) {
    if (reason.empty()) check(library_.finalize(what_is_made), what);
  }
  void check(cudnnStatus_t status, const char* what) {
    if (status != CUDNN_STATUS_SUCCESS && reason.empty())
      reason = std::string("cuDNN refuses ") + what + ": " + library_.text_of(status);
  }

  std::string reason;

 private:
  const CudnnLibrary& library_;
  std::vector<cudnnBackendDescriptor_t> made_;
};

enum CudnnTensor : int64_t { kTensorQ = 1, kTensorK, kTensorV, kTensorO, kTensorScale };

cudnnBackendDescriptor_t describe_tensor(CudnnWork& work, CudnnTensor id, cudnnDataType_t type,
                                         const std::vector<int64_t>& dims,
                                         const std::vector<int64_t>& strides) {
  const auto tensor = work.make(CUDNN_BACKEND_TENSOR_DESCRIPTOR, "a tensor");
  const bool by_value = id == kTensorScale;
  work.set<int64_t>(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, {id});
  work.set<cudnnDataType_t>(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, {type});
  work.set(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, dims);
  work.set(tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides);
  work.set<int64_t>(tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, {16});
  work.set<char>(tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN,
                 {static_cast<char>(by_value)});
  work.finalize(tensor, "a tensor");
  return tensor;
}

struct CudnnShape {
  int device;
  int64_t heads, kv_heads, head_dim, queries, keys, capacity, q_stride, out_stride;
  auto operator<=>(const CudnnShape&) const = default;
};

cudnnBackendDescriptor_t describe_attention(CudnnWork& work, const CudnnShape& s) {
  const auto rows = [&](CudnnTensor id, int64_t stride) {
    return describe_tensor(work, id, CUDNN_DATA_BFLOAT16, {1, s.heads, s.queries, s.head_dim},
                           {s.queries * stride, s.head_dim, stride, 1});
  };
  const auto memory = [&](CudnnTensor id) {
    const int64_t head = s.capacity * s.head_dim;
    return describe_tensor(work, id, CUDNN_DATA_BFLOAT16, {1, s.kv_heads, s.keys, s.head_dim},
                           {s.kv_heads * head, head, s.head_dim, 1});
  };
  const auto operation =
      work.make(CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR, "attention as one operation");
  work.set(operation, CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, rows(kTensorQ, s.q_stride));
  work.set(operation, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, memory(kTensorK));
  work.set(operation, CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, memory(kTensorV));
  work.set(operation, CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, rows(kTensorO, s.out_stride));
  work.set(operation, CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC,
           describe_tensor(work, kTensorScale, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}));
  work.finalize(operation, "attention of this shape");
  const auto graph = work.make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "a graph");
  work.set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  return graph;
}

struct CudnnPlan {
  explicit CudnnPlan(const CudnnLibrary& library) : work(library) {}
  CudnnWork work;
  cudnnBackendDescriptor_t plan = nullptr;
  int64_t workspace_bytes = 0;
};

// The first plan that cuDNN proposes and can build.
void make_plan(const CudnnLibrary& library, cudnnHandle_t handle, const CudnnShape& shape,
               CudnnPlan& made) {
  CudnnWork& work = made.work;
  const auto graph = describe_attention(work, shape);
  work.set<cudnnHandle_t>(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, {handle});
  work.finalize(graph, "a graph");
  const auto proposer = work.make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "proposals");
  work.set(proposer, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  work.set<cudnnBackendHeurMode_t>(proposer, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE,
                                   {CUDNN_HEUR_MODE_A});
  work.finalize(proposer, "proposals");
  constexpr int kMostProposals = 8;
  std::vector<cudnnBackendDescriptor_t> proposals;
  for (int i = 0; i < kMostProposals; ++i)
    proposals.push_back(work.make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "a proposal"));
  if (!work.reason.empty()) return;
  int64_t count = 0;
  work.check(
      library.get_attribute(proposer, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                            kMostProposals, &count, proposals.data()),
      "to propose");
  std::string last = "cuDNN proposes nothing for attention of this shape";
  for (int64_t i = 0; i < count && work.reason.empty(); ++i) {
    const auto plan = work.make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "a plan");
    work.set<cudnnHandle_t>(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, {handle});
    work.set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, proposals[static_cast<size_t>(i)]);
    work.finalize(plan, "a plan");
    int64_t values = 0;
    if (work.reason.empty())
      work.check(library.get_attribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                       CUDNN_TYPE_INT64, 1, &values, &made.workspace_bytes),
                 "to tell its workspace");
    if (work.reason.empty()) {
      made.plan = plan;
      return;
    }
    last = std::exchange(work.reason, {});  // the next one, perhaps
  }
  if (work.reason.empty()) work.reason = last;
}

// The handles and plans of this process. One call at a time: a handle is not shared by threads.
class CudnnPlans {
 public:
  static CudnnPlans& all() {
    static CudnnPlans* plans = new CudnnPlans;  // outlives the driver's own end
    return *plans;
  }

  std::mutex mutex;

  Result<cudnnHandle_t> handle_of(int device) {
    const CudnnLibrary& library = cudnn_library();
    if (!library.reason.empty()) return failed(library.reason);
    cudnnHandle_t& handle = handles_[device];
    if (handle != nullptr) return handle;
    const cudnnStatus_t status = library.create(&handle);
    if (status == CUDNN_STATUS_SUCCESS) return handle;
    handle = nullptr;
    return failed("cuDNN does not start: " + library.text_of(status));
  }

  const CudnnPlan* find(const CudnnShape& shape) const {
    const auto found = plans_.find(shape);
    return found == plans_.end() ? nullptr : found->second.get();
  }
  const CudnnPlan& make(cudnnHandle_t handle, const CudnnShape& shape) {
    auto made = std::make_unique<CudnnPlan>(cudnn_library());
    make_plan(cudnn_library(), handle, shape, *made);
    return *(plans_[shape] = std::move(made));
  }

 private:
  std::map<int, cudnnHandle_t> handles_;
  std::map<CudnnShape, std::unique_ptr<CudnnPlan>> plans_;  // those that failed too
};

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &status) == cudaSuccess &&
         status != cudaStreamCaptureStatusNone;
}

}  // namespace

bool cudnn_attention_available() {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return false;
  CudnnPlans& plans = CudnnPlans::all();
  const std::lock_guard lock(plans.mutex);
  return static_cast<bool>(plans.handle_of(device));
}

Status attention_cudnn(cudaStream_t stream, const AttentionShape& shape,
                       const AttentionSequence& sequence, const bf16* q, int64_t q_stride,
                       bf16* out, int64_t out_stride, AttentionWorkspace& workspace) {
  CudnnShape key{.device = 0,
                 .heads = shape.heads,
                 .kv_heads = shape.kv_heads,
                 .head_dim = shape.head_dim,
                 .queries = sequence.q_count,
                 .keys = sequence.key_count,
                 .capacity = sequence.capacity,
                 .q_stride = q_stride,
                 .out_stride = out_stride};
  if (const cudaError_t error = cudaGetDevice(&key.device); error != cudaSuccess)
    return cuda_error("the device", error);
  CudnnPlans& plans = CudnnPlans::all();
  const std::lock_guard lock(plans.mutex);
  const auto handle = plans.handle_of(key.device);
  if (!handle) return handle.error();
  const CudnnPlan* plan = plans.find(key);
  if (plan == nullptr) {
    if (is_captured(stream)) return failed("cuDNN makes no plan while a graph is captured");
    plan = &plans.make(*handle, key);
  }
  if (plan->plan == nullptr) return failed(plan->work.reason);
  if (static_cast<size_t>(plan->workspace_bytes) > workspace.part_floats() * sizeof(float))
    return failed("cuDNN wants a workspace of " + std::to_string(plan->workspace_bytes) + " bytes");

  const CudnnLibrary& library = cudnn_library();
  CudnnWork call(library);
  float scale = shape.scale;
  const auto pack = call.make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "pointers");
  const int64_t rows_at = sequence.q_begin;
  call.set<int64_t>(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
                    {kTensorQ, kTensorK, kTensorV, kTensorO, kTensorScale});
  call.set<const void*>(
      pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
      {q + rows_at * q_stride, sequence.keys, sequence.values, out + rows_at * out_stride, &scale});
  call.set<void*>(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
                  {workspace.parts()});
  call.finalize(pack, "pointers");
  if (call.reason.empty()) call.check(library.set_stream(*handle, stream), "the stream");
  if (call.reason.empty()) call.check(library.execute(*handle, plan->plan, pack), "to run");
  return call.reason.empty() ? Status(Done{}) : Status(failed(call.reason));
}

}  // namespace fovea

#else

namespace fovea {

bool cudnn_attention_available() { return false; }

Status attention_cudnn(cudaStream_t /*stream*/, const AttentionShape& /*shape*/,
                       const AttentionSequence& /*sequence*/, const bf16* /*q*/,
                       int64_t /*q_stride*/, bf16* /*out*/, int64_t /*out_stride*/,
                       AttentionWorkspace& /*workspace*/) {
  return failed("this build is without cuDNN");
}

}  // namespace fovea

#endif
