// cuDNN for the emulated GPU: a libcudnn.so.9 that computes, in float64, whatever graph of products, elementwise
// operations and reductions it is described, from the extents, strides and types that it was given. What
// UNISONO_FAKE_CUDNN says goes wrong: "old", "refuses" (plans cannot be finished), "fails" (executions),
// "workspace" (plans take more than there may be), "starts not" (there are no handles).

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/machine.hpp"
#include "runtime/cuda/driver_api.hpp"
#include "runtime/cudnn/api.hpp"

using namespace unisono::cudnn;

namespace {

constexpr int bad_parameter = 2000, not_supported = 3000, execution_failed = 5000;
thread_local std::string last_error;

int refuse(int status, const char* why) { return last_error = why, status; }

bool goes_wrong(const char* how) {
  const char* given = std::getenv("UNISONO_FAKE_CUDNN");
  return given != nullptr && std::string(given) == how;
}

struct Value {
  AttributeType type{};
  std::vector<std::byte> bytes;
  template <class T>
  std::vector<T> all() const {
    std::vector<T> x(bytes.size() / sizeof(T));
    std::memcpy(x.data(), bytes.data(), x.size() * sizeof(T));
    return x;
  }
};

std::size_t size_of(AttributeType t) {
  switch (t) {
    case AttributeType::boolean:
    case AttributeType::character: return 1;
    case AttributeType::int64:
    case AttributeType::handle:
    case AttributeType::void_pointer:
    case AttributeType::descriptor: return 8;
    default: return 4;
  }
}

struct Tensor {
  std::int64_t id = 0;
  DataType type{};
  std::vector<std::int64_t> extents, strides;
  bool is_intermediate = false, is_by_value = false;
  std::int64_t count() const {
    std::int64_t n = 1;
    for (const std::int64_t x : extents) n *= x;
    return n;
  }
};

// One operation, with its tensors
struct Operation {
  DescriptorType type{};
  int mode = 0;
  Tensor x = {}, b = {}, y = {};
  bool has_b = false;
};

struct Described {
  DescriptorType type{};
  std::map<Attribute, Value> values = {};
  bool finished = false;
  std::vector<Operation> operations = {};  // of a configuration and a plan, which outlive the graph's descriptors
  bool has(Attribute a) const { return values.contains(a); }
  template <class T>
  T one(Attribute a) const {
    T x{};
    std::memcpy(&x, values.at(a).bytes.data(), sizeof(T));
    return x;
  }
  const Described& at(Attribute a) const { return *one<const Described*>(a); }
};

Tensor tensor_of(const Described& d) {
  return {d.one<std::int64_t>(Attribute::tensor_unique_id),
          d.one<DataType>(Attribute::tensor_data_type),
          d.values.at(Attribute::tensor_dimensions).all<std::int64_t>(),
          d.values.at(Attribute::tensor_strides).all<std::int64_t>(),
          d.one<bool>(Attribute::tensor_is_virtual),
          d.one<bool>(Attribute::tensor_is_by_value)};
}

double load(const void* memory, DataType type, std::int64_t at) {
  if (type == DataType::f32) return static_cast<const float*>(memory)[at];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(memory)[at];
  if (type == DataType::bf16) return std::bit_cast<float>(std::uint32_t{bits} << 16);
  return static_cast<double>(std::bit_cast<_Float16>(bits));
}

std::uint16_t to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (std::isnan(x)) return static_cast<std::uint16_t>(bits >> 16 | 64);
  return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

void store(void* memory, DataType type, std::int64_t at, double x) {
  if (type == DataType::f32)
    static_cast<float*>(memory)[at] = static_cast<float>(x);
  else if (type == DataType::bf16)
    static_cast<std::uint16_t*>(memory)[at] = to_bf16(static_cast<float>(x));
  else
    static_cast<std::uint16_t*>(memory)[at] = std::bit_cast<std::uint16_t>(static_cast<_Float16>(x));
}

double rounded(double x, DataType type) {
  std::array<std::byte, 4> bytes{};
  store(bytes.data(), type, 0, x);
  return load(bytes.data(), type, 0);
}

using Index = std::array<std::int64_t, 4>;

// All that one execution needs, copied
struct Task {
  std::vector<Operation> operations;
  std::map<std::int64_t, void*> memory;
  std::map<std::int64_t, float> by_value;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  std::map<std::int64_t, std::vector<double>> values;  // intermediates, dense

