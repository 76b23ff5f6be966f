#include "runtime/cuda/gpu.hpp"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "plan/products.hpp"
#include "runtime/cuda/driver_version.hpp"
#include "support/environment.hpp"
#include "unisono/error.hpp"

namespace unisono::cuda {

namespace {

int attribute(CUdevice device, CUdevice_attribute which, const char* what) {
  int value = 0;
  check(driver().cuDeviceGetAttribute(&value, which, device), fmt::format("asking the GPU for its {}", what));
  return value;
}

// An empty kernel. How many clusters of it fit at once, each CTA with all of an SM's shared memory, is
// what fits of the real ones.
constexpr const char* empty_kernel = R"(
.version 7.8
.target sm_90
.address_size 64
.visible .entry unisono_empty() { ret; }
)";

// Largest number of CTAs that are resident at once in clusters of `size`.
int resident_ctas(CUfunction kernel, int size, std::size_t shared_bytes) {
  CUlaunchAttribute cluster{};
  cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster.value.clusterDim.x = static_cast<unsigned>(size);
  cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1;
  CUlaunchConfig config{};
  config.gridDimX = static_cast<unsigned>(size) * 32;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 384;
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = static_cast<unsigned>(shared_bytes);
  config.attrs = &cluster;
  config.numAttrs = 1;
  int clusters = 0;
  check(driver().cuOccupancyMaxActiveClusters(&clusters, kernel, &config),
        fmt::format("asking how many clusters of {} CTAs fit on the GPU", size));
  return clusters * size;
}

void measure_residency(plan::Device& device) {
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  check(driver().cuModuleLoadData(&module, empty_kernel), "loading a kernel that measures occupancy");
  check(driver().cuModuleGetFunction(&kernel, module, "unisono_empty"), "finding a kernel that measures occupancy");
  check(driver().cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                    static_cast<int>(device.shared_bytes)),
        "allowing all shared memory");
  for (std::size_t size = 1; size < device.resident_ctas.size(); ++size)
    device.resident_ctas[size] =
        size == 1 ? device.sms : resident_ctas(kernel, static_cast<int>(size), device.shared_bytes);
  driver().cuModuleUnload(module);
}

std::string driver_version() {
  int version = 0;
  check(driver().cuDriverGetVersion(&version), "asking for the driver's version");
  return driver_text(kernel_module_version(), version);
}

plan::Device describe(CUdevice handle) {
  plan::DeviceAttributes a;
  char name[256] = "unknown GPU";
  check(driver().cuDeviceGetName(name, sizeof name, handle), "asking the GPU for its name");
  a.name = name;
  a.major = attribute(handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, "compute capability");
  a.minor = attribute(handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, "compute capability");
  a.sms = attribute(handle, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, "number of SMs");
  a.shared_bytes = static_cast<std::size_t>(
      attribute(handle, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, "shared memory"));
  a.l2_bytes = static_cast<std::size_t>(attribute(handle, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, "L2"));
  a.clock_khz = attribute(handle, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, "clock");
  a.memory_clock_khz = attribute(handle, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, "memory's clock");
  a.memory_bus_bits = attribute(handle, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, "memory's bus");
  plan::Device device = plan::described(a);
  device.driver = driver_version();
  const auto as = support::planned_as();
  return as ? plan::planned_as(device, *as) : device;
}

std::unique_ptr<const Gpu> open(int index) {
  int count = 0;
  check(driver().cuDeviceGetCount(&count), "counting GPUs");
  if (index < 0 || index >= count)
    throw UserError(fmt::format("CompileOptions::device_index is {}; this machine has {} GPU{}, expected {}", index,
                                count, count == 1 ? "" : "s",
                                count == 0   ? "Device::cpu"
                                : count == 1 ? "0"
                                             : fmt::format("0 to {}", count - 1)));
  auto g = std::make_unique<Gpu>();
  g->index = index;
  check(driver().cuDeviceGet(&g->handle, index), "opening the GPU");
  g->device = describe(g->handle);
  if (g->device.major * 10 + g->device.minor < 75)
    throw Unsupported(
        fmt::format("GPU {} is a {} of compute capability {}.{}; the kernels are for 7.5 and later. Use another GPU "
                    "(CompileOptions::device_index), or Device::cpu",
                    index, g->device.name, g->device.major, g->device.minor));
  check(driver().cuDevicePrimaryCtxRetain(&g->context, g->handle), "retaining the GPU's primary context");
  check(driver().cuCtxGetId(g->context, &g->context_id), "asking for the number of the GPU's context");
  const Current current(*g);
  const BesideCapture beside;
  check(driver().cuStreamCreate(&g->helper, CU_STREAM_NON_BLOCKING), "making a stream");
  if (g->device.has_clusters()) measure_residency(g->device);
  return g;
}

