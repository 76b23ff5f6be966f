#include "network/cuda/emit/host_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "network/dim.hpp"
#include "network/names.hpp"

namespace unisono::network::gpu {

namespace {

// Copies operators, and the tensors that they read and make, with the extents that are planned for
class HostNetwork {
 public:
  HostNetwork(const PlanningInput& in, const HostGroup& group) : in_(in), group_(group) {}

  Network run() {
    out_.name = in_.net().name;
    for (const TensorId id : group_.inputs) out_.inputs.push_back(named(id));
    for (const TensorId id : group_.shapes) out_.inputs.push_back(named(id));
    for (const TensorId id : group_.outputs) out_.outputs.push_back(named(id));
    for (const std::size_t i : group_.operators) add(in_.net().operators[i]);
    return std::move(out_);
  }

 private:
  TensorId tensor(TensorId id);
  TensorId named(TensorId id);
  void add(const Operator& op);
  TensorId upsampled(const Operator& op);
  TensorId reshaped(TensorId id, Shape shape);
  void add_volume(Operator own, const operators::StackedConv3d& c);

  const PlanningInput& in_;
  const HostGroup& group_;
  Network out_;
  std::map<TensorId, TensorId> made_;  // by tensor of the whole network
  std::set<std::string> names_;        // names of inputs and outputs
};

TensorId HostNetwork::tensor(TensorId id) {
  const auto [at, is_new] = made_.emplace(id, static_cast<TensorId>(out_.tensors.size()));
  if (!is_new) return at->second;
  out_.tensors.push_back(in_.net()[id]);
  if (!in_.is_constant(id)) out_.tensors.back().shape = to_shape(in_.sizes(id));
  return at->second;
}

// An input or output, by which the step finds it: tensors of a network may share a name, these must not
TensorId HostNetwork::named(TensorId id) {
  const TensorId own = tensor(id);
  std::string& name = out_.tensors[own].name;
  while (!names_.insert(name).second) name += '_';
  return own;
}

void HostNetwork::add(const Operator& op) {
  Operator own = op;
  for (TensorId& id : own.inputs) id = tensor(id);
  own.output = tensor(op.output);
  if (const auto* c = std::get_if<operators::StackedConv3d>(&op.kind)) return add_volume(std::move(own), *c);
  if (const auto* c = std::get_if<operators::UpsampledConv2d>(&op.kind)) {
    own.inputs[0] = upsampled(own);
    own.kind = operators::Conv2d{*c};
  }
  out_.operators.push_back(std::move(own));
}

// The same elements in another shape
TensorId HostNetwork::reshaped(TensorId id, Shape shape) {
  NetworkTensor like = out_[id];
  like.name += "_volume", like.shape = std::move(shape);
  const auto to = static_cast<TensorId>(out_.tensors.size());
  out_.tensors.push_back(std::move(like));
  if (!out_.tensors[to].is_constant())
    out_.operators.push_back({operators::Reshape{.shape = values(out_.tensors[to].shape), .literal = true},
                              out_.tensors[to].name,
                              {id},
                              to});
  return to;
}

// The CPU convolves the volumes themselves
void HostNetwork::add_volume(Operator own, const operators::StackedConv3d& c) {
  const auto split = [](Shape s, std::int64_t planes) {
    s[2] = Dim(s[2].value() / planes);
    s.insert(s.begin() + 2, Dim(planes));
    return s;
  };
  own.inputs[0] = reshaped(own.inputs[0], split(out_[own.inputs[0]].shape, c.planes));
  own.inputs[1] = reshaped(own.inputs[1], split(out_[own.inputs[1]].shape, c.taps));
  own.kind = c.conv;
  std::vector<const NetworkTensor*> types;
  for (const TensorId id : own.inputs) types.push_back(&out_[id]);
  NetworkTensor volume = out_[own.output];
  volume.name += "_volume", volume.shape = infer_shape(own.kind, types, own.name);
  const TensorId image = own.output;
  own.output = static_cast<TensorId>(out_.tensors.size());
  out_.tensors.push_back(std::move(volume));
  const Operator back{
      operators::Reshape{.shape = values(out_[image].shape), .literal = true}, own.name, {own.output}, image};
  out_.operators.push_back(std::move(own));
  out_.operators.push_back(back);
}

// The CPU has no kernels for a convolution that upsamples its image: the image by an operator of its own
TensorId HostNetwork::upsampled(const Operator& op) {
  NetworkTensor large = out_[op.inputs[0]];
  large.name += "_upsampled";
  for (const std::size_t axis : {2u, 3u}) large.shape[axis] = Dim(2 * large.shape[axis].value());
  const auto to = static_cast<TensorId>(out_.tensors.size());
  out_.tensors.push_back(std::move(large));
  out_.operators.push_back({operators::Resize{.scale_h = 2, .scale_w = 2}, op.name, {op.inputs[0]}, to});
  return to;
}

HostTensor host_tensor(const PlanningInput& in, TensorId id, const std::string& name) {
  const Sizes& sizes = in.sizes(id);
  return {
      .name = name, .shape = sizes, .strides = logical_strides(sizes, column_count(sizes)), .type = in.net()[id].dtype};
}

// Among the network's inputs or outputs, which `first` others of the caller's tensors stand ahead of
std::vector<std::size_t> positions_of(const std::vector<TensorId>& list, TensorId id, std::size_t first) {
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i] == id) positions.push_back(first + i);
  return positions;
}

