/// Which constants of a network are its parameters.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "gradients/parameters.hpp"
#include "unisono/error.hpp"
#include "unisono/gradients.hpp"

namespace unisono {

namespace autodiff {

std::map<TensorId, std::string> parameter_names(const Network& network) {
  std::map<std::string, int> times;
  std::map<TensorId, std::string> names;
  for (TensorId id = 0; id < network.tensors.size(); ++id)
    if (network[id].constant && !network[id].name.empty()) ++times[names[id] = network[id].name];
  std::set<TensorId> read;
  for (const Operator& op : network.operators)
    for (const TensorId id : op.inputs) {
      const auto found = names.find(id);
      if (found == names.end() || times[found->second] == 1 || !read.insert(id).second) continue;
      found->second += "@" + op.name;
      ++times[found->second];
    }
  std::erase_if(names, [&](const auto& n) { return times[n.second] > 1; });
  return names;
}

}  // namespace autodiff

namespace {

class Trainable {
 public:
  explicit Trainable(const Network& n) : n_(n), names_(autodiff::parameter_names(n)), is_affine_(n.tensors.size()) {}

  std::vector<std::string> found() {
    for (const Operator& op : n_.operators) {
      if (std::ranges::all_of(op.inputs, [&](TensorId id) { return is_given(id); })) given_by_[op.output] = &op;
      std::visit([&](const auto& kind) { add_of(kind, op); }, op.kind);
    }
    return std::move(found_);
  }

 private:
  // A constant, or computed from constants alone
  bool is_given(TensorId id) const { return n_[id].is_constant() || given_by_.contains(id); }
  void add(TensorId id) {
    if (const auto by = given_by_.find(id); by != given_by_.end()) {
      for (const TensorId source : by->second->inputs)
        if (!n_[source].shape.empty()) add(source);  // a scalar is no parameter
      return;
    }
    const auto name = names_.find(id);
    if (name != names_.end() && seen_.insert(id).second) found_.push_back(name->second);
  }
  void add_from(const Operator& op, std::size_t first, std::size_t end = 8) {
    for (std::size_t i = first; i < std::min(end, op.inputs.size()); ++i) add(op.inputs[i]);
  }
  void add_of(const operators::Conv2d&, const Operator& op) { add_from(op, 1); }
  void add_of(const operators::ConvTranspose2d&, const Operator& op) { add_from(op, 1); }
  void add_of(const operators::Conv3d&, const Operator& op) { add_from(op, 1); }
  void add_of(const operators::Gemm&, const Operator& op) {
    add_from(op, 0);
    is_affine_[op.output] = op.inputs.size() == 2;  // a MatMul of an ONNX file, whose bias is added
  }
  void add_of(const operators::MatMul&, const Operator& op) { add_affine(op, 0, 2); }
  void add_of(const operators::Normalisation&, const Operator& op) { add_affine(op, 1, 3); }
  void add_of(const operators::BatchNorm&, const Operator& op) { add_from(op, 1, 3); }
  void add_of(const operators::Reshape&, const Operator& op) { is_affine_[op.output] = is_affine_[op.inputs[0]]; }
  void add_of(const operators::ReshapeLike&, const Operator& op) { is_affine_[op.output] = is_affine_[op.inputs[0]]; }
  void add_of(const operators::Recurrence& r, const Operator& op) { add_from(op, 1, r.has_extra ? 3 : 2); }
  void add_of(const operators::Gather& g, const Operator& op) {
    if (g.axis == 0 && n_[op.inputs[0]].shape.size() == 2) add(op.inputs[0]);
  }
  // Bias, scale and shift as exporters write them by themselves
  void add_of(const operators::Elementwise& e, const Operator& op) {
    if (e.op != Op::add && e.op != Op::mul) return;
    for (const std::size_t i : {0U, 1U}) {
      if (!is_affine_[op.inputs[1 - i]] || !is_vector(op.inputs[i])) continue;
      add(op.inputs[i]);
      is_affine_[op.output] = true;
    }
  }
  void add_of(const auto&, const Operator&) {}

  void add_affine(const Operator& op, std::size_t first, std::size_t end) {
    add_from(op, first, end);
    is_affine_[op.output] = true;
  }
  bool is_vector(TensorId id) const {
    const Shape& s = n_[id].shape;
    const auto extended = std::count_if(s.begin(), s.end(), [](const Dim& d) { return !(d == Dim(1)); });
    // of one channel: (1,1,1); a scalar is no parameter
    return n_[id].dtype == DType::f32 && is_given(id) && !s.empty() && extended <= 1;
  }

  const Network& n_;
  const std::map<TensorId, std::string> names_;
  std::map<TensorId, const Operator*> given_by_;  // what is computed from constants alone
  std::vector<bool> is_affine_;  // by tensor: vectors that are multiplied by it or added to it are learnt
  std::set<TensorId> seen_;
  std::vector<std::string> found_;
};

}  // namespace

std::vector<std::string> trainable_constants(const Network& network) { return Trainable(network).found(); }

Network with_constants(Network network, const std::map<TensorId, std::vector<float>>& values) {
  for (const auto& [id, elements] : values) {
    if (id >= network.tensors.size() || network[id].constant == nullptr)
      throw UserError(
          fmt::format("with_constants: tensor {} of network '{}' is not a constant of f32", id, network.name));
    NetworkTensor& t = network.tensors[id];
    if (t.constant->size() != elements.size())
      throw UserError(fmt::format("with_constants: '{}' has {} elements; {} were given", t.name, t.constant->size(),
                                  elements.size()));
    t.constant = std::make_shared<const std::vector<float>>(elements);
  }
  return network;
}

}  // namespace unisono