  double read(const Tensor& t, Index i) const {
    for (std::size_t a = 0; a < 4; ++a)
      if (t.extents[a] == 1) i[a] = 0;  // repeated
    std::int64_t at = 0;
    if (t.is_intermediate) {
      for (std::size_t a = 0; a < 4; ++a) at = at * t.extents[a] + i[a];
      return values.at(t.id).at(static_cast<std::size_t>(at));
    }
    if (t.is_by_value) return static_cast<double>(by_value.at(t.id));
    for (std::size_t a = 0; a < 4; ++a) at += i[a] * t.strides[a];
    return load(memory.at(t.id), t.type, at);
  }
  void write(const Tensor& t, const Index& i, double x) {
    std::int64_t at = 0;
    if (t.is_intermediate) {
      std::vector<double>& all = values[t.id];
      all.resize(static_cast<std::size_t>(t.count()));
      for (std::size_t a = 0; a < 4; ++a) at = at * t.extents[a] + i[a];
      all.at(static_cast<std::size_t>(at)) = rounded(x, t.type);
      return;
    }
    for (std::size_t a = 0; a < 4; ++a) at += i[a] * t.strides[a];
    store(memory.at(t.id), t.type, at, x);
  }
  double product(const Operation& o, const Index& i) const {
    Index left{i[0], i[1], i[2], 0}, right{i[0], i[1] * o.b.extents[1] / o.x.extents[1], 0, i[3]};
    double sum = 0;
    for (std::int64_t d = 0; d < o.x.extents[3]; ++d) left[3] = right[2] = d, sum += read(o.x, left) * read(o.b, right);
    return sum;
  }
  double elementwise(const Operation& o, const Index& i) const {
    const double x = read(o.x, i), b = o.has_b ? read(o.b, i) : 0;
    switch (static_cast<PointwiseMode>(o.mode)) {
      case PointwiseMode::add: return x + b;
      case PointwiseMode::mul: return x * b;
      case PointwiseMode::div: return x / b;
      case PointwiseMode::sub: return x - b;
      case PointwiseMode::exp: return std::exp(x);
      case PointwiseMode::log: return std::log(x);
    }
    std::abort();
  }
  double reduction(const Operation& o, Index i) const {
    const bool max = static_cast<ReductionOperator>(o.mode) == ReductionOperator::max;
    double all = max ? -HUGE_VAL : 0;
    for (i[3] = 0; i[3] < o.x.extents[3]; ++i[3]) all = max ? std::max(all, read(o.x, i)) : all + read(o.x, i);
    return all;
  }
  void run() {
    if (workspace_bytes != 0) std::memset(workspace, 0xA5, workspace_bytes);
    for (const Operation& o : operations) {
      Index i{};
      for (i[0] = 0; i[0] < o.y.extents[0]; ++i[0])
        for (i[1] = 0; i[1] < o.y.extents[1]; ++i[1])
          for (i[2] = 0; i[2] < o.y.extents[2]; ++i[2])
            for (i[3] = 0; i[3] < o.y.extents[3]; ++i[3])
              write(o.y, i,
                    o.type == DescriptorType::operation_matmul      ? product(o, i)
                    : o.type == DescriptorType::operation_pointwise ? elementwise(o, i)
                                                                    : reduction(o, i));
    }
    values.clear();
  }
};

void run_task(void** parameters) { (*static_cast<Task**>(parameters[0]))->run(); }
constexpr std::size_t task_parameters[] = {sizeof(Task*), 0};
const unisono_emulator::Entry task_entry{&run_task, task_parameters};
const unisono_emulator::Entry* const task_function[] = {&task_entry};  // as the emulated driver has functions

Operation operation_of(const Described& d) {
  Operation o{.type = d.type};
  if (d.type == DescriptorType::operation_matmul) {
    o.x = tensor_of(d.at(Attribute::operation_matmul_a)), o.b = tensor_of(d.at(Attribute::operation_matmul_b));
    o.y = tensor_of(d.at(Attribute::operation_matmul_c));
  } else if (d.type == DescriptorType::operation_pointwise) {
    o.mode = d.at(Attribute::operation_pointwise_descriptor).one<int>(Attribute::pointwise_mode);
    o.x = tensor_of(d.at(Attribute::operation_pointwise_x)), o.y = tensor_of(d.at(Attribute::operation_pointwise_y));
    o.has_b = d.has(Attribute::operation_pointwise_b);
    if (o.has_b) o.b = tensor_of(d.at(Attribute::operation_pointwise_b));
  } else {
    o.mode = d.at(Attribute::operation_reduction_descriptor).one<int>(Attribute::reduction_operator);
    o.x = tensor_of(d.at(Attribute::operation_reduction_x)), o.y = tensor_of(d.at(Attribute::operation_reduction_y));
  }
  return o;
}

std::vector<Operation> operations_of(const Described& graph) {
  std::vector<Operation> all;
  for (const Described* d : graph.values.at(Attribute::graph_operations).all<const Described*>())
    all.push_back(operation_of(*d));
  return all;
}

bool is_served(const std::vector<Operation>& all) {
  return all.size() >= 9 && all.front().type == DescriptorType::operation_matmul &&
         all.back().type == DescriptorType::operation_matmul && all.front().x.extents[3] % 8 == 0 &&
         all.back().b.extents[3] % 8 == 0;
}

constexpr std::size_t plan_workspace = 256;

}  // namespace

