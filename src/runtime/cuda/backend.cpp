#include "runtime/cuda/backend.hpp"

#include <fmt/format.h>

#include "runtime/cuda/executable.hpp"
#include "runtime/cuda/gpu.hpp"
#include "unisono/error.hpp"

namespace unisono::cuda {

plan::Device open_device(int index) {
  const Gpu& g = gpu(index);
  check_alive(g);
  return g.device;
}

std::size_t peak_memory(int device_index) { return gpu(device_index).held.peak; }

struct DeviceBuffer::Impl {
  const Gpu& gpu;
  Memory memory;
};

DeviceBuffer::DeviceBuffer(int device_index, const void* source, std::size_t bytes)
    : impl_(new Impl{gpu(device_index), Memory(gpu(device_index), bytes, "a buffer")}) {
  impl_->memory.upload(source);
}

DeviceBuffer::DeviceBuffer(int device_index, std::size_t bytes, const std::string& what)
    : impl_(new Impl{gpu(device_index), Memory(gpu(device_index), bytes, what)}) {
  impl_->memory.zero();
}

DeviceBuffer::~DeviceBuffer() = default;

std::size_t DeviceBuffer::bytes() const { return impl_->memory.bytes(); }

void* DeviceBuffer::data() const { return reinterpret_cast<void*>(impl_->memory.address()); }

void DeviceBuffer::upload(const void* source) { impl_->memory.upload(source); }

void DeviceBuffer::download(void* target) const {
  const Current current(impl_->gpu);
  check(driver().cuMemcpy(reinterpret_cast<CUdeviceptr>(target), impl_->memory.address(), impl_->memory.bytes()),
        "copying from GPU memory");
}

std::shared_ptr<const ExecutableImpl> build(lower::Lowered lowered, jit::Binary binary) {
  if (const std::size_t waits = binary.resources.injected_waits; waits != 0)
    throw InternalError(fmt::format(
        "the assembler added {} waits between the matrix instructions of {}; such kernels gave wrong sums. Expected: "
        "none. Another plan may do (CompileOptions::plan), and please report this one: its source and log are in {}",
        waits, to_string(lowered.problem.contraction),
        binary.entry.empty() ? "no cache, which is off" : binary.entry.string()));
  const Gpu& g = gpu(lowered.problem.options.device_index);
  return std::make_shared<const CudaExecutable>(g, std::move(lowered), std::move(binary));
}

}  // namespace unisono::cuda
