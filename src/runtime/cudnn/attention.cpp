#include "runtime/cudnn/attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "runtime/cudnn/descriptor.hpp"
#include "unisono/error.hpp"

namespace unisono::cudnn {

namespace {

constexpr std::size_t most_workspace = std::size_t{256} << 20;

using Four = std::array<std::int64_t, 4>;

DataType type_of(DType t) {
  if (t == DType::bf16) return DataType::bf16;
  if (t == DType::f16) return DataType::f16;
  if (t == DType::f32) return DataType::f32;
  throw InternalError(fmt::format("attention by cuDNN of {}", to_string(t)));
}

Four dense(const Four& extents) {
  return {extents[1] * extents[2] * extents[3], extents[2] * extents[3], extents[3], 1};
}

/// The operations of attention, as cuDNN's engines recognise them: a product, what is done to the scores, a softmax
/// written out, a product.
class AttentionGraph {
 public:
  AttentionGraph(Calls& calls, const AttentionProblem& problem, const Target& target);
  const Descriptor& graph() const { return *graph_; }
  /// Numbers of q, k, v, y and biases; that of the scale stands behind them.
  const std::vector<std::int64_t>& ids() const { return ids_; }

 private:
  enum class Kind : std::uint8_t { memory, by_value, intermediate };
  const Descriptor& tensor(const Four& extents, const Four& strides, DataType type, Kind kind);
  const Descriptor& given(const Matrices& m) { return tensor(m.extents, m.strides, type_of(m.type), Kind::memory); }
  const Descriptor& intermediate(const Four& extents, DataType type = DataType::f32) {
    return tensor(extents, dense(extents), type, Kind::intermediate);
  }
  void product(const Descriptor& a, const Descriptor& b, const Descriptor& c);
  void pointwise(PointwiseMode mode, const Descriptor& x, const Descriptor* b, const Descriptor& y);
  void reduction(ReductionOperator mode, const Descriptor& x, const Descriptor& y);
  Descriptor& add(DescriptorType type) { return all_.emplace_back(calls_, type); }

