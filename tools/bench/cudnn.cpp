#include "bench/cudnn.hpp"

#include <cudnn.h>
#include <fmt/format.h>

#include "bench/dynamic_library.hpp"
#include "unisono/error.hpp"

namespace unisono::bench {

struct Cudnn::Impl {
  DynamicLibrary library;
  decltype(::cudnnGetVersion)* get_version = nullptr;
  decltype(::cudnnGetErrorString)* error_string = nullptr;
  decltype(::cudnnCreate)* create = nullptr;
  decltype(::cudnnDestroy)* destroy = nullptr;
  decltype(::cudnnSetStream)* set_stream = nullptr;
  decltype(::cudnnBackendCreateDescriptor)* create_descriptor = nullptr;
  decltype(::cudnnBackendDestroyDescriptor)* destroy_descriptor = nullptr;
  decltype(::cudnnBackendSetAttribute)* set_attribute = nullptr;
  decltype(::cudnnBackendGetAttribute)* get_attribute = nullptr;
  decltype(::cudnnBackendFinalize)* finalize = nullptr;
  decltype(::cudnnBackendExecute)* execute = nullptr;
  cudnnHandle_t handle = nullptr;

  explicit Impl(const std::filesystem::path& folder) : library({"libcudnn.so.9", "libcudnn.so"}, folder) {
    library.find("cudnnGetVersion", get_version);
    library.find("cudnnGetErrorString", error_string);
    library.find("cudnnCreate", create);
    library.find("cudnnDestroy", destroy);
    library.find("cudnnSetStream", set_stream);
    library.find("cudnnBackendCreateDescriptor", create_descriptor);
    library.find("cudnnBackendDestroyDescriptor", destroy_descriptor);
    library.find("cudnnBackendSetAttribute", set_attribute);
    library.find("cudnnBackendGetAttribute", get_attribute);
    library.find("cudnnBackendFinalize", finalize);
    library.find("cudnnBackendExecute", execute);
    check(create(&handle), "starting cuDNN");
  }
  ~Impl() {
    if (handle != nullptr) destroy(handle);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void check(cudnnStatus_t status, const char* what) const {
    if (status != CUDNN_STATUS_SUCCESS) throw UserError(fmt::format("{}: {}", what, error_string(status)));
  }
};

namespace {

/// A descriptor of cuDNN's backend, built attribute by attribute.
template <class Library>
class Descriptor {
 public:
  Descriptor(const Library& library, cudnnBackendDescriptorType_t type) : library_(library) {
    library_.check(library_.create_descriptor(type, &handle_), "making a cuDNN descriptor");
  }
  ~Descriptor() { library_.destroy_descriptor(handle_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                  const void* values) {
    library_.check(library_.set_attribute(handle_, name, type, count, values), "setting an attribute of cuDNN");
    return *this;
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& value) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.handle_);
  }
  Descriptor& finish() {
    library_.check(library_.finalize(handle_), "describing a convolution to cuDNN");
    return *this;
  }
  bool try_to_finish() { return library_.finalize(handle_) == CUDNN_STATUS_SUCCESS; }
  cudnnBackendDescriptor_t get() const { return handle_; }

 private:
  const Library& library_;
  cudnnBackendDescriptor_t handle_ = nullptr;
};

cudnnDataType_t type_of(DType t) {
  return t == DType::bf16 ? CUDNN_DATA_BFLOAT16 : t == DType::f16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
}

// An image or a filter: (n, c, h, w) in cuDNN's order, with channels last in memory
template <class Library>
std::unique_ptr<Descriptor<Library>> tensor(const Library& library, std::int64_t id, DType dtype, std::int64_t n,
                                            std::int64_t c, std::int64_t h, std::int64_t w) {
  auto d = std::make_unique<Descriptor<Library>>(library, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const cudnnDataType_t type = type_of(dtype);
  const std::int64_t extents[4] = {n, c, h, w}, strides[4] = {h * w * c, 1, w * c, c}, alignment = 16;
  d->set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, extents)
      .set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides)
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment)
      .finish();
  return d;
}

cudnnBackendDescriptorType_t operation_type(Direction direction) {
  switch (direction) {
    case Direction::dgrad: return CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
    case Direction::wgrad: return CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
    default: return CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  }
}

// Names of the image, the filter and the output: of what Data calls a 'x', of b 'w', of the result 'y'
struct TensorNames {
  char image = 'x', filter = 'w', output = 'y';
};
TensorNames names_of(Direction direction) {
  if (direction == Direction::dgrad) return {'y', 'w', 'x'};
  if (direction == Direction::wgrad) return {'w', 'y', 'x'};
  return {};
}

/// The graph of one convolution, or of a gradient of it, and the descriptors that it stands on.
template <class Library>
struct Operation {
  std::unique_ptr<Descriptor<Library>> x, w, y;
  Descriptor<Library> conv, operation, graph;

