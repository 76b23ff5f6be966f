// cuDNN's bare convolution through its backend interface: every engine that its heuristic proposes is timed.
#include <cudnn.h>

#include <map>

#include "probe.h"

namespace {

struct Descriptor {
  cudnnBackendDescriptor_t handle = nullptr;
  explicit Descriptor(cudnnBackendDescriptorType_t type) { cudnnBackendCreateDescriptor(type, &handle); }
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() { cudnnBackendDestroyDescriptor(handle); }
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                  const void* values) {
    const auto status = cudnnBackendSetAttribute(handle, name, type, count, values);
    if (status != CUDNN_STATUS_SUCCESS) std::printf("cuDNN attribute %d: %s\n", int(name), cudnnGetErrorString(status));
    return *this;
  }
  bool finalize() { return cudnnBackendFinalize(handle) == CUDNN_STATUS_SUCCESS; }
};
using Shared = std::shared_ptr<Descriptor>;

Shared tensor(int64_t id, cudnnDataType_t type, int64_t n, int64_t c, int64_t h, int64_t w) {
  auto d = std::make_shared<Descriptor>(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const int64_t dims[4] = {n, c, h, w}, strides[4] = {h * w * c, 1, w * c, c}, alignment = 16;
  d->set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims)
      .set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides)
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
  d->finalize();
  return d;
}

struct Plan {
  Shared plan;
  int64_t workspace_bytes = 0;
  std::string tag;
};

cudnnHandle_t handle() {
  static cudnnHandle_t h = [] {
    cudnnHandle_t x;
    cudnnCreate(&x);
    return x;
  }();
  return h;
}

void* workspace(size_t bytes) {
  static void* memory = nullptr;
  static size_t held = 0;
  if (bytes > held) CHECK_CUDA(cudaMalloc(&memory, held = bytes));  // the smaller one stays: plans may hold it
  return memory;
}

cudaError_t execute(const Plan& plan, const Operands& o, void* scratch, cudaStream_t stream) {
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  const int64_t ids[3] = {'x', 'w', 'y'};
  void* data[3] = {o.x, o.w, o.y};
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, ids)
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, data)
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &scratch);
  pack.finalize();
  cudnnSetStream(handle(), stream);
  return cudnnBackendExecute(handle(), plan.plan->handle, pack.handle) == CUDNN_STATUS_SUCCESS ? cudaSuccess
                                                                                               : cudaErrorUnknown;
}

std::vector<Plan> proposals(const ConvShape& p, Type type) {
  const cudnnDataType_t element = type == Type::kBf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF,
                        compute = CUDNN_DATA_FLOAT;
  auto x = tensor('x', element, p.n, p.c, p.h, p.w), w = tensor('w', element, p.k, p.c, p.r, p.s),
       y = tensor('y', element, p.n, p.k, p.p(), p.q());
  Descriptor conv(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  const int64_t two = 2, stride[2] = {p.stride, p.stride}, pad[2] = {p.pad, p.pad},
                dilation[2] = {p.dilation, p.dilation};
  conv.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &two)
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, stride)
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, pad)
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, pad)
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilation);
  conv.finalize();
  Descriptor operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  const float one = 1, zero = 0;
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &conv.handle)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x->handle)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &w->handle)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y->handle)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &one)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &zero);
  operation.finalize();
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  cudnnHandle_t h = handle();
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &operation.handle)
      .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &h);
  if (!graph.finalize()) return {};
  std::vector<Plan> plans;
  for (cudnnBackendHeurMode_t heuristic : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    Descriptor heur(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heur.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph.handle)
        .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &heuristic);
    if (!heur.finalize()) continue;
    int64_t count = 0;
    cudnnBackendGetAttribute(heur.handle, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count,
                             nullptr);
    count = std::min<int64_t>(count, 16);
    std::vector<Shared> configs;
    std::vector<cudnnBackendDescriptor_t> handles;
    for (int64_t i = 0; i < count; ++i)
      configs.push_back(std::make_shared<Descriptor>(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)),
          handles.push_back(configs.back()->handle);
    int64_t got = 0;
    cudnnBackendGetAttribute(heur.handle, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &got,
                             handles.data());
    for (int64_t i = 0; i < got; ++i) {
      Plan plan{std::make_shared<Descriptor>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)};
      plan.plan->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &h)
          .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &handles[i]);
      if (!plan.plan->finalize()) continue;
      int64_t one_value = 0;
      cudnnBackendGetAttribute(plan.plan->handle, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                               &one_value, &plan.workspace_bytes);
      plan.tag = "config " + std::to_string(i) + (heuristic == CUDNN_HEUR_MODE_A ? "" : " fallback");
      if (plan.workspace_bytes <= (int64_t(256) << 20)) plans.push_back(plan);
    }
    if (!plans.empty()) break;
  }
  return plans;
}

}  // namespace

Launch prepare_cudnn(const ConvShape& p, const Operands& o, Type type, std::string& chosen) {
  static std::map<std::string, Plan> cache;
  const std::string key = p.name() + (type == Type::kBf16 ? "b" : "h");
  if (!cache.count(key)) {
    float best = 1e30f;
    cudaStream_t stream;
    cudaEvent_t start, stop;
    CHECK_CUDA(cudaStreamCreate(&stream));
    CHECK_CUDA(cudaEventCreate(&start));
    CHECK_CUDA(cudaEventCreate(&stop));
    for (const Plan& plan : proposals(p, type)) {
      void* scratch = workspace(plan.workspace_bytes);
      if (execute(plan, o, scratch, stream) != cudaSuccess || execute(plan, o, scratch, stream) != cudaSuccess)
        continue;
      CHECK_CUDA(cudaEventRecord(start, stream));
      for (int i = 0; i < 5; ++i) execute(plan, o, scratch, stream);
      CHECK_CUDA(cudaEventRecord(stop, stream));
      CHECK_CUDA(cudaEventSynchronize(stop));
      float ms;
      CHECK_CUDA(cudaEventElapsedTime(&ms, start, stop));
      if (ms < best) best = ms, cache[key] = plan;
    }
    CHECK_CUDA(cudaStreamDestroy(stream));
  }
  if (!cache.count(key)) return nullptr;
  const Plan plan = cache[key];
  chosen = plan.tag;
  void* scratch = workspace(plan.workspace_bytes);
  return [plan, o, scratch](cudaStream_t stream) { return execute(plan, o, scratch, stream); };
}