  Calls& calls_;
  std::deque<Descriptor> all_;
  std::vector<BackendDescriptor> operations_;
  std::vector<std::int64_t> ids_;
  std::int64_t next_id_ = 1;
  const Descriptor* graph_ = nullptr;
};

const Descriptor& AttentionGraph::tensor(const Four& extents, const Four& strides, DataType type, Kind kind) {
  const std::int64_t alignment = 16, id = next_id_++;
  if (kind != Kind::intermediate) ids_.push_back(id);
  Descriptor& d = add(DescriptorType::tensor);
  d.set(calls_, Attribute::tensor_data_type, AttributeType::data_type, type)
      .set(calls_, Attribute::tensor_dimensions, AttributeType::int64, 4, extents.data())
      .set(calls_, Attribute::tensor_strides, AttributeType::int64, 4, strides.data())
      .set(calls_, Attribute::tensor_unique_id, AttributeType::int64, id)
      .set(calls_, Attribute::tensor_byte_alignment, AttributeType::int64, alignment)
      .set(calls_, Attribute::tensor_is_virtual, AttributeType::boolean, kind == Kind::intermediate)
      .set(calls_, Attribute::tensor_is_by_value, AttributeType::boolean, kind == Kind::by_value)
      .finish(calls_, "describing a tensor to cuDNN");
  return d;
}

void AttentionGraph::product(const Descriptor& a, const Descriptor& b, const Descriptor& c) {
  const Descriptor& how = add(DescriptorType::matmul)
                              .set(calls_, Attribute::matmul_compute_type, AttributeType::data_type, DataType::f32)
                              .finish(calls_, "describing a product to cuDNN");
  operations_.push_back(add(DescriptorType::operation_matmul)
                            .set(calls_, Attribute::operation_matmul_a, a)
                            .set(calls_, Attribute::operation_matmul_b, b)
                            .set(calls_, Attribute::operation_matmul_c, c)
                            .set(calls_, Attribute::operation_matmul_descriptor, how)
                            .finish(calls_, "describing a product to cuDNN")
                            .get());
}

void AttentionGraph::pointwise(PointwiseMode mode, const Descriptor& x, const Descriptor* b, const Descriptor& y) {
  const Descriptor& how = add(DescriptorType::pointwise)
                              .set(calls_, Attribute::pointwise_mode, AttributeType::pointwise_mode, mode)
                              .set(calls_, Attribute::pointwise_math_precision, AttributeType::data_type, DataType::f32)
                              .finish(calls_, "describing an elementwise operation to cuDNN");
  Descriptor& operation = add(DescriptorType::operation_pointwise)
                              .set(calls_, Attribute::operation_pointwise_descriptor, how)
                              .set(calls_, Attribute::operation_pointwise_x, x)
                              .set(calls_, Attribute::operation_pointwise_y, y);
  if (b != nullptr) operation.set(calls_, Attribute::operation_pointwise_b, *b);
  operations_.push_back(operation.finish(calls_, "describing an elementwise operation to cuDNN").get());
}

void AttentionGraph::reduction(ReductionOperator mode, const Descriptor& x, const Descriptor& y) {
  const Descriptor& how = add(DescriptorType::reduction)
                              .set(calls_, Attribute::reduction_operator, AttributeType::reduction_operator, mode)
                              .set(calls_, Attribute::reduction_compute_type, AttributeType::data_type, DataType::f32)
                              .finish(calls_, "describing a reduction to cuDNN");
  operations_.push_back(add(DescriptorType::operation_reduction)
                            .set(calls_, Attribute::operation_reduction_x, x)
                            .set(calls_, Attribute::operation_reduction_y, y)
                            .set(calls_, Attribute::operation_reduction_descriptor, how)
                            .finish(calls_, "describing a reduction to cuDNN")
                            .get());
}

AttentionGraph::AttentionGraph(Calls& calls, const AttentionProblem& p, const Target& target) : calls_(calls) {
  const Four scores{p.q.extents[0], p.q.extents[1], p.q.extents[2], p.k.extents[2]};
  const Four rows{scores[0], scores[1], scores[2], 1};
  Matrices transposed = p.k;  // (…, width, keys)
  std::swap(transposed.extents[2], transposed.extents[3]);
  std::swap(transposed.strides[2], transposed.strides[3]);
  const Descriptor &q = given(p.q), &k = given(transposed), &v = given(p.v), &y = given(p.y);
  std::vector<const Descriptor*> biases;
  for (const Matrices& bias : p.biases) biases.push_back(&given(bias));
  const Descriptor& scale = tensor({1, 1, 1, 1}, {1, 1, 1, 1}, DataType::f32, Kind::by_value);

  const Descriptor* now = &intermediate(scores);
  product(q, k, *now);
  const auto step = [&](PointwiseMode mode, const Descriptor* operand) {
    const Descriptor& next = intermediate(scores);
    pointwise(mode, *now, operand, next);
    now = &next;
  };
  step(PointwiseMode::mul, &scale);
  for (const Descriptor* bias : biases) step(PointwiseMode::add, bias);
  const Descriptor &highest = intermediate(rows), &sum = intermediate(rows);
  reduction(ReductionOperator::max, *now, highest);
  step(PointwiseMode::sub, &highest);
  step(PointwiseMode::exp, nullptr);
  reduction(ReductionOperator::add, *now, sum);
  // the logarithm of each row's sum, which nothing reads: graphs without it are none that cuDNN's engines know
  const Descriptor &logarithm = intermediate(rows), &statistics = intermediate(rows);
  pointwise(PointwiseMode::log, sum, nullptr, logarithm);
  pointwise(PointwiseMode::add, highest, &logarithm, statistics);
  const Descriptor& weights = intermediate(scores, type_of(p.q.type));
  pointwise(PointwiseMode::div, *now, &sum, weights);
  product(weights, v, y);

  Descriptor& all = add(DescriptorType::operation_graph).set(calls, Attribute::graph_operations, operations_);
  if (target.handle != nullptr) all.set(calls, Attribute::graph_handle, AttributeType::handle, target.handle);
  graph_ = &all.finish(calls, "describing attention to cuDNN");
}

class FoundPlan final : public AttentionPlan {
 public:
  FoundPlan(const Library& library, float scale) : library_(library), scale_(scale) {}
  const Library& library() const override { return library_; }
  std::size_t workspace_bytes() const override { return workspace_; }
  std::string text() const override {
    return fmt::format("attention by cuDNN {}, engine {}", library_.version_text(), engine_);
  }