  Operation(const Library& library, const Conv2d& c, Direction direction)
      : conv(library, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR),
        operation(library, operation_type(direction)),
        graph(library, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
    const Extents e = extents(Contraction(c));
    const TensorNames names = names_of(direction);
    x = tensor(library, names.image, c.dtype_x, c.n, c.c, c.h, c.w);
    w = tensor(library, names.filter, c.dtype_w, c.k, c.c / c.groups, c.r, c.s);  // fewer channels: groups
    y = tensor(library, names.output, c.dtype_x, c.n, c.k, e.height, e.width);
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const std::int64_t two = 2, strides[] = {c.stride.h, c.stride.w}, dilations[] = {c.dilation.h, c.dilation.w};
    const std::int64_t before[] = {c.pad.top, c.pad.left}, after[] = {c.pad.bottom, c.pad.right};
    conv.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute)
        .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode)
        .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &two)
        .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, strides)
        .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, before)
        .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, after)
        .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilations)
        .finish();
    join(direction);
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation)
        .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &library.handle)
        .finish();
  }

 private:
  /// Says what is computed of the tensors.
  void join(Direction direction) {
    const float one = 1, zero = 0;
    const auto set = [&](auto convolution, auto image, auto filter, auto output, auto alpha, auto beta) {
      operation.set(convolution, conv)
          .set(image, *x)
          .set(filter, *w)
          .set(output, *y)
          .set(alpha, CUDNN_TYPE_FLOAT, 1, &one)
          .set(beta, CUDNN_TYPE_FLOAT, 1, &zero)
          .finish();
    };
    if (direction == Direction::wgrad)
      set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA);
    else if (direction == Direction::dgrad)
      set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA);
    else
      set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA);
  }
};

template <class Library>
struct Plan {
  std::unique_ptr<Descriptor<Library>> config, plan;
  std::int64_t workspace_bytes = 0;
  std::unique_ptr<gpu::Buffer> scratch;  // for all its executions, which follow one another; made with the first
};

// The plans that one heuristic proposes; configurations that cannot be finished are left out
template <class Library>
std::vector<Plan<Library>> plans_of(const Library& library, const Operation<Library>& op, cudnnBackendHeurMode_t mode) {
  constexpr std::int64_t most_plans = 24, most_workspace = std::int64_t{512} << 20;
  Descriptor<Library> heuristic(library, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, op.graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  std::vector<Plan<Library>> found;
  if (!heuristic.try_to_finish()) return found;
  std::int64_t count = 0;
  library.get_attribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count,
                        nullptr);
  count = std::min(count, most_plans);
  std::vector<std::unique_ptr<Descriptor<Library>>> configs;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::int64_t i = 0; i < count; ++i) {
    configs.push_back(std::make_unique<Descriptor<Library>>(library, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    handles.push_back(configs.back()->get());
  }
  std::int64_t got = 0;
  library.get_attribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &got,
                        handles.data());
  for (std::size_t i = 0; i < static_cast<std::size_t>(std::min(got, count)); ++i) {
    Plan<Library> p{std::move(configs[i]),
                    std::make_unique<Descriptor<Library>>(library, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR), 0,
                    nullptr};
    p.plan->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &library.handle)
        .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *p.config);
    if (!p.plan->try_to_finish()) continue;
    std::int64_t one = 0;
    library.get_attribute(p.plan->get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &one,
                          &p.workspace_bytes);
    if (p.workspace_bytes <= most_workspace) found.push_back(std::move(p));
  }
  return found;
}

/// One plan with one set of operands, ready to be enqueued.
template <class Library>
class Execution {
 public:
  Execution(const Library& library, std::shared_ptr<Plan<Library>> plan, const Data& data)
      : library_(library), plan_(std::move(plan)), pack_(library, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) {
    const std::int64_t ids[3] = {'x', 'w', 'y'};
    void* pointers[3] = {data.buffer("a").data(), data.buffer("b").data(),
                         data.arguments().outputs.begin()->second.data};
    if (!plan_->scratch) {
      plan_->scratch =
          std::make_unique<gpu::Buffer>(static_cast<std::size_t>(std::max<std::int64_t>(plan_->workspace_bytes, 256)));
      gpu::wait(nullptr, "preparing cuDNN's workspace");  // it is filled on another stream
    }
    void* scratch = plan_->scratch->data();
    pack_.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, ids)
        .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, pointers)
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &scratch)
        .finish();
  }
  void enqueue(CUstream stream) const {
    library_.check(library_.set_stream(library_.handle, stream), "giving cuDNN a stream");
    library_.check(library_.execute(library_.handle, plan_->plan->get(), pack_.get()), "running cuDNN");
  }

 private:
  const Library& library_;
  std::shared_ptr<Plan<Library>> plan_;
  Descriptor<Library> pack_;
};

}  // namespace

Cudnn::Cudnn(const std::filesystem::path& folder) : impl_(std::make_unique<Impl>(folder)) {}
Cudnn::~Cudnn() = default;

std::string Cudnn::version() const {
  const std::size_t v = impl_->get_version();
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

std::vector<Engine> Cudnn::engines(const Conv2d& conv, Direction direction,
                                   const std::vector<std::unique_ptr<Data>>& sets) {
  if (conv.layout != Layout::nhwc) throw UserError("cuDNN is timed with channels last alone");
  const Operation<Impl> operation(*impl_, conv, direction);
  auto plans = plans_of(*impl_, operation, CUDNN_HEUR_MODE_A);
  if (plans.empty()) plans = plans_of(*impl_, operation, CUDNN_HEUR_MODE_FALLBACK);
  if (plans.empty()) throw UserError("cuDNN proposes no engine for " + to_string(Contraction(conv)));
  std::vector<Engine> engines;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const auto plan = std::make_shared<Plan<Impl>>(std::move(plans[i]));
    Engine& engine = engines.emplace_back(Engine{fmt::format("proposal {} of {}", i + 1, plans.size()), {}});
    for (const auto& set : sets) {
      // made when it is first run: of many engines with large workspaces few are
      auto execution = std::make_shared<std::unique_ptr<Execution<Impl>>>();
      engine.sets.push_back([this, plan, execution, data = set.get()](CUstream stream) {
        if (!*execution) *execution = std::make_unique<Execution<Impl>>(*impl_, plan, *data);
        (*execution)->enqueue(stream);
      });
    }
  }
  return engines;
}

}  // namespace unisono::bench
