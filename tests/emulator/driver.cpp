// The driver's functions that launch, over the fake driver of tests/unit/cuda, which has the others.

#include <dlfcn.h>
#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/grid.hpp"
#include "emulator/tma.hpp"
#include "fake/fake_driver.hpp"

using unisono_emulator::Entry;

extern "C" fake::State* fake_state();

namespace {

int from_environment(const char* name, int otherwise) {
  const char* given = std::getenv(name);
  return given == nullptr ? otherwise : std::atoi(given);
}

[[maybe_unused]] const bool described = [] {
  fake_state()->gpus = 1;
  fake_state()->name = "emulated GPU";
  fake_state()->sms = from_environment("UNISONO_EMULATOR_SMS", 8);
  const int capability = from_environment("UNISONO_EMULATOR_CAPABILITY", 90);  // 86: compute capability 8.6
  fake_state()->major = capability / 10, fake_state()->minor = capability % 10;
  return true;
}();

struct Function {
  const Entry* entry = nullptr;
};
struct Module {
  void* library = nullptr;  // null: the empty kernel in PTX
  std::map<std::string, Function> functions;
};

// Launches are one after another, in whatever thread
std::recursive_mutex mutex;
// The fake driver's state, which its functions lock: after `mutex` where both are taken
using FakeLock = std::lock_guard<std::recursive_mutex>;

struct Graph;
struct Launch {
  unisono_emulator::LaunchShape shape;
  const Entry* entry;
  std::vector<std::vector<std::byte>> parameters;
  bool cooperative = false;
  bool dependent = false;                   // programmatically, on the launch ahead in its stream
  std::shared_ptr<const Graph> graph = {};  // it is no launch, but these
};
struct Edge {
  const Launch *from, *to;
  CUgraphEdgeData data;
};
struct Graph {
  std::vector<std::shared_ptr<Launch>> nodes;
  std::vector<Edge> edges;

  // An order that the edges allow: of what may run, what was added last
  std::vector<const Launch*> order() const {
    std::vector<const Launch*> done;
    const auto is_done = [&](const Launch* x) { return std::find(done.begin(), done.end(), x) != done.end(); };
    while (done.size() < nodes.size())
      for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
        const bool waits = std::any_of(edges.begin(), edges.end(),
                                       [&](const Edge& e) { return e.to == node->get() && !is_done(e.from); });
        if (waits || is_done(node->get())) continue;
        done.push_back(node->get());
        break;
      }
    return done;
  }
};
std::map<CUstream, Graph> captures;

unsigned next_seed() {
  static auto seed = static_cast<unsigned>(from_environment("UNISONO_EMULATOR_SEED", 1));
  return seed++;
}

CUresult perform_all(const Graph& graph);

CUresult perform(const Launch& launch, bool dependent) {
  if (launch.graph) return perform_all(*launch.graph);
  if (launch.entry == nullptr) return CUDA_SUCCESS;
  std::vector<void*> addresses;
  std::vector<std::unique_ptr<void, decltype(&std::free)>> copies;  // aligned as parameters may have to be
  for (const auto& bytes : launch.parameters) {
    copies.emplace_back(std::aligned_alloc(128, (bytes.size() + 127) / 128 * 128), &std::free);
    std::memcpy(copies.back().get(), bytes.data(), bytes.size());
    addresses.push_back(copies.back().get());
  }
  unisono_emulator::LaunchShape shape = launch.shape;
  shape.seed = next_seed(), shape.dependent = dependent;
  const FakeLock lock(fake_state()->mutex);  // nobody copies while memory is hidden
  const std::string error = unisono_emulator::run(shape, *launch.entry, addresses.data());
  if (error.empty()) return CUDA_SUCCESS;
  std::fprintf(stderr, "emulator: %s (UNISONO_EMULATOR_SEED=%u)\n", error.c_str(), shape.seed);
  return CUDA_ERROR_LAUNCH_FAILED;
}

