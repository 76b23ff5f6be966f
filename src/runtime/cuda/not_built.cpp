/// In place of the backend where the CUDA toolkit's headers were not found.

#include "coda/error.hpp"
#include "runtime/cuda/backend.hpp"

namespace coda::cuda {

namespace {
[[noreturn]] void refuse() {
  throw Unsupported(
      "device cuda: this build of Coda has no CUDA backend, because no CUDA toolkit of version 12 or later was found "
      "when "
      "it was configured; install one and configure with -DCODA_CUDA=ON, or use Device::cpu");
}
}  // namespace

bool built_in() { return false; }
plan::Device open_device(int) { refuse(); }

struct DeviceBuffer::Impl {};
DeviceBuffer::DeviceBuffer(int, const void*, std::size_t) { refuse(); }
DeviceBuffer::~DeviceBuffer() = default;
void* DeviceBuffer::data() const { refuse(); }
void DeviceBuffer::download(void*) const { refuse(); }

std::shared_ptr<const ExecutableImpl> build(Parts) { refuse(); }

}  // namespace coda::cuda
