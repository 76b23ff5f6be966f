#include "fake_driver.hpp"

#ifdef UNISONO_EMULATOR
#include <sys/mman.h>

#include "emulator/grid.hpp"
#endif

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

namespace {

fake::State& state() {
  static auto& s = *new fake::State;
  return s;
}

thread_local std::vector<CUcontext> contexts;
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

// Each function begins with this
struct Call {
  explicit Call(const char* name) : lock(state().mutex) { state().calls.emplace_back(name); }
  std::lock_guard<std::recursive_mutex> lock;
};

// Memory of the device. The emulator takes it away from kernels that have not waited for the launches ahead.
#ifdef UNISONO_EMULATOR
void* new_memory(std::size_t bytes) {
  void* memory =
      ::mmap(nullptr, std::max<std::size_t>(bytes, 1), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}
void delete_memory(void* memory, std::size_t bytes) {
  unisono_emulator::forget_writes(memory, bytes);
  ::munmap(memory, std::max<std::size_t>(bytes, 1));
}
#else
// Behind a range of a few bytes lies nothing: a large tensor that is said to be there shares no memory with others
void* new_memory(std::size_t bytes) {
  constexpr std::size_t small = 64, room = std::size_t{1} << 20;
  return std::aligned_alloc(256, (bytes + 255) / 256 * 256 + (bytes <= small ? room : 0));
}
void delete_memory(void* memory, std::size_t) { std::free(memory); }
#endif

// The allocation that has the address, or the larger range of which it is a part
const std::pair<const CUdeviceptr, std::size_t>* range_of(CUdeviceptr p) {
  for (const auto* ranges : {&state().chunks, &state().memory})
    for (const auto& range : *ranges)
      if (p >= range.first && p < range.first + range.second) return &range;
  return nullptr;
}

CUcontext primary(int device) { return reinterpret_cast<CUcontext>(0x1000 + static_cast<std::uintptr_t>(device)); }
bool has_context() { return !contexts.empty() && contexts.back() != nullptr; }
// A capture in global mode forbids allocations and synchronisation to all threads, unless they exchanged their mode
bool forbidden() { return state().captures > 0 && capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED; }

CUresult take(CUresult& next) {
  const CUresult result = next;
  next = CUDA_SUCCESS;
  return result;
}

bool is_memory(CUdeviceptr p) {
  const auto above = state().memory.upper_bound(p);
  if (above == state().memory.begin()) return false;
  const auto found = std::prev(above);
  return p < found->first + found->second;
}

#ifndef UNISONO_EMULATOR
struct Edge {
  CUgraphNode from, to;
  CUgraphEdgeData data;
};
struct Graph {
  std::vector<std::unique_ptr<fake::RecordedLaunch>> nodes;
  std::vector<Edge> edges;
};
struct Instance {};
#endif

}  // namespace

extern "C" {

CUresult cuGraphDestroy(CUgraph g);

__attribute__((visibility("default"))) fake::State* fake_state() { return &state(); }

CUresult cuInit(unsigned) {
  return std::getenv("UNISONO_FAKE_NO_GPU") != nullptr ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}
// NVIDIA's NVRTC asks any driver that it finds, and reads address 0 of one that lacks this
CUresult cuGetExportTable(const void** table, const void*) { return *table = nullptr, CUDA_ERROR_NOT_FOUND; }
CUresult cuDriverGetVersion(int* v) { return *v = 13000, CUDA_SUCCESS; }
CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = error == CUDA_ERROR_LAUNCH_FAILED     ? "CUDA_ERROR_LAUNCH_FAILED"
          : error == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : error == CUDA_ERROR_OUT_OF_MEMORY   ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == CUDA_ERROR_UNKNOWN         ? "CUDA_ERROR_UNKNOWN"
          : error == CUDA_ERROR_NO_DEVICE       ? "CUDA_ERROR_NO_DEVICE"
          : error == CUDA_ERROR_INVALID_VALUE   ? "CUDA_ERROR_INVALID_VALUE"
                                                : "CUDA_ERROR_OF_THE_FAKE";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) { return *text = "as the test asked", CUDA_SUCCESS; }

CUresult cuDeviceGetCount(int* n) { return *n = state().gpus, CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice* d, int i) { return *d = i, CUDA_SUCCESS; }
CUresult cuDeviceGetName(char* name, int size, CUdevice) {
  std::strncpy(name, state().name.c_str(), static_cast<std::size_t>(size));
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice) { return *bytes = std::size_t{141} << 30, CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice) {
  const fake::State& s = state();
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = s.major; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = s.minor; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = s.sms; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = 232448; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = s.l2_bytes; break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = s.clock_khz; break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = s.memory_clock_khz; break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = s.memory_bus_bits; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* c, CUdevice d) { return *c = primary(d), CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) {
  return *flags = 0, *active = state().context_active, CUDA_SUCCESS;
}
CUresult cuCtxGetId(CUcontext, unsigned long long* id) {
  if (!state().context_active) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return *id = state().context_id, CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext* c) {
  const Call call("get current");
  *c = contexts.empty() ? nullptr : contexts.back();
  return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent_v2(CUcontext c) { return Call("push"), contexts.push_back(c), CUDA_SUCCESS; }
CUresult cuCtxPopCurrent_v2(CUcontext* c) {
  const Call call("pop");
  if (contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *c = contexts.back();
  contexts.pop_back();
  return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize() {
  const Call call("synchronize");
  return forbidden() ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : take(state().next_context_synchronize);
}

#ifndef UNISONO_EMULATOR  // which runs kernels: tests/emulator
CUresult cuModuleLoadData(CUmodule* m, const void*) {
  const Call call("load");
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  *m = reinterpret_cast<CUmodule>(std::malloc(1));
  state().modules[*m] = 1;
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule m) {
  const Call call("unload");
  if (state().modules.erase(m) != 1) return CUDA_ERROR_INVALID_VALUE;
  std::free(m);
  return CUDA_SUCCESS;
}
// The name tells the empty kernel from others
CUresult cuModuleGetFunction(CUfunction* f, CUmodule, const char* name) {
  *f = reinterpret_cast<CUfunction>(std::string(name) == "unisono_empty" ? 0x20 : 0x10);
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute which, int value) {
  const Call call("set attribute");
  state().attributes.push_back((which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ? "shared " : "other ") +
                               std::to_string(value));
  return CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute, CUfunction) { return *value = 0, CUDA_SUCCESS; }
CUresult cuFuncGetParamInfo(CUfunction, std::size_t, std::size_t* offset, std::size_t* size) {
  return *offset = 0, *size = state().parameter_bytes, CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction f, const CUlaunchConfig* config) {
  const int size = static_cast<int>(config->attrs[0].value.clusterDim.x);
  *clusters = state().sms / size;
  if (f == reinterpret_cast<CUfunction>(0x10)) *clusters = std::min(*clusters, state().clusters_of_a_kernel);
  return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int, std::size_t) {
  return *blocks = state().clusters_of_a_kernel > 0, CUDA_SUCCESS;
}

// A map begins with the address that it is for
#ifndef UNISONO_FAKE_OLD
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void* address, const cuuint64_t*,
                                const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                                CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  std::memcpy(map, &address, sizeof address);
  return CUDA_SUCCESS;
}
#endif
CUresult cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void* address, const cuuint64_t*,
                                 const cuuint64_t*, const int*, const int*, cuuint32_t, cuuint32_t, const cuuint32_t*,
                                 CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                 CUtensorMapFloatOOBfill) {
  std::memcpy(map, &address, sizeof address);
  return CUDA_SUCCESS;
}

CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
  const Call call("move a map");
  std::memcpy(map, &address, sizeof address);
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction, void** parameters, void**) {
  const Call call("launch");
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  if (const CUresult result = take(state().next_launch); result != CUDA_SUCCESS) return result;
  fake::RecordedLaunch launch{.stream = config->hStream,
                              .context = contexts.back(),
                              .grid = config->gridDimX,
                              .block = config->blockDimX,
                              .shared = config->sharedMemBytes,
                              .parameters = std::vector<std::byte>(state().parameter_bytes)};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      launch.cluster = static_cast<int>(config->attrs[i].value.clusterDim.x);
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
      launch.cooperative = config->attrs[i].value.cooperative != 0;
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      launch.dependent = config->attrs[i].value.programmaticStreamSerializationAllowed != 0;
  }
  std::memcpy(launch.parameters.data(), parameters[0], launch.parameters.size());
  state().launches.push_back(std::move(launch));
  return CUDA_SUCCESS;
}
#endif

