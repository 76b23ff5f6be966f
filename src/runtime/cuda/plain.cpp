#include "runtime/cuda/plain.hpp"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/common/executable_impl.hpp"
#include "runtime/cuda/encode.hpp"
#include "runtime/cuda/kernel.hpp"
#include "unisono/error.hpp"

namespace unisono::cuda {

class PlainKernel {
 public:
  PlainKernel(const Gpu& gpu, const jit::Binary& binary, const std::string& entry, std::size_t parameter_bytes)
      : module_(gpu, binary.cubin, entry) {
    std::size_t offset = 0, declared = 0;
    const Current current(gpu);
    if (driver().cuFuncGetParamInfo == nullptr) return;  // a driver older than CUDA 12.4
    check(driver().cuFuncGetParamInfo(module_.function(), 0, &offset, &declared), "asking for the kernel's parameter");
    if (declared != parameter_bytes)
      throw InternalError(fmt::format("the kernel {} takes a parameter of {} bytes, and {} are prepared", entry,
                                      declared, parameter_bytes));
  }
  void encode(std::span<const families::Parameter::Map> maps, std::span<std::byte> parameters) const {
    const Current current(module_.gpu());
    encode_maps(maps, parameters);
  }
  void allow(const PlainGrid& grid) const {
    const Current current(module_.gpu());
    allow_shared(module_.function(), grid.shared_bytes);
  }
  CUresult launch(const PlainGrid& grid, const void* parameters, CUstream stream) const {
    const Current current(module_.gpu());
    void* list[] = {const_cast<void*>(parameters)};
    Attributes all = attributes(grid);
    CUlaunchConfig config{};
    config.gridDimX = grid.ctas, config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = grid.threads, config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = grid.shared_bytes;
    config.hStream = stream;
    config.attrs = all.list, config.numAttrs = all.count;
    return driver().cuLaunchKernelEx(&config, module_.function(), list, nullptr);
  }
  NodeForm form(const PlainGrid& grid, const void* parameters) const {
    const Attributes all = attributes(grid);
    return {module_.function(), grid.ctas,  grid.threads,
            grid.shared_bytes,  parameters, {all.list, all.list + all.count}};
  }

 private:
  struct Attributes {
    CUlaunchAttribute list[2] = {};
    unsigned count = 0;
  };
  Attributes attributes(const PlainGrid& grid) const {
    Attributes all;
    if (grid.cluster > 1) {
      CUlaunchAttribute& cluster = all.list[all.count++];
      cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
      cluster.value.clusterDim.x = grid.cluster;
      cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1;
    }
    // The kernel waits for the launches ahead before it touches memory
    if (module_.gpu().device.has_dependent_launches()) {
      CUlaunchAttribute& ahead = all.list[all.count++];
      ahead.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
      ahead.value.programmaticStreamSerializationAllowed = 1;
    }
    return all;
  }
  Module module_;
};

namespace {

class PlainLaunch final : public LaunchImpl {
 public:
  PlainLaunch(std::shared_ptr<const PlainKernel> kernel, PlainGrid grid, std::span<const std::byte> parameters,
              std::string what, std::span<const families::Parameter::Map> maps)
      : kernel_(std::move(kernel)),
        grid_(grid),
        parameters_((parameters.size() + sizeof(Unit) - 1) / sizeof(Unit)),
        what_(std::move(what)) {
    std::copy(parameters.begin(), parameters.end(), reinterpret_cast<std::byte*>(parameters_.data()));
    if (!maps.empty()) kernel_->encode(maps, std::as_writable_bytes(std::span(parameters_)));
  }
  void enqueue(Stream stream) const override {
    if (Recording::takes([&] { return kernel_->form(grid_, parameters_.data()); })) return;
    const CUresult result = kernel_->launch(grid_, parameters_.data(), static_cast<CUstream>(stream));
    if (result != CUDA_SUCCESS) check(result, "launching " + what_);
  }

 private:
  struct alignas(16) Unit {
    std::byte bytes[16];
  };
  std::shared_ptr<const PlainKernel> kernel_;
  PlainGrid grid_;
  std::vector<Unit> parameters_;
  std::string what_;
};

}  // namespace

std::shared_ptr<const PlainKernel> load_plain(int device_index, const jit::Binary& binary, const std::string& entry,
                                              std::size_t parameter_bytes) {
  static std::mutex mutex;
  static auto& loaded = *new std::map<std::tuple<int, std::string, std::string>, std::weak_ptr<const PlainKernel>>;
  const std::lock_guard lock(mutex);
  std::weak_ptr<const PlainKernel>& place = loaded[{device_index, binary.key, entry}];
  if (auto kernel = place.lock()) return kernel;
  auto kernel = std::make_shared<const PlainKernel>(gpu(device_index), binary, entry, parameter_bytes);
  if (!binary.key.empty()) place = kernel;
  return kernel;
}

Launch bind_plain(std::shared_ptr<const PlainKernel> kernel, PlainGrid grid, std::span<const std::byte> parameters,
                  std::string what, std::span<const families::Parameter::Map> maps) {
  kernel->allow(grid);
  return Launch(std::make_shared<PlainLaunch>(std::move(kernel), grid, parameters, std::move(what), maps));
}

}  // namespace unisono::cuda