  std::unique_ptr<Descriptor> config, plan;
  std::vector<std::int64_t> ids;

  /// The reason why this proposal is no plan; empty if it is one now. `device`: null if there is a handle.
  std::string finish(std::unique_ptr<Descriptor> proposal, Handle handle, const Descriptor* device);
  float scale() const { return scale_; }

 private:
  void read(Calls& calls);

  const Library& library_;
  float scale_;
  std::size_t workspace_ = 0;
  std::int64_t engine_ = 0;
};

void FoundPlan::read(Calls& calls) {
  workspace_ = static_cast<std::size_t>(plan->int64_of(calls, Attribute::plan_workspace_size));
  const Descriptor engine(calls, DescriptorType::engine);
  BackendDescriptor handle = engine.get();
  std::int64_t count = 0;
  if (calls.failed()) return;
  calls.check(library_.call.BackendGetAttribute(config->get(), Attribute::config_engine, AttributeType::descriptor, 1,
                                                &count, &handle),
              "asking for cuDNN's engine");
  engine_ = engine.int64_of(calls, Attribute::engine_global_index);
}

std::string FoundPlan::finish(std::unique_ptr<Descriptor> proposal, Handle handle, const Descriptor* device) {
  Calls calls(library_);
  config = std::move(proposal);
  plan = std::make_unique<Descriptor>(calls, DescriptorType::execution_plan);
  if (device != nullptr)
    plan->set(calls, Attribute::plan_device_properties, *device);
  else
    plan->set(calls, Attribute::plan_handle, AttributeType::handle, handle);
  plan->set(calls, Attribute::plan_engine_config, *config).finish(calls, "making cuDNN's plan");
  read(calls);
  if (calls.failed() || workspace_ <= most_workspace) return calls.failure();
  return fmt::format("cuDNN's plan takes {} bytes of workspace; expected at most {}", workspace_, most_workspace);
}

std::unique_ptr<Descriptor> described_device(Calls& calls, const plan::Device& device) {
  const std::string json = properties_of(device);
  auto described = std::make_unique<Descriptor>(calls, DescriptorType::device_properties);
  described
      ->set(calls, Attribute::device_properties_json, AttributeType::character, static_cast<std::int64_t>(json.size()),
            json.data())
      .finish(calls, "describing a device to cuDNN");
  return described;
}

// The configurations that a heuristic proposes
std::vector<std::unique_ptr<Descriptor>> proposals(Calls& calls, const Descriptor& graph, HeuristicMode mode,
                                                   const Descriptor* device) {
  constexpr std::int64_t most = 16;
  Descriptor heuristic(calls, DescriptorType::engine_heuristic);
  heuristic.set(calls, Attribute::heuristic_operation_graph, graph)
      .set(calls, Attribute::heuristic_mode, AttributeType::heuristic_mode, mode);
  if (device != nullptr) heuristic.set(calls, Attribute::heuristic_device_properties, *device);
  heuristic.finish(calls, "asking cuDNN for engines of attention");
  std::vector<std::unique_ptr<Descriptor>> configs;
  std::vector<BackendDescriptor> handles;
  for (std::int64_t i = 0; i < most; ++i) {
    configs.push_back(std::make_unique<Descriptor>(calls, DescriptorType::engine_config));
    handles.push_back(configs.back()->get());
  }
  std::int64_t count = 0;
  if (calls.failed()) return {};
  calls.check(calls.library().call.BackendGetAttribute(heuristic.get(), Attribute::heuristic_results,
                                                       AttributeType::descriptor, most, &count, handles.data()),
              "asking cuDNN for engines of attention");
  configs.resize(calls.failed() ? 0 : static_cast<std::size_t>(std::clamp<std::int64_t>(count, 0, most)));
  return configs;
}

std::string none_proposed(const Library& library) {
  const std::string why = library.last_error();
  return "cuDNN proposes no engine" + (why.empty() ? "" : ": " + why);
}

}  // namespace

// An H200 was
bool attention_was_timed(const plan::Device& device) { return device.major == 9 && device.minor == 0; }

std::string properties_of(const plan::Device& d) {
  return fmt::format(
      R"({{"deviceName":"{}","deviceVer":{},"driverVer":13000,"cudaDeviceId":0,"pciDeviceId":0,"isTccDriver":0,)"
      R"("supportCoopLaunch":1,"multiProcessorCount":{},"warpSize":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":{},)"
      R"("maxCtasPerSM":32,"regsPerBlock":65536,"maxRegistersPerSM":65536,"maxSharedMemoryPerBlock":49152,)"
      R"("maxSharedMemoryPerBlockOptin":{},"reservedSharedMemoryPerBlock":1024,"l2CacheSize":{},)"
      R"("smClockRateKHz":{},"memClockRateKHz":3201000,"memoryBusWidth":6144,"totalGlobalMem":150000000000,)"
      R"("oversizedSharedMemoryPerBlock":0,)"
      R"("maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64]}})",
      d.name, 100 * d.major + 10 * d.minor, d.sms, d.threads, d.shared_bytes, d.l2_bytes,
      static_cast<std::int64_t>(d.clock_ghz * 1e6));
}

