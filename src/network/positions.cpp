#include "network/positions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <type_traits>

#include "network/islands.hpp"
#include "network/space.hpp"

namespace unisono::network {

namespace {

constexpr std::int64_t most_terms = 16;  // of a product: an affine map has three or four

bool has_few_terms(const Network& n, const Operator& op) {
  const Shape& a = n[op.inputs[0]].shape;
  return !a.empty() && a.back().known() && a.back().value() <= most_terms;
}

// Inputs whose elements are the result's places, or parts of them
std::span<const TensorId> places_of(const Network& n, const Operator& op) {
  using namespace operators;
  const std::span<const TensorId> all = data_inputs(op);
  const auto is = [&]<class... K>(std::type_identity<K>...) { return (std::holds_alternative<K>(op.kind) || ...); };
  if (is(std::type_identity<Elementwise>(), std::type_identity<Map>(), std::type_identity<Concat>())) return all;
  if (is(std::type_identity<MatMul>())) return has_few_terms(n, op) ? all : all.first(0);
  const bool first = is_move(op.kind) || is(std::type_identity<Reduce>(), std::type_identity<CumulativeSum>(),
                                            std::type_identity<GridSample>());
  return first ? all.first(1) : all.first(0);
}

// Where an operator reads a position, whatever becomes of its result
std::optional<TensorId> position_read_by(const Network& n, const Operator& op) {
  if (std::holds_alternative<operators::GridSample>(op.kind)) return op.inputs[1];
  const auto* map = std::get_if<operators::Map>(&op.kind);
  if (map != nullptr && map->op == MapOp::cast && is_wide_integer(n[op.output].dtype)) return op.inputs[0];
  return std::nullopt;
}

std::vector<bool> wanted_positions(const Network& n) {
  std::vector<bool> wanted(n.tensors.size(), false);
  // f64 has all digits, and passes on those that it is made of
  const auto want = [&](TensorId id) {
    wanted[id] = wanted[id] || n[id].dtype == DType::f32 || n[id].dtype == DType::f64;
  };
  for (std::size_t i = n.operators.size(); i-- > 0;) {
    const Operator& op = n.operators[i];
    if (const auto id = position_read_by(n, op)) want(*id);
    if (wanted[op.output])
      for (const TensorId id : places_of(n, op)) want(id);
  }
  return wanted;
}

// Whether the operator can write f32, and has more to write than 16 bits that it reads
bool is_made_in_f32(const Network& n, const Operator& op, const std::vector<bool>& positions) {
  const auto places = places_of(n, op);
  const auto has_digits = [&](TensorId id) {
    return n[id].is_constant() || positions[id] || n[id].dtype == DType::f64;
  };
  if (std::holds_alternative<operators::Concat>(op.kind)) return std::ranges::any_of(places, has_digits);
  if (is_move(op.kind)) return std::ranges::all_of(places, has_digits);
  return !places.empty();
}

// Whether the operator's kernel reads the tensor as f32
bool takes_f32(const Network& n, const Region& r, const Operator& op, TensorId id, const std::vector<bool>& positions) {
  if (is_mask_of(op, id)) return true;
  const NetworkTensor& to = n[op.output];
  if (!(n[id].keeps_f32 ? stores_islands(n, r) : knows_f32(n, r))) return false;
  const bool computes =
      std::holds_alternative<operators::Elementwise>(op.kind) || (n[id].keeps_f32 && is_pointwise(op.kind));
  return computes || converts(op.kind) || positions[op.output] || to.keeps_f32 || to.dtype != DType::f32;
}

}  // namespace

std::vector<bool> positions(const Network& network) {
  std::vector<bool> wanted = wanted_positions(network);
  for (TensorId id = 0; id < wanted.size(); ++id) wanted[id] = wanted[id] && network[id].dtype == DType::f32;
  std::vector<bool> all(wanted.size(), false);
  for (const TensorId id : network.inputs) all[id] = wanted[id];
  for (const Operator& op : network.operators) all[op.output] = wanted[op.output] && is_made_in_f32(network, op, all);
  return all;
}

Network with_exact_products(Network network) {
  const std::vector<bool> wanted = wanted_positions(network);
  for (Operator& op : network.operators) {
    const bool plain = op.kind == OperatorKind(operators::Gemm{}) && op.inputs.size() == 2;
    if (plain && wanted[op.output] && has_few_terms(network, op)) op.kind = operators::MatMul{};
  }
  return network;
}

std::string rounded_copy_of(const std::string& name) { return name + "_rounded"; }

std::optional<Network> with_rounded_copies(const FusedNetwork& fused) {
  const Network& n = fused.network;
  const std::vector<bool> all = positions(n);
  std::vector<const Region*> region(n.operators.size());
  for (const Region& r : fused.regions)
    for (const std::size_t i : r.operators) region[i] = &r;
  Network out = n;
  std::map<TensorId, TensorId> copies;
  for (std::size_t i = 0; i < n.operators.size(); ++i) {
    const Operator& op = n.operators[i];
    for (std::size_t k = 0; k < data_inputs(op).size(); ++k) {
      const TensorId id = op.inputs[k];
      if (!(all[id] || n[id].keeps_f32) || takes_f32(n, *region[i], op, id, all)) continue;
      const auto [copy, is_new] = copies.emplace(id, static_cast<TensorId>(out.tensors.size()));
      if (is_new) {
        out.tensors.push_back(n[id]);
        out.tensors.back().name = rounded_copy_of(n[id].name);
        out.tensors.back().keeps_f32 = false;
      }
      out.operators[i].inputs[k] = copy->second;
    }
  }
  if (copies.empty()) return std::nullopt;
  std::vector<Operator> operators = std::move(out.operators);
  out.operators.clear();
  const auto add_copy = [&](TensorId id) {
    if (const auto copy = copies.find(id); copy != copies.end())
      out.operators.push_back({operators::Identity{}, out[copy->second].name, {id}, copy->second});
  };
  for (const TensorId id : n.inputs) add_copy(id);
  for (Operator& op : operators) {
    const TensorId made = op.output;
    out.operators.push_back(std::move(op));
    add_copy(made);
  }
  return out;
}

}  // namespace unisono::network