// Whether the primary context is the one that was retained: a reset ends it, and a later use makes another
bool is_reset(const Gpu& gpu) {
  unsigned flags = 0;
  int active = 0;
  unsigned long long id = 0;
  if (driver().cuDevicePrimaryCtxGetState(gpu.handle, &flags, &active) != CUDA_SUCCESS || active == 0) return true;
  return driver().cuCtxGetId(gpu.context, &id) != CUDA_SUCCESS || id != gpu.context_id;
}

}  // namespace

void check_alive(const Gpu& gpu) {
  check_not_forked();
  if (is_reset(gpu))
    throw DeviceError(
        fmt::format("the context of GPU {} ({}) was reset after it was first used here (cudaDeviceReset, or "
                    "cuDevicePrimaryCtxReset), and with it went all that was compiled and allocated: do not reset a "
                    "GPU in use, or end the process",
                    gpu.index, gpu.device.name));
}

Leaving::Leaving(const Gpu& gpu) {
  // A driver that has been shut down refuses the context, too
  pushed_ = !is_forked() && !is_reset(gpu) && driver().cuCtxPushCurrent_v2(gpu.context) == CUDA_SUCCESS;
}

Leaving::~Leaving() {
  CUcontext popped = nullptr;
  if (pushed_) driver().cuCtxPopCurrent_v2(&popped);
}

const Gpu& gpu(int index) {
  check_not_forked();
  static std::mutex mutex;
  static auto& opened = *new std::map<int, std::unique_ptr<const Gpu>>;  // outlives every static executable
  const std::lock_guard lock(mutex);
  auto found = opened.find(index);
  if (found == opened.end()) found = opened.emplace(index, open(index)).first;
  return *found->second;
}

Memory::Memory(const Gpu& gpu, std::size_t bytes, const std::string& what) : gpu_(&gpu), bytes_(bytes) {
  if (bytes == 0) return;
  check_alive(gpu);
  const Current current(gpu);
  const BesideCapture beside;
  if (const CUresult result = driver().cuMemAlloc_v2(&address_, bytes); result != CUDA_SUCCESS)
    check(result, fmt::format("allocating {} bytes of GPU memory for {}", bytes, what));
  gpu.held.add(bytes);
}

Memory& Memory::operator=(Memory&& other) noexcept {
  if (this == &other) return *this;
  release();
  gpu_ = std::exchange(other.gpu_, nullptr);
  address_ = std::exchange(other.address_, 0);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void Memory::release() {
  if (address_ == 0) return;
  gpu_->held.now -= bytes_;
  const CUdeviceptr address = std::exchange(address_, 0);
  const Leaving leaving(*gpu_);
  if (!leaving) return;
  const BesideCapture beside;
  driver().cuMemFree_v2(address);
}

void Memory::zero() {
  if (bytes_ == 0) return;
  const Current current(*gpu_);
  const BesideCapture beside;
  check(driver().cuMemsetD8Async(address_, 0, bytes_, gpu_->helper), "clearing GPU memory");
  check(driver().cuStreamSynchronize(gpu_->helper), "clearing GPU memory");
}

void Memory::upload(const void* source) {
  if (bytes_ == 0) return;
  const Current current(*gpu_);
  const BesideCapture beside;
  check(driver().cuMemcpyAsync(address_, reinterpret_cast<CUdeviceptr>(source), bytes_, gpu_->helper),
        "copying to GPU memory");
  check(driver().cuStreamSynchronize(gpu_->helper), "copying to GPU memory");
}

}  // namespace unisono::cuda