namespace unisono::cudnn {
struct Context {
  CudaStream stream = nullptr;
};
}  // namespace unisono::cudnn

extern "C" {

std::size_t cudnnGetVersion() { return goes_wrong("old") ? 90700 : 92000; }
const char* cudnnGetErrorString(int status) {
  return status == not_supported   ? "CUDNN_STATUS_NOT_SUPPORTED"
         : status == bad_parameter ? "CUDNN_STATUS_BAD_PARAM"
         : status == success       ? "CUDNN_STATUS_SUCCESS"
                                   : "CUDNN_STATUS_EXECUTION_FAILED";
}
void cudnnGetLastErrorString(char* text, std::size_t bytes) {
  std::strncpy(text, last_error.c_str(), bytes);
  last_error.clear();
}
int cudnnCreate(Handle* handle) {
  if (goes_wrong("starts not")) return refuse(not_supported, "a part of it is missing");
  return *handle = new Context, success;
}
int cudnnDestroy(Handle handle) { return delete handle, success; }
int cudnnSetStream(Handle handle, CudaStream stream) { return handle->stream = stream, success; }
int cudnnBackendCreateDescriptor(DescriptorType type, BackendDescriptor* descriptor) {
  return *descriptor = new Described{.type = type}, success;
}
int cudnnBackendDestroyDescriptor(BackendDescriptor descriptor) {
  return delete static_cast<Described*>(descriptor), success;
}
int cudnnBackendSetAttribute(BackendDescriptor descriptor, Attribute name, AttributeType type, std::int64_t count,
                             const void* values) {
  auto& d = *static_cast<Described*>(descriptor);
  if (d.finished || count < 1 || values == nullptr) return refuse(bad_parameter, "an attribute");
  const auto* first = static_cast<const std::byte*>(values);
  d.values[name] = {type, {first, first + static_cast<std::size_t>(count) * size_of(type)}};
  if (type == AttributeType::descriptor)
    for (const Described* other : d.values[name].all<const Described*>())
      if (other == nullptr || !other->finished) return refuse(bad_parameter, "a descriptor that is not finished");
  return success;
}
int cudnnBackendFinalize(BackendDescriptor descriptor) {
  auto& d = *static_cast<Described*>(descriptor);
  if (d.type == DescriptorType::tensor) {
    const Tensor t = tensor_of(d);
    if (t.extents.size() != 4 || t.strides.size() != 4) return refuse(bad_parameter, "a tensor's axes");
    if (d.one<std::int64_t>(Attribute::tensor_byte_alignment) != 16) return refuse(bad_parameter, "an alignment");
  }
  if (d.type == DescriptorType::execution_plan && goes_wrong("refuses"))
    return refuse(not_supported, "the fake cuDNN refuses all plans");
  if (d.type == DescriptorType::execution_plan) d.operations = d.at(Attribute::plan_engine_config).operations;
  return d.finished = true, success;
}
int cudnnBackendGetAttribute(BackendDescriptor descriptor, Attribute name, AttributeType, std::int64_t asked,
                             std::int64_t* count, void* values) {
  const auto& d = *static_cast<const Described*>(descriptor);
  *count = 1;
  if (name == Attribute::heuristic_results) {
    const Described& graph = d.at(Attribute::heuristic_operation_graph);
    const bool served = is_served(operations_of(graph)) && asked > 0;
    *count = served ? 1 : 0;
    if (!served) return success;
    auto& config = **static_cast<Described**>(values);
    config.operations = operations_of(graph);
    return config.finished = true, success;
  }
  if (name == Attribute::config_engine) return (*static_cast<Described**>(values))->finished = true, success;
  std::int64_t value = name == Attribute::engine_global_index ? 7 : plan_workspace;
  if (name == Attribute::plan_workspace_size && goes_wrong("workspace")) value = std::int64_t{1} << 40;
  return std::memcpy(values, &value, sizeof value), success;
}
#ifndef UNISONO_FAKE_CUDNN_WITHOUT_EXECUTION
int cudnnBackendExecute(Handle handle, BackendDescriptor plan, BackendDescriptor variant_pack) {
  if (goes_wrong("fails")) return refuse(execution_failed, "the fake cuDNN fails");
  static auto& tasks = *new std::deque<Task>;  // graphs may run them at any time
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const auto& p = *static_cast<const Described*>(plan);
  const auto& pack = *static_cast<const Described*>(variant_pack);
  Task& task = tasks.emplace_back();
  task.operations = p.operations;
  const auto ids = pack.values.at(Attribute::pack_unique_ids).all<std::int64_t>();
  const auto pointers = pack.values.at(Attribute::pack_data_pointers).all<void*>();
  for (std::size_t i = 0; i < ids.size(); ++i) task.memory[ids[i]] = pointers.at(i);
  for (const Operation& o : task.operations)
    for (const Tensor* t : {&o.x, &o.b, &o.y}) {
      if (t->is_by_value)
        task.by_value[t->id] = *static_cast<const float*>(task.memory.at(t->id));
      else if (!t->extents.empty() && !t->is_intermediate &&
               reinterpret_cast<std::uintptr_t>(task.memory.at(t->id)) % 16 != 0)
        return refuse(bad_parameter, "an address that is no multiple of 16");
    }
  task.workspace = pack.one<void*>(Attribute::pack_workspace), task.workspace_bytes = plan_workspace;
  if (task.workspace == nullptr) return refuse(bad_parameter, "no workspace");

  static const auto launch = reinterpret_cast<CUresult (*)(const CUlaunchConfig*, CUfunction, void**, void**)>(
      ::dlsym(::dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchKernelEx"));
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1, config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = static_cast<CUstream>(handle->stream);
  Task* address = &task;
  void* parameters[] = {&address};
  auto* const function = reinterpret_cast<CUfunction>(const_cast<const unisono_emulator::Entry**>(task_function));
  return launch(&config, function, parameters, nullptr) == CUDA_SUCCESS ? success
                                                                        : refuse(execution_failed, "a launch");
}
#endif
}
