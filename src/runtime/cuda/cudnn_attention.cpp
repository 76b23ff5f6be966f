#include "runtime/cuda/cudnn_attention.hpp"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "runtime/common/executable_impl.hpp"
#include "runtime/cuda/graph.hpp"
#include "unisono/error.hpp"

namespace unisono::cuda {

namespace {

// One of cuDNN's handles: of one thread at a time
struct CudnnHandle {
  std::mutex mutex;
  cudnn::Handle handle = nullptr;
};

// A GPU's, made at the first call; never destroyed, as the GPU's context may be gone by then
CudnnHandle& handle_of(const Gpu& gpu, const cudnn::Library& library) {
  static std::mutex mutex;
  static auto& all = *new std::map<unsigned long long, std::map<int, CudnnHandle>>;  // by context and GPU
  const std::lock_guard lock(mutex);
  CudnnHandle& found = all[gpu.context_id][gpu.index];
  if (found.handle != nullptr) return found;
  const BesideCapture beside;
  if (const int status = library.call.Create(&found.handle); status != cudnn::success)
    throw DeviceError(fmt::format("cuDNN {} ({}) does not start: {}", library.version_text(), library.path.string(),
                                  library.text_of(status)));
  return found;
}

class AttentionLaunch final : public LaunchImpl {
 public:
  AttentionLaunch(const Gpu& gpu, std::shared_ptr<const cudnn::AttentionPlan> plan, std::span<void* const> addresses,
                  void* workspace)
      : gpu_(gpu), handle_(handle_of(gpu, plan->library())), run_(std::move(plan), addresses, workspace) {
    // kernels are loaded when they first run, which captures of the caller's may forbid
    CUgraph once = captured_graph(gpu, [this](CUstream stream) { run(stream); });
    driver().cuGraphDestroy(once);
  }

  void enqueue(Stream stream) const override {
    const auto form = [this] {
      NodeForm f;
      f.captured = [this](CUstream s) { run(s); };
      return f;
    };
    if (Recording::takes(form)) return;
    run(static_cast<CUstream>(stream));
  }

 private:
  void run(CUstream stream) const {
    const Current current(gpu_);
    const std::lock_guard lock(handle_.mutex);
    run_.enqueue(handle_.handle, stream);
  }

  const Gpu& gpu_;
  CudnnHandle& handle_;
  cudnn::AttentionRun run_;
};

}  // namespace

plan::Expected<std::shared_ptr<const cudnn::AttentionPlan>> plan_attention(int device_index,
                                                                           const cudnn::Library& library,
                                                                           const cudnn::AttentionProblem& problem) {
  const Gpu& on = gpu(device_index);
  const Current current(on);
  const BesideCapture beside;
  CudnnHandle& handle = handle_of(on, library);
  const std::lock_guard lock(handle.mutex);
  return cudnn::plan_attention(library, problem, {.handle = handle.handle});
}

Launch bind_attention(int device_index, std::shared_ptr<const cudnn::AttentionPlan> plan,
                      std::span<void* const> addresses, void* workspace) {
  const Gpu& on = gpu(device_index);
  const Current current(on);
  return Launch(std::make_shared<AttentionLaunch>(on, std::move(plan), addresses, workspace));
}

}  // namespace unisono::cuda