CUresult perform_all(const Graph& graph) {
  const auto is_dependent = [&](const Launch* node) {
    return std::any_of(graph.edges.begin(), graph.edges.end(), [&](const Edge& edge) {
      return edge.to == node && edge.data.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    });
  };
  for (const Launch* node : graph.order())
    if (const CUresult result = perform(*node, is_dependent(node)); result != CUDA_SUCCESS) return result;
  return CUDA_SUCCESS;
}

CUresult submit(CUstream stream, Launch launch) {
  const std::lock_guard lock(mutex);
  if (const auto capture = captures.find(stream); capture != captures.end()) {
    auto node = std::make_shared<Launch>(std::move(launch));
    auto& [nodes, edges] = capture->second;
    CUgraphEdgeData data{};
    if (node->dependent)
      data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    if (!nodes.empty()) edges.push_back({nodes.back().get(), node.get(), data});
    nodes.push_back(std::move(node));
    return CUDA_SUCCESS;
  }
  return perform(launch, launch.dependent);
}

void set_attribute(Launch& launch, CUlaunchAttributeID id, const CUlaunchAttributeValue& value) {
  if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) launch.shape.cluster = value.clusterDim.x;
  if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
    launch.cooperative = value.cooperative != 0;
    launch.shape.together |= launch.cooperative;
  }
  if (id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
    launch.dependent = value.programmaticStreamSerializationAllowed != 0;
}

// Others have CTAs of up to 256 threads, one after the other
bool is_persistent(unsigned shared_bytes, unsigned threads) { return shared_bytes != 0 && threads > 256; }

// CTAs of an SM: as many as threads and shared memory leave room for, registers aside
unsigned most_of_sm(std::size_t threads, std::size_t shared_bytes) {
  constexpr std::size_t threads_of_sm = 2048, memory_of_sm = 228 << 10, reserved = 1024;
  return static_cast<unsigned>(std::min(threads_of_sm / threads, memory_of_sm / (shared_bytes + reserved)));
}

// Persistent kernels, one CTA an SM, and cooperative launches have all their CTAs at once
bool fits(const Launch& launch) {
  const unsigned each = launch.cooperative ? most_of_sm(launch.shape.cta.x, launch.shape.shared_bytes) : 1,
                 most = each * static_cast<unsigned>(fake_state()->sms);
  return !launch.shape.together ||
         (launch.shape.grid.x <= most && launch.shape.grid.x % launch.shape.cluster == 0 &&
          launch.shape.shared_bytes + unisono_emulator::reserved_bytes <= unisono_emulator::window_bytes);
}

Launch make_launch(CUfunction function, void** parameters) {
  Launch launch{.shape = {}, .entry = reinterpret_cast<const Function*>(function)->entry, .parameters = {}};
  for (std::size_t i = 0; launch.entry != nullptr && launch.entry->parameter_bytes[i] != 0; ++i) {
    const auto* bytes = static_cast<const std::byte*>(parameters[i]);
    launch.parameters.emplace_back(bytes, bytes + launch.entry->parameter_bytes[i]);
  }
  return launch;
}

std::size_t image_bytes(const void* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  return header.e_shoff + std::size_t{header.e_shentsize} * header.e_shnum;
}

// The tensor map that both kinds begin with
unisono_emulator::TensorMap base_map(CUtensorMapDataType type, cuuint32_t rank, void* address,
                                     const cuuint64_t* extents, const cuuint64_t* strides, const cuuint32_t* steps,
                                     CUtensorMapSwizzle swizzle) {
  unisono_emulator::TensorMap map{};
  map.base = reinterpret_cast<std::uint64_t>(address);
  map.rank = static_cast<std::uint8_t>(rank);
  map.element_bytes = type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32 ? 4 : 2;
  map.swizzle_bytes = swizzle == CU_TENSOR_MAP_SWIZZLE_128B  ? 128
                      : swizzle == CU_TENSOR_MAP_SWIZZLE_64B ? 64
                      : swizzle == CU_TENSOR_MAP_SWIZZLE_32B ? 32
                                                             : 0;
  map.valid = rank >= 1 && rank <= 5 && map.base % 16 == 0;
  for (cuuint32_t i = 0; i < rank && map.valid; ++i) {
    map.extents[i] = static_cast<std::uint32_t>(extents[i]), map.steps[i] = static_cast<std::uint8_t>(steps[i]);
    map.valid = extents[i] >= 1 && extents[i] <= 1ull << 32 && steps[i] >= 1 && steps[i] <= 8;
    if (i + 1 >= rank) continue;
    map.strides[i] = strides[i];
    map.valid = map.valid && strides[i] % 16 == 0 && strides[i] < 1ull << 40;
  }
  return map;
}

