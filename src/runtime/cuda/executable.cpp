#include "runtime/cuda/executable.hpp"

#include <fmt/format.h>

#include <utility>

#include "families/interface/family.hpp"
#include "runtime/cuda/encode.hpp"
#include "runtime/cuda/memory_check.hpp"
#include "unisono/error.hpp"

namespace unisono::cuda {

namespace {

constexpr std::size_t most_pooled = 64;  ///< workspaces of streams that one executable keeps

}  // namespace

CudaExecutable::CudaExecutable(const Gpu& gpu, lower::Lowered lowered, jit::Binary binary)
    : gpu_(gpu),
      lowered_(std::move(lowered)),
      binary_(std::move(binary)),
      constants_(family().constants(lowered_.plan(), launched())),
      workspace_maps_(family().workspace_maps(lowered_.plan())),
      signature_(signature(lowered_.problem.contraction, lowered_.problem.graph, lowered_.epilogue(), lowered_.plan(),
                           lowered_.kernel, !lowered_.problem.options.constant_filter.has_value())) {
  load_binary();
  CompileOptions& options = lowered_.problem.options;
  if (options.constant_filter) filter_ = uploaded(*options.constant_filter, "the constant filter (constant_filter)");
  if (options.constant_right1) filter1_ = uploaded(*options.constant_right1, "the constant_right1");
  options.constant_filter.reset(), options.constant_right1.reset();  // the caller's memory, which may go now
  binary_.cubin = {};
}

void CudaExecutable::load_binary() {
  const std::size_t bytes = family().parameter_bytes(lowered_.plan(), lowered_.kernel).value();
  if (lowered_.kernel.library)
    library_ = load_library(binary_, lowered_.kernel.entry, bytes);
  else
    kernel_.emplace(load(gpu_, binary_, lowered_.kernel.entry), lowered_.plan(), bytes);
}

Memory CudaExecutable::uploaded(const ConstTensorView& filter, const std::string& what) const {
  check_tensor(filter, shape_b(lowered_.problem.contraction), lowered_.problem.task.conv.dtype_w, 1, what);
  const auto bytes = static_cast<std::size_t>(element_count(filter.shape)) * size_of(filter.dtype);
  Memory memory(gpu_, bytes, what);
  memory.upload(filter.data);
  return memory;
}

void CudaExecutable::check_arguments(const Arguments& arguments) const {
  BoundArguments bound = bind_arguments(signature_, arguments);
  parameter_of(bound);
}

Prepared CudaExecutable::prepare(const Arguments& arguments) const {
  BoundArguments bound = bind_arguments(signature_, arguments);
  check_memory(gpu_, bound.pointers);
  families::Parameter parameter = parameter_of(bound);
  encode_maps(parameter.maps, std::span(parameter.bytes.bytes));
  return {.parameters = parameter.bytes, .slots = std::move(bound.slots), .sites = std::move(parameter.sites)};
}

families::Parameter CudaExecutable::parameter_of(BoundArguments& bound) const {
  const auto given_or = [](const Address& given, const Memory& constant) {
    return given.data != nullptr ? given : Address{reinterpret_cast<const void*>(constant.address())};
  };
  families::Parameter parameter{.bytes = constants_, .maps = {}, .sites = {}};
  const Address filter = given_or(bound.b, filter_), filter1 = given_or(bound.b1, filter1_);
  family().fill(parameter, lowered_.plan(), launched(), tensors(bound, filter, filter1));
  return parameter;
}

Memory CudaExecutable::make_workspace() const {
  Memory workspace(gpu_, lowered_.plan().workspace_bytes, "a workspace");
  workspace.zero();
  return workspace;
}

void CudaExecutable::place(families::ParameterBytes& p, CUdeviceptr workspace) const {
  family().place_workspace(p, lowered_.plan(), lowered_.epilogue(), workspace);
  for (const families::Site& site : workspace_maps_) move_site(p, site, reinterpret_cast<const void*>(workspace));
}

void CudaExecutable::launch(const families::ParameterBytes& parameters, CUstream stream) const {
  if (library_ != nullptr) return launch_library(parameters, stream);
  if (Recording::takes([&] { return kernel_->form(&parameters); })) return;
  const Current current(gpu_);
  if (const CUresult result = kernel_->launch(stream, &parameters); result != CUDA_SUCCESS)
    check(result, fmt::format("launching {}", families::describe(lowered_.plan())));
}

// A node of a graph that is written down is a kernel with its parameter, which such a library keeps to itself
void CudaExecutable::launch_library(const families::ParameterBytes& parameters, CUstream stream) const {
  const auto form = [&]() -> NodeForm {
    throw Unsupported(
        fmt::format("{}: a network's CUDA graph cannot hold a launch of this family's; capture a stream, or "
                    "leave out family={}",
                    families::describe(lowered_.plan()), family().name()));
  };
  if (Recording::takes(form)) return;
  const Current current(gpu_);
  library_->run(&parameters, stream, fmt::format("launching {}", families::describe(lowered_.plan())));
}

std::shared_ptr<LaunchImpl> CudaExecutable::bind(const Arguments& arguments, const WorkspaceMemory& workspace) const {
  check_alive(gpu_);
  const Current current(gpu_);
  return std::make_shared<BoundLaunch>(shared_from_this(), prepare(arguments), workspace);
}

// Streams come and go. When too many have left their workspaces here, all are given up once nothing runs.
const Memory& CudaExecutable::workspace_of(CUstream stream) const {
  unsigned long long number = 0;
  check(driver().cuStreamGetId(stream, &number), "asking for the stream's number");
  if (const auto found = pool_.find(number); found != pool_.end()) return found->second;
  if (pool_.size() >= most_pooled) {
    const BesideCapture beside;
    check(driver().cuCtxSynchronize(), "waiting for the streams whose workspaces are given up");
    pool_.clear();
  }
  return pool_.emplace(number, make_workspace()).first->second;
}

void CudaExecutable::enqueue(const Arguments& arguments, Stream handle) const {
  auto* const stream = static_cast<CUstream>(handle);
  check_alive(gpu_);
  const Current current(gpu_);
  families::ParameterBytes p = prepare(arguments).parameters;
  const bool captured = is_capturing(stream);
  if (lowered_.plan().workspace_bytes == 0) {
    place(p, 0);
    return launch(p, stream);
  }
  if (captured) {
    place(p, captured_.take(stream, [&] { return make_workspace(); }));
    return launch(p, stream);
  }
  const std::lock_guard lock(pool_mutex_);  // until launched: so that no other thread gives the workspace up
  place(p, workspace_of(stream).address());
  launch(p, stream);
}

void CudaExecutable::run(const Arguments& arguments) const {
  enqueue(arguments, nullptr);
  const Current current(gpu_);
  const CUresult result = driver().cuStreamSynchronize(nullptr);
  if (result == CUDA_SUCCESS) return;
  const std::string what = fmt::format("running {}", families::describe(lowered_.plan()));
  if (result == CUDA_ERROR_ILLEGAL_ADDRESS && lowered_.problem.options.watchdog)
    check(result, what + " (compiled with the watchdog, which ends a launch this way when a wait lasts some seconds)");
  if (result == CUDA_ERROR_MISALIGNED_ADDRESS && lowered_.problem.options.watchdog)
    check(result,
          what +
              " (compiled with the watchdog, which ends a launch this way when its workspace is already in use: "
              "a Launch, or a captured graph, was in flight twice)");
  check(result, what);
}

std::string CudaExecutable::describe() const {
  const jit::Binary& b = binary_;
  const jit::Resources& r = b.resources;
  std::string text = fmt::format("{} on GPU {} ({}), one launch\n", to_string(lowered_.problem.contraction), gpu_.index,
                                 gpu_.device.name);
  text += fmt::format("  plan: {}, predicted {:.1f} us\n", families::describe(lowered_.plan()),
                      lowered_.plan().predicted_us);
  text +=
      fmt::format("  kernel: {} registers, {}, {}\n", r.registers,
                  r.spill_store_bytes + r.spill_load_bytes == 0
                      ? "no spills"
                      : fmt::format("spills of {} bytes stored and {} loaded", r.spill_store_bytes, r.spill_load_bytes),
                  b.cached ? fmt::format("from the cache ({})", b.key)
                           : fmt::format("compiled in {:.2f} s ({})", b.seconds, b.key));
  text += lowered_.plan().workspace_bytes == 0
              ? "  workspace: none\n"
              : fmt::format("  workspace: {} bytes for each execution in flight\n", lowered_.plan().workspace_bytes);
  return text;
}

}  // namespace unisono::cuda
