#include "runtime/cuda/backend.hpp"

#include "runtime/cuda/executable.hpp"
#include "runtime/cuda/gpu.hpp"

namespace coda::cuda {

bool built_in() { return true; }

plan::Device open_device(int index) { return gpu(index).device; }

std::shared_ptr<const ExecutableImpl> build(Parts parts) {
  const Gpu& g = gpu(parts.options.device_index);
  return std::make_shared<const CudaExecutable>(g, std::move(parts));
}

}  // namespace coda::cuda