CUresult give(CUtensorMap* to, const unisono_emulator::TensorMap& map) {
  if (!map.valid) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(static_cast<void*>(to), &map, sizeof map);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuModuleLoadData(CUmodule* m, const void* image) {
  const std::lock_guard lock(mutex);
  auto module = std::make_unique<Module>();
  if (std::memcmp(image, ELFMAG, SELFMAG) == 0) {
    std::string path = (std::filesystem::temp_directory_path() / "unisono_emulator_XXXXXX")
                           .string();  // each by another name, or dlopen gives the first
    const int file = ::mkstemp(path.data());
    if (file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
    const auto bytes = image_bytes(image);
    const bool written = ::write(file, image, bytes) == static_cast<ssize_t>(bytes);
    ::close(file);
    if (written) module->library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    ::unlink(path.c_str());
    if (module->library == nullptr)
      return std::fprintf(stderr, "emulator: %s\n", ::dlerror()), CUDA_ERROR_INVALID_IMAGE;
  }
  *m = reinterpret_cast<CUmodule>(module.release());
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule m) {
  const std::lock_guard lock(mutex);
  auto* module = reinterpret_cast<Module*>(m);
  if (module->library != nullptr) ::dlclose(module->library);
  delete module;
  return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction* f, CUmodule m, const char* name) {
  const std::lock_guard lock(mutex);
  auto* module = reinterpret_cast<Module*>(m);
  Function& function = module->functions[name];
  if (module->library != nullptr)
    function.entry = static_cast<const Entry*>(::dlsym(module->library, (std::string(name) + "__entry").c_str()));
  if (module->library != nullptr && function.entry == nullptr) return CUDA_ERROR_NOT_FOUND;
  *f = reinterpret_cast<CUfunction>(&function);
  return CUDA_SUCCESS;
}
// For a kernel that is a part of the program: runtime/cuda_runtime.h
CUfunction unisono_emulated_function(const Entry* entry) { return reinterpret_cast<CUfunction>(new Function{entry}); }
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute, CUfunction) { return *value = 0, CUDA_SUCCESS; }
CUresult cuFuncGetParamInfo(CUfunction f, std::size_t index, std::size_t* offset, std::size_t* size) {
  const Entry* entry = reinterpret_cast<const Function*>(f)->entry;
  *offset = 0, *size = entry->parameter_bytes[0];
  return index == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction, const CUlaunchConfig* config) {
  *clusters = fake_state()->sms / static_cast<int>(config->attrs[0].value.clusterDim.x);
  return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* ctas, CUfunction, int threads, std::size_t shared_bytes) {
  return *ctas = static_cast<int>(most_of_sm(static_cast<std::size_t>(threads), shared_bytes)), CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap* to, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                const cuuint64_t* extents, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* steps, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  auto map = base_map(type, rank, address, extents, strides, steps, swizzle);
  for (cuuint32_t i = 0; i < rank && map.valid; ++i)
    map.box[i] = static_cast<std::uint16_t>(box[i]), map.valid = box[i] >= 1 && box[i] <= 256;
  const unsigned row = map.box[0] * map.element_bytes;
  map.valid = map.valid && row % 16 == 0 && (map.swizzle_bytes == 0 || row <= map.swizzle_bytes);
  return give(to, map);
}
CUresult cuTensorMapEncodeIm2col(CUtensorMap* to, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                 const cuuint64_t* extents, const cuuint64_t* strides, const int* lower,
                                 const int* upper, cuuint32_t channels, cuuint32_t pixels, const cuuint32_t* steps,
                                 CUtensorMapInterleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                                 CUtensorMapFloatOOBfill) {
  auto map = base_map(type, rank, address, extents, strides, steps, swizzle);
  map.im2col = true, map.channels = static_cast<std::uint16_t>(channels),
  map.pixels = static_cast<std::uint16_t>(pixels);
  const int reach = rank == 4 ? 128 : 16;  // as the driver's documentation has it
  for (cuuint32_t i = 0; i + 2 < rank && map.valid; ++i) {
    map.lower[i] = static_cast<std::int16_t>(lower[i]), map.upper[i] = static_cast<std::int16_t>(upper[i]);
    map.valid = lower[i] >= -reach && lower[i] < reach && upper[i] >= -reach && upper[i] < reach;
  }
  map.valid = map.valid && (rank == 4 || rank == 5) && channels >= 1 && channels <= 256 && pixels >= 1 &&
              pixels <= 1024 && (map.swizzle_bytes == 0 || channels * map.element_bytes <= map.swizzle_bytes);
  return give(to, map);
}

CUresult cuTensorMapReplaceAddress(CUtensorMap* to, void* address) {
  unisono_emulator::TensorMap map{};
  std::memcpy(&map, static_cast<const void*>(to), sizeof map);
  map.base = reinterpret_cast<std::uint64_t>(address);
  map.valid = map.valid && map.base % 16 == 0;
  return give(to, map);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** parameters, void**) {
  Launch launch = make_launch(f, parameters);
  launch.shape.grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
  launch.shape.cta = {config->blockDimX, config->blockDimY, config->blockDimZ};
  launch.shape.shared_bytes = config->sharedMemBytes;
  launch.shape.together = is_persistent(config->sharedMemBytes, config->blockDimX);
  for (unsigned i = 0; i < config->numAttrs; ++i) set_attribute(launch, config->attrs[i].id, config->attrs[i].value);
  if (!fits(launch)) return CUDA_ERROR_INVALID_VALUE;
  return submit(config->hStream, std::move(launch));
}
CUresult cuLaunchKernel(CUfunction f, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned, unsigned,
                        unsigned shared, CUstream stream, void** parameters, void**) {
  Launch launch = make_launch(f, parameters);
  launch.shape.grid = {x, y, z}, launch.shape.cta = {threads, 1, 1}, launch.shape.shared_bytes = shared;
  return submit(stream, std::move(launch));
}

CUresult cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode mode) {
  const std::lock_guard lock(mutex);
  const FakeLock fake_lock(fake_state()->mutex);
  fake::begin_capture(*fake_state(), s, mode);
  fake_state()->streams.at(s).graph = &(captures[s] = {});
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream s, CUgraph* graph) {
  const std::lock_guard lock(mutex);
  const FakeLock fake_lock(fake_state()->mutex);
  fake::end_capture(*fake_state(), s);
  *graph = reinterpret_cast<CUgraph>(new Graph(std::move(captures.at(s))));
  fake::copy_references(*fake_state(), &captures.at(s), *graph);
  fake::drop_references(*fake_state(), &captures.at(s));
  captures.erase(s);
  return CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* e, CUgraph g, unsigned long long) {
  const FakeLock lock(fake_state()->mutex);
  *e = reinterpret_cast<CUgraphExec>(new Graph(*reinterpret_cast<Graph*>(g)));
  fake::copy_references(*fake_state(), g, *e);
  return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec e, CUstream) {
  const std::lock_guard lock(mutex);
  return perform_all(*reinterpret_cast<const Graph*>(e));
}
CUresult cuGraphGetNodes(CUgraph g, CUgraphNode* nodes, std::size_t* count) {
  const auto& all = reinterpret_cast<Graph*>(g)->nodes;
  for (std::size_t i = 0; nodes != nullptr && i < std::min(*count, all.size()); ++i)
    nodes[i] = reinterpret_cast<CUgraphNode>(all[i].get());
  return *count = all.size(), CUDA_SUCCESS;
}
CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  const bool is_graph = reinterpret_cast<const Launch*>(node)->graph != nullptr;
  return *type = is_graph ? CU_GRAPH_NODE_TYPE_GRAPH : CU_GRAPH_NODE_TYPE_KERNEL, CUDA_SUCCESS;
}
CUresult cuGraphCreate(CUgraph* g, unsigned) { return *g = reinterpret_cast<CUgraph>(new Graph), CUDA_SUCCESS; }
CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph g, const CUgraphNode*, std::size_t dependencies,
                                 const CUDA_KERNEL_NODE_PARAMS* p) {
  if (dependencies != 0) return CUDA_ERROR_NOT_SUPPORTED;
  auto launch = std::make_shared<Launch>(make_launch(p->func, p->kernelParams));
  launch->shape.grid = {p->gridDimX, p->gridDimY, p->gridDimZ};
  launch->shape.cta = {p->blockDimX, p->blockDimY, p->blockDimZ};
  launch->shape.shared_bytes = p->sharedMemBytes;
  launch->shape.together = is_persistent(p->sharedMemBytes, p->blockDimX);
  *node = reinterpret_cast<CUgraphNode>(launch.get());
  reinterpret_cast<Graph*>(g)->nodes.push_back(std::move(launch));
  return CUDA_SUCCESS;
}
CUresult cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph g, const CUgraphNode*, std::size_t dependencies,
                                  CUgraph child) {
  if (dependencies != 0) return CUDA_ERROR_NOT_SUPPORTED;
  auto nodes = std::make_shared<Launch>(Launch{.shape = {}, .entry = nullptr, .parameters = {}});
  nodes->graph = std::make_shared<const Graph>(*reinterpret_cast<const Graph*>(child));
  *node = reinterpret_cast<CUgraphNode>(nodes.get());
  reinterpret_cast<Graph*>(g)->nodes.push_back(std::move(nodes));
  return CUDA_SUCCESS;
}
CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID id, const CUkernelNodeAttrValue* value) {
  if (id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
    return CUDA_ERROR_INVALID_VALUE;  // that is an edge's
  auto& launch = *reinterpret_cast<Launch*>(node);
  set_attribute(launch, id, *value);
  return fits(launch) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID id, CUkernelNodeAttrValue* value) {
  const auto& launch = *reinterpret_cast<const Launch*>(node);
  if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) value->clusterDim.x = launch.shape.cluster;
  if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) value->cooperative = launch.cooperative;
  return CUDA_SUCCESS;
}
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* p) {
  const auto& shape = reinterpret_cast<const Launch*>(node)->shape;
  p->gridDimX = shape.grid.x, p->blockDimX = shape.cta.x, p->sharedMemBytes = static_cast<unsigned>(shape.shared_bytes);
  return CUDA_SUCCESS;
}
CUresult cuGraphAddDependencies_v2(CUgraph g, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* data, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    reinterpret_cast<Graph*>(g)->edges.push_back(
        {reinterpret_cast<const Launch*>(from[i]), reinterpret_cast<const Launch*>(to[i]), data[i]});
  return CUDA_SUCCESS;
}
CUresult cuGraphGetEdges_v2(CUgraph g, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, std::size_t* count) {
  const auto& all = reinterpret_cast<Graph*>(g)->edges;
  for (std::size_t i = 0; from != nullptr && i < std::min(*count, all.size()); ++i) {
    from[i] = reinterpret_cast<CUgraphNode>(const_cast<Launch*>(all[i].from));
    to[i] = reinterpret_cast<CUgraphNode>(const_cast<Launch*>(all[i].to));
    data[i] = all[i].data;
  }
  return *count = all.size(), CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec e) {
  const FakeLock lock(fake_state()->mutex);
  fake::drop_references(*fake_state(), e);
  return delete reinterpret_cast<Graph*>(e), CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph g) {
  const FakeLock lock(fake_state()->mutex);
  fake::drop_references(*fake_state(), g);
  return delete reinterpret_cast<Graph*>(g), CUDA_SUCCESS;
}
}