CUresult cuMemAlloc_v2(CUdeviceptr* p, std::size_t bytes) {
  const Call call("alloc");
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  if (forbidden()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (const CUresult result = take(state().next_alloc); result != CUDA_SUCCESS) return result;
  void* const memory = new_memory(bytes);
  if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *p = reinterpret_cast<CUdeviceptr>(memory);
  std::memset(reinterpret_cast<void*>(*p), 0xcd, bytes);
  state().memory[*p] = bytes;
  return CUDA_SUCCESS;
}
CUresult cuMemFree_v2(CUdeviceptr p) {
  const Call call("free");
  if (forbidden()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const auto found = state().memory.find(p);
  if (found == state().memory.end()) return CUDA_ERROR_INVALID_VALUE;
  delete_memory(reinterpret_cast<void*>(p), found->second);
  state().memory.erase(found);
  return CUDA_SUCCESS;
}
CUresult cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  const Call call("alloc for the host");
  if (forbidden()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return *memory == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
CUresult cuMemFreeHost(void* memory) { return Call("free of the host"), std::free(memory), CUDA_SUCCESS; }
CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  const Call call("ask for free memory");
  *free = *total = std::size_t{1} << 37;
  for (const auto& [address, bytes] : state().memory) *free -= bytes;
  return CUDA_SUCCESS;
}
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return Call("copy"), std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes), CUDA_SUCCESS;
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream) {
  return cuMemcpy(to, from, bytes);
}
CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char value, std::size_t bytes, CUstream) {
  return Call("set"), std::memset(reinterpret_cast<void*>(p), value, bytes), CUDA_SUCCESS;
}
CUresult cuPointerGetAttribute(void* value, CUpointer_attribute which, CUdeviceptr p) {
  const Call call("ask for a pointer");
  if (!has_context()) return CUDA_ERROR_INVALID_CONTEXT;
  const auto foreign = state().foreign.find(p);
  if (!is_memory(p) && foreign == state().foreign.end()) return CUDA_ERROR_INVALID_VALUE;
  if (which == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR || which == CU_POINTER_ATTRIBUTE_RANGE_SIZE) {
    const auto* range = range_of(p);
    if (range == nullptr || !state().knows_ranges) return CUDA_ERROR_NOT_SUPPORTED;
    const std::uint64_t number =
        which == CU_POINTER_ATTRIBUTE_RANGE_SIZE ? range->second : static_cast<std::uint64_t>(range->first);
    return std::memcpy(value, &number, sizeof number), CUDA_SUCCESS;
  }
  unsigned answer = 0;
  if (which == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) answer = CU_MEMORYTYPE_DEVICE;
  if (which == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL && foreign != state().foreign.end())
    answer = static_cast<unsigned>(foreign->second);
  std::memcpy(value, &answer, sizeof answer);
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* s, unsigned flags) {
  const Call call("make a stream");
  *s = reinterpret_cast<CUstream>(std::malloc(1));
  state().streams[*s] = {.id = state().next_stream_id++, .blocking = (flags & CU_STREAM_NON_BLOCKING) == 0};
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy_v2(CUstream s) {
  const Call call("destroy a stream");
#ifndef UNISONO_EMULATOR
  // a capture that never ended goes with its stream
  if (const auto x = state().streams.find(s); x != state().streams.end() && x->second.graph != nullptr)
    cuGraphDestroy(static_cast<CUgraph>(const_cast<void*>(x->second.graph)));
#endif
  state().streams.erase(s);
  std::free(s);
  return CUDA_SUCCESS;
}
CUresult cuStreamQuery(CUstream) { return CUDA_SUCCESS; }
CUresult cuStreamSynchronize(CUstream) {
  const Call call("synchronize a stream");
  if (forbidden()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return take(state().next_synchronize);
}
CUresult cuStreamGetId(CUstream s, unsigned long long* id) {
  const Call call("ask for a stream");
  *id = s == nullptr ? 1 : state().streams.at(s).id;
  return CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus* status) {
  const Call call("ask for a capture");
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (s == nullptr || s == CU_STREAM_LEGACY) {
    for (const auto& [stream, x] : state().streams)
      if (x.capturing && x.blocking) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    return CUDA_SUCCESS;
  }
  const auto& stream = state().streams.at(s);
  if (stream.capturing)
    *status = stream.invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}
CUresult cuStreamGetCaptureInfo_v2(CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                   const CUgraphNode**, std::size_t*) {
  if (const CUresult result = cuStreamIsCapturing(s, status); result != CUDA_SUCCESS) return result;
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  const auto& stream = state().streams.at(s);
  *id = stream.id, *graph = static_cast<CUgraph>(const_cast<void*>(stream.graph));
  return CUDA_SUCCESS;
}

CUresult cuUserObjectCreate(CUuserObject* object, void* data, CUhostFn destroy, unsigned references, unsigned flags) {
  const Call call("make a user object");
  if (flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) return CUDA_ERROR_INVALID_VALUE;
  *object = reinterpret_cast<CUuserObject>(new fake::UserObject{destroy, data, references});
  return ++state().user_objects, CUDA_SUCCESS;
}
CUresult cuUserObjectRelease(CUuserObject object, unsigned count) {
  const Call call("release a user object");
  for (; count > 0; --count) fake::release(state(), reinterpret_cast<fake::UserObject*>(object));
  return CUDA_SUCCESS;
}
CUresult cuGraphRetainUserObject(CUgraph g, CUuserObject object, unsigned count, unsigned flags) {
  const Call call("retain a user object");
  if (const CUresult result = take(state().next_retain); result != CUDA_SUCCESS) return result;
  if (count != 1 || flags != CU_GRAPH_USER_OBJECT_MOVE) return CUDA_ERROR_NOT_SUPPORTED;
  state().retained[g].push_back(reinterpret_cast<fake::UserObject*>(object));
  return CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return std::swap(*mode, capture_mode), CUDA_SUCCESS;
}
#ifndef UNISONO_EMULATOR
CUresult cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode mode) {
  const Call call("begin a capture");
  fake::begin_capture(state(), s, mode);
  state().streams.at(s).graph = new Graph;
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream s, CUgraph* graph) {
  const Call call("end a capture");
  fake::end_capture(state(), s);
  *graph = static_cast<CUgraph>(const_cast<void*>(std::exchange(state().streams.at(s).graph, nullptr)));
  return CUDA_SUCCESS;
}
#endif

// An event is the host's time: whatever was launched before it is done
using Clock = std::chrono::steady_clock;
CUresult cuEventCreate(CUevent* e, unsigned) {
  return *e = reinterpret_cast<CUevent>(new Clock::time_point), CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent e, CUstream) {
  return *reinterpret_cast<Clock::time_point*>(e) = Clock::now(), CUDA_SUCCESS;
}
CUresult cuEventSynchronize(CUevent) { return Call("wait for an event"), CUDA_SUCCESS; }
CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned) { return Call("hold a stream"), CUDA_SUCCESS; }
CUresult cuEventDestroy_v2(CUevent e) { return delete reinterpret_cast<Clock::time_point*>(e), CUDA_SUCCESS; }
CUresult cuEventElapsedTime(float* milliseconds, CUevent first, CUevent last) {
  const auto time = *reinterpret_cast<Clock::time_point*>(last) - *reinterpret_cast<Clock::time_point*>(first);
  return *milliseconds = std::chrono::duration<float, std::milli>(time).count(), CUDA_SUCCESS;
}