std::string amount(std::size_t bytes) {
  if (bytes < 10'000) return fmt::format("{} bytes", bytes);
  if (bytes < 1'000'000) return fmt::format("{:.1f} KB", 1e-3 * static_cast<double>(bytes));
  return fmt::format("{:.1f} MB", 1e-6 * static_cast<double>(bytes));
}

std::size_t crossing_bytes(const std::vector<HostTensor>& tensors) {
  std::size_t sum = 0;
  for (const HostTensor& t : tensors) sum += t.crosses() ? t.bytes : 0;
  return sum;
}

// Where elements come from and go to; without, a tensor lends its extents alone
void place_tensors(const PlanningInput& in, const HostGroup& group, HostPlaces& places, HostStep& step) {
  const auto place = [&](TensorId id, HostTensor& t, const std::vector<TensorId>& by_kernels) {
    t.bytes = static_cast<std::size_t>(element_count(t.shape)) * size_of(t.type);
    t.offset = places.offset(id, t.bytes);
    if (t.bytes != 0 && std::ranges::find(by_kernels, id) != by_kernels.end()) t.staged = places.staged(t.bytes);
  };
  const Network& n = in.net();
  for (std::size_t i = 0; i < group.inputs.size(); ++i) {
    place(group.inputs[i], step.inputs[i], group.from_kernels);
    step.inputs[i].callers = positions_of(n.inputs, group.inputs[i], 0);
  }
  for (std::size_t i = 0; i < group.outputs.size(); ++i) {
    place(group.outputs[i], step.outputs[i], group.to_kernels);
    step.outputs[i].callers = positions_of(n.outputs, group.outputs[i], n.inputs.size());
  }
}

void write_texts(const PlanningInput& in, const NetworkPlan& plan, const HostGroup& group, HostStep& step) {
  std::string why;
  for (std::size_t i = group.first; i <= group.last; ++i) {
    if (!plan.regions[i].host) continue;
    const auto& [op, refusal] = *plan.regions[i].host;
    if (why.empty()) why = refusal.first();
    step.unserved.push_back(fmt::format("{}: {}", where(in.net().operators[op]), refusal.first()));
  }
  const std::size_t more = group.operators.size() - 1;
  step.name = in.name(in.region(group.last).outputs[0].tensor);
  step.what = describe(in.net(), in.net().operators[group.operators[0]]) +
              (more == 0 ? "" : fmt::format(" and {} more operator{}", more, more == 1 ? "" : "s"));
  const std::size_t there = crossing_bytes(step.inputs), back = crossing_bytes(step.outputs);
  step.how = fmt::format("host step: {}; {} there, {} back", why, amount(there), amount(back));
  step.bytes = static_cast<double>(there + back);
}

}  // namespace

HostStep host_step(const PlanningInput& in, const NetworkPlan& plan, const HostGroup& group, HostPlaces& places) {
  HostStep step;
  step.network = HostNetwork(in, group).run();
  std::vector<TensorId> read = group.inputs;
  read.insert(read.end(), group.shapes.begin(), group.shapes.end());
  for (std::size_t i = 0; i < read.size(); ++i)
    step.inputs.push_back(host_tensor(in, read[i], step.network[step.network.inputs[i]].name));
  for (std::size_t i = 0; i < group.outputs.size(); ++i)
    step.outputs.push_back(host_tensor(in, group.outputs[i], step.network[step.network.outputs[i]].name));
  place_tensors(in, group, places, step);
  write_texts(in, plan, group, step);
  return step;
}

}  // namespace unisono::network::gpu
