#include "runtime/cuda/executable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "families/interface/family.hpp"
#include "plan/as_convolution.hpp"
#include "plan/fetchable.hpp"
#include "runtime/cuda/encode.hpp"
#include "runtime/cuda/memory_check.hpp"
#include "unisono/error.hpp"

namespace unisono::cuda {

namespace {

constexpr std::size_t most_pooled = 64;  ///< workspaces of streams that one executable keeps

std::size_t further_maps(const lower::Lowered& lowered) {
  const auto* conv = dynamic_cast<const plan::ConvPlan*>(&lowered.plan());
  return conv == nullptr ? 0 : static_cast<std::size_t>(conv->config.further_maps());
}

std::size_t kernel_bytes(const lower::Lowered& lowered) {
  const std::size_t maps = further_maps(lowered), fields = lowered.kernel.fields.size();
  if (fields + maps * fields_of_map > most_fields)
    throw Unsupported(fmt::format("the epilogue reads {} operands; a kernel's parameters hold {}", fields,
                                  most_fields - maps * fields_of_map));
  return parameter_bytes(fields, maps);
}

// Where the operands lie that TMA brings
std::vector<Address> fetched_operands(const lower::Lowered& lowered, const BoundArguments& bound) {
  const auto* conv = dynamic_cast<const plan::ConvPlan*>(&lowered.plan());
  const int count = conv == nullptr ? 0 : conv->config.fetch.value_or(0);
  std::vector<Address> list;
  const auto& fields = lowered.kernel.fields;
  for (const ValueId id : plan::fetchable_operands(lowered.problem.epilogue)) {
    if (std::ssize(list) == count) break;
    const std::string& name = lowered.problem.epilogue.graph[id].attr.name;
    const auto field = std::ranges::find_if(fields, [&](const codegen::Field& f) {
      return f.kind == codegen::Field::Kind::operand_pointer && f.name == name;
    });
    const auto place = static_cast<std::size_t>(field - fields.begin());
    list.push_back({reinterpret_cast<const void*>(bound.fields.at(place)), bound.field_slots.at(place)});
  }
  return list;
}

// Null for a plan of convolutions by TMA; any other is one of these
const plan::DepthwisePlan* depthwise_plan(const families::Plan& plan) {
  const auto* own = dynamic_cast<const plan::DepthwisePlan*>(&plan);
  if (own == nullptr && dynamic_cast<const plan::ConvPlan*>(&plan) == nullptr)
    throw InternalError(fmt::format("kernels of the family {} have no launch", plan.family->name()));
  return own;
}

HeadOutput head_output(const lower::Lowered& lowered, const BoundArguments& bound) {
  if (!lowered.problem.epilogue.head) return {};
  return {.memory = const_cast<void*>(bound.head.data),
          .pitch = static_cast<std::uint64_t>(bound.head_pitch),
          .filter = bound.head_filter,
          .channels = static_cast<std::uint64_t>(lowered.problem.epilogue.head->channels)};
}

Addresses addresses(const lower::Lowered& lowered, const BoundArguments& bound, const Address& filter) {
  return {.activation = bound.a,
          .filter = filter,
          .output = bound.output,
          .side = bound.side,
          .step_a = bound.step_a,
          .step_b = bound.step_b,
          .activation_pitch = bound.a_pitch,
          .output_pitch = bound.output_pitch,
          .enlarged = bound.enlarged,
          .pooled = bound.pooled,
          .enlarged_pitch = bound.enlarged_pitch,
          .pooled_pitch = bound.pooled_pitch,
          .fetched = fetched_operands(lowered, bound),
          .head = head_output(lowered, bound),
          .head_memory = bound.head,
          .head_filter = bound.head_filter,
          .head_fields = bound.head_fields,
          .head_field_slots = bound.head_field_slots};
}

}  // namespace

CudaExecutable::CudaExecutable(const Gpu& gpu, lower::Lowered lowered, jit::Binary binary)
    : gpu_(gpu),
      lowered_(std::move(lowered)),
      binary_(std::move(binary)),
      conv_plan_(dynamic_cast<const plan::ConvPlan*>(&lowered_.plan())),
      depthwise_plan_(depthwise_plan(lowered_.plan())),
      task_(conv_plan_ != nullptr ? plan::as_planned(lowered_.problem.contraction, conv_plan_->config)
                                  : lowered_.problem.task),
      geometry_(conv_plan_ != nullptr ? geometry(task_, *conv_plan_) : geometry(task_, *depthwise_plan_)),
      signature_(signature(lowered_.problem.contraction, lowered_.problem.graph, lowered_.problem.epilogue,
                           lowered_.plan(), lowered_.kernel, !lowered_.problem.options.constant_b.has_value())),
      kernel_(load(gpu, binary_, lowered_.kernel.entry), lowered_.plan(), kernel_bytes(lowered_)) {
  if (lowered_.problem.options.constant_b) upload_filter(*lowered_.problem.options.constant_b);
  lowered_.problem.options.constant_b.reset();  // the caller's memory, which may go now
  binary_.cubin = {};
}

void CudaExecutable::upload_filter(const ConstTensorView& filter) {
  const std::string what = "the constant filter (constant_b)";
  check_tensor(filter, shape_b(lowered_.problem.contraction), task_.conv.dtype_w, 1, what);
  const auto bytes = static_cast<std::size_t>(element_count(filter.shape)) * size_of(filter.dtype);
  filter_ = Memory(gpu_, bytes, what);
  filter_.upload(filter.data);
}

Prepared CudaExecutable::prepare(const Arguments& arguments) const {
  BoundArguments bound = bind_arguments(signature_, arguments);
  check_memory(gpu_, bound.pointers);
  Prepared prepared;
  Parameters& p = prepared.parameters;
  const auto note = [&](const void* place, std::size_t slot) {
    const auto offset = static_cast<const std::byte*>(place) - reinterpret_cast<const std::byte*>(&p);
    if (slot != no_slot) prepared.sites.push_back({.slot = slot, .offset = static_cast<std::size_t>(offset)});
  };
  const Address constant{reinterpret_cast<const void*>(filter_.address())};
  const Addresses at = addresses(lowered_, bound, bound.b.data != nullptr ? bound.b : constant);
  if (conv_plan_ != nullptr)
    encode_maps(p, task_, *conv_plan_, at, prepared.sites);
  else
    place_depthwise(p, task_, *depthwise_plan_, at, prepared.sites);
  p.conv.geometry = geometry_;
  p.conv.side_memory = const_cast<void*>(bound.side.data);
  note(&p.conv.side_memory, bound.side.slot);
  if (bound.moments.data != nullptr) {
    p.conv.norm.slots = static_cast<Entry*>(const_cast<void*>(bound.moments.data));
    p.conv.norm.slots_per_image = lowered_.plan().moments.slots;
    note(&p.conv.norm.slots, bound.moments.slot);
  }
  const std::size_t first = further_maps(lowered_) * fields_of_map;
  for (std::size_t i = 0; i < bound.fields.size(); ++i) {
    p.fields[first + i] = bound.fields[i];
    note(&p.fields[first + i], bound.field_slots[i]);
  }
  prepared.slots = std::move(bound.slots);
  return prepared;
}

Memory CudaExecutable::make_workspace() const {
  Memory workspace(gpu_, lowered_.plan().workspace_bytes, "a workspace");
  workspace.zero();
  return workspace;
}

void CudaExecutable::place(Parameters& p, CUdeviceptr workspace) const {
  if (conv_plan_ != nullptr) place_workspace(p.conv, *conv_plan_, lowered_.problem.epilogue, workspace);
}

void CudaExecutable::launch(const Parameters& parameters, CUstream stream) const {
  if (Recording::takes([&] { return kernel_.form(&parameters); })) return;
  const Current current(gpu_);
  if (const CUresult result = kernel_.launch(stream, &parameters); result != CUDA_SUCCESS)
    check(result, fmt::format("launching {}", families::describe(lowered_.plan())));
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
  Parameters p = prepare(arguments).parameters;
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
