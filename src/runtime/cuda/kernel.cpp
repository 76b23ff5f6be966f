#include "runtime/cuda/kernel.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <utility>

#include "families/interface/family.hpp"
#include "unisono/error.hpp"

namespace unisono::cuda {

Module::Module(const Gpu& gpu, std::span<const std::byte> cubin, const std::string& entry) : gpu_(gpu) {
  const Current current(gpu);
  const BesideCapture beside;
  // the message takes memory, which may be missing: none is made once there is a module
  if (const CUresult result = driver().cuModuleLoadData(&module_, cubin.data()); result != CUDA_SUCCESS)
    check(result, "loading the kernel " + entry);
  if (const CUresult result = driver().cuModuleGetFunction(&function_, module_, entry.c_str());
      result != CUDA_SUCCESS) {
    driver().cuModuleUnload(module_);
    check(result, "finding the kernel " + entry);
  }
}

Module::~Module() {
  if (module_ == nullptr) return;
  const Leaving leaving(gpu_);
  if (!leaving) return;
  const BesideCapture beside;
  // A launch may still run. If that is not known, the module stays: code must not go from under a kernel, and in a
  // context that is broken nothing can be given back.
  if (const CUresult result = driver().cuCtxSynchronize(); result != CUDA_SUCCESS) {
    const char* name = nullptr;
    driver().cuGetErrorName(result, &name);
    static std::atomic_flag said;  // once in a process, without an allocation
    if (!said.test_and_set())
      std::fprintf(stderr, "unisono: kernels stay loaded on GPU %d: waiting for a last launch failed with %s\n",
                   gpu_.index, name != nullptr ? name : "an error that the driver has no name for");
    return;
  }
  driver().cuModuleUnload(module_);
}

std::shared_ptr<const Module> load(const Gpu& gpu, const jit::Binary& binary, const std::string& entry) {
  static std::mutex mutex;
  static auto& loaded = *new std::map<std::pair<int, std::string>, std::weak_ptr<const Module>>;
  const std::lock_guard lock(mutex);
  std::weak_ptr<const Module>& place = loaded[{gpu.index, binary.key}];
  if (auto module = place.lock()) return module;
  auto module = std::make_shared<const Module>(gpu, binary.cubin, entry);
  if (!binary.key.empty()) place = module;
  return module;
}

namespace {

void allow(CUfunction function, CUfunction_attribute which, int value, const char* what) {
  int now = 0;
  check(driver().cuFuncGetAttribute(&now, which, function), what);
  if (now < value) check(driver().cuFuncSetAttribute(function, which, value), what);
}

}  // namespace

void allow_shared(CUfunction function, std::size_t bytes) {
  allow(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(bytes),
        "allowing the kernel its shared memory");
}

Kernel::Kernel(std::shared_ptr<const Module> module, const families::Plan& plan, std::size_t parameter_bytes)
    : module_(std::move(module)), function_(module_->function()) {
  const Current current(gpu());
  const int cluster = plan.cluster;
  allow_shared(function_, plan.shared_bytes);
  if (cluster > 8)
    allow(function_, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1, "allowing the kernel its clusters");
  unsigned count = 0;
  if (cluster > 1) {
    attributes_[count].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attributes_[count].value.clusterDim.x = static_cast<unsigned>(cluster);
    attributes_[count].value.clusterDim.y = attributes_[count].value.clusterDim.z = 1;
    ++count;
  }
  if (plan.cooperative) {
    attributes_[count].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attributes_[count].value.cooperative = 1;
    ++count;
  }
  // Its CTAs may start, and wait, while the launch ahead in the stream ends: kernels wait before they touch memory
  if (gpu().device.has_dependent_launches()) {
    attributes_[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attributes_[count].value.programmaticStreamSerializationAllowed = 1;
    ++count;
  }
  config_.gridDimX = static_cast<unsigned>(plan.ctas);
  config_.blockDimX = static_cast<unsigned>(plan.threads);
  config_.gridDimY = config_.gridDimZ = config_.blockDimY = config_.blockDimZ = 1;
  config_.sharedMemBytes = static_cast<unsigned>(plan.shared_bytes);
  config_.attrs = attributes_;
  config_.numAttrs = count;
  if (plan.cooperative) check_residency(plan);
  check_parameters(parameter_bytes);
}

void Kernel::check_residency(const families::Plan& plan) const {
  const int cluster = plan.cluster;
  int fit = 0;
  if (cluster > 1) {
    check(driver().cuOccupancyMaxActiveClusters(&fit, function_, &config_), "asking how many clusters fit");
    fit *= cluster;
  } else {
    check(driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(&fit, function_, plan.threads, plan.shared_bytes),
          "asking how many CTAs fit");
    fit *= gpu().device.sms;
  }
  if (fit < plan.ctas)
    throw DeviceError(
        fmt::format("{}: {} CTAs exchange statistics while they run, so all must be resident at once, but only {} fit "
                    "on the {}; does another process hold a part of it (MPS)?",
                    families::describe(plan), plan.ctas, fit, gpu().device.name));
}

// What the kernel declares must be what is handed to it: the driver copies as many bytes as the kernel says.
void Kernel::check_parameters(std::size_t bytes) const {
  std::size_t offset = 0, declared = 0;
  if (driver().cuFuncGetParamInfo == nullptr) return;  // a driver older than CUDA 12.4
  check(driver().cuFuncGetParamInfo(function_, 0, &offset, &declared), "asking for the kernel's parameter");
  if (declared != bytes)
    throw InternalError(fmt::format("the kernel takes a parameter of {} bytes, and {} were prepared", declared, bytes));
}

}  // namespace unisono::cuda