plan::Expected<std::shared_ptr<const AttentionPlan>> plan_attention(const Library& library,
                                                                    const AttentionProblem& problem,
                                                                    const Target& target) {
  Calls calls(library);
  const std::unique_ptr<Descriptor> device =
      target.handle == nullptr ? described_device(calls, *target.described) : nullptr;
  const AttentionGraph graph(calls, problem, target);
  if (calls.failed()) return plan::because(calls.failure());
  std::string last;
  for (const HeuristicMode mode : {HeuristicMode::a, HeuristicMode::fallback}) {
    Calls asked(library);
    auto configs = proposals(asked, graph.graph(), mode, device.get());
    if (asked.failed() || configs.empty()) last = asked.failed() ? asked.failure() : none_proposed(library);
    for (std::unique_ptr<Descriptor>& config : configs) {
      auto found = std::make_shared<FoundPlan>(library, problem.scale);
      found->ids = graph.ids();
      last = found->finish(std::move(config), target.handle, device.get());
      if (last.empty()) return std::shared_ptr<const AttentionPlan>(std::move(found));
    }
  }
  return plan::because(last);
}

struct AttentionRun::Impl {
  std::shared_ptr<const FoundPlan> plan;
  float scale;
  std::unique_ptr<Descriptor> pack;
};

AttentionRun::AttentionRun(std::shared_ptr<const AttentionPlan> plan, std::span<void* const> addresses, void* workspace)
    : impl_(std::make_unique<Impl>()) {
  impl_->plan = std::static_pointer_cast<const FoundPlan>(std::move(plan));
  impl_->scale = impl_->plan->scale();
  const std::vector<std::int64_t>& ids = impl_->plan->ids;
  std::vector<void*> all(addresses.begin(), addresses.end());
  all.push_back(&impl_->scale);  // on the host: by value
  if (all.size() != ids.size())
    throw InternalError(fmt::format("{} addresses for {} tensors of cuDNN's attention", all.size(), ids.size()));
  Calls calls(impl_->plan->library());
  impl_->pack = std::make_unique<Descriptor>(calls, DescriptorType::variant_pack);
  impl_->pack
      ->set(calls, Attribute::pack_unique_ids, AttributeType::int64, static_cast<std::int64_t>(ids.size()), ids.data())
      .set(calls, Attribute::pack_data_pointers, AttributeType::void_pointer, static_cast<std::int64_t>(all.size()),
           all.data())
      .set(calls, Attribute::pack_workspace, AttributeType::void_pointer, workspace)
      .finish(calls, "binding tensors for cuDNN");
  if (calls.failed()) throw DeviceError(calls.failure());
}

AttentionRun::~AttentionRun() = default;

void AttentionRun::enqueue(Handle handle, CudaStream stream) const {
  const Library& library = impl_->plan->library();
  Calls calls(library);
  if (calls.check(library.call.SetStream(handle, stream), "giving cuDNN a stream"))
    calls.check(library.call.BackendExecute(handle, impl_->plan->plan->get(), impl_->pack->get()),
                "running attention by cuDNN");
  if (calls.failed()) throw DeviceError(calls.failure());
}

}  // namespace unisono::cudnn