// The tests do not use these
#ifndef UNISONO_EMULATOR
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                        void**, void**) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

// Graphs are kept as they are made, and run nothing
CUresult cuGraphCreate(CUgraph* g, unsigned) { return *g = reinterpret_cast<CUgraph>(new Graph), CUDA_SUCCESS; }
CUresult cuGraphDestroy(CUgraph g) {
  const Call call("destroy a graph");
  fake::drop_references(state(), g);
  return delete reinterpret_cast<Graph*>(g), CUDA_SUCCESS;
}
CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph g, const CUgraphNode*, std::size_t dependencies,
                                 const CUDA_KERNEL_NODE_PARAMS* p) {
  if (dependencies != 0) return CUDA_ERROR_NOT_SUPPORTED;
  auto launch = std::make_unique<fake::RecordedLaunch>();
  launch->grid = p->gridDimX, launch->block = p->blockDimX, launch->shared = p->sharedMemBytes;
  *node = reinterpret_cast<CUgraphNode>(launch.get());
  reinterpret_cast<Graph*>(g)->nodes.push_back(std::move(launch));
  return CUDA_SUCCESS;
}
CUresult cuGraphAddChildGraphNode(CUgraphNode*, CUgraph, const CUgraphNode*, std::size_t, CUgraph) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID id, const CUkernelNodeAttrValue* value) {
  auto& launch = *reinterpret_cast<fake::RecordedLaunch*>(node);
  if (id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) return CUDA_ERROR_INVALID_VALUE;
  if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) launch.cluster = static_cast<int>(value->clusterDim.x);
  if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) launch.cooperative = value->cooperative != 0;
  return CUDA_SUCCESS;
}
CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID id, CUkernelNodeAttrValue* value) {
  const auto& launch = *reinterpret_cast<const fake::RecordedLaunch*>(node);
  if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) value->clusterDim.x = static_cast<unsigned>(launch.cluster);
  if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) value->cooperative = launch.cooperative ? 1 : 0;
  return CUDA_SUCCESS;
}
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* p) {
  const auto& launch = *reinterpret_cast<const fake::RecordedLaunch*>(node);
  p->gridDimX = launch.grid, p->blockDimX = launch.block, p->sharedMemBytes = launch.shared;
  return CUDA_SUCCESS;
}
CUresult cuGraphGetNodes(CUgraph g, CUgraphNode* nodes, std::size_t* count) {
  const auto& all = reinterpret_cast<Graph*>(g)->nodes;
  for (std::size_t i = 0; nodes != nullptr && i < std::min(*count, all.size()); ++i)
    nodes[i] = reinterpret_cast<CUgraphNode>(all[i].get());
  return *count = all.size(), CUDA_SUCCESS;
}
CUresult cuGraphNodeGetType(CUgraphNode, CUgraphNodeType* type) {
  return *type = CU_GRAPH_NODE_TYPE_KERNEL, CUDA_SUCCESS;
}
#ifndef UNISONO_FAKE_OLD
CUresult cuGraphAddDependencies_v2(CUgraph g, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* data, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) reinterpret_cast<Graph*>(g)->edges.push_back({from[i], to[i], data[i]});
  return CUDA_SUCCESS;
}
CUresult cuGraphGetEdges_v2(CUgraph g, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, std::size_t* count) {
  const auto& all = reinterpret_cast<Graph*>(g)->edges;
  for (std::size_t i = 0; from != nullptr && i < std::min(*count, all.size()); ++i)
    from[i] = all[i].from, to[i] = all[i].to, data[i] = all[i].data;
  return *count = all.size(), CUDA_SUCCESS;
}
#endif
CUresult cuGraphInstantiateWithFlags(CUgraphExec* e, CUgraph g, unsigned long long) {
  const Call call("instantiate a graph");
  *e = reinterpret_cast<CUgraphExec>(new Instance);
  return fake::copy_references(state(), g, *e), CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec, CUstream) { return Call("launch a graph"), CUDA_SUCCESS; }
CUresult cuGraphExecDestroy(CUgraphExec e) {
  const Call call("destroy an instance of a graph");
  fake::drop_references(state(), e);
  return delete reinterpret_cast<Instance*>(e), CUDA_SUCCESS;
}
#endif
}
