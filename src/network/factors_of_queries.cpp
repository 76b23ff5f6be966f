/// A factor of each matrix of a batch, as attention by cosine has one for each head, multiplies the queries instead of
/// the scores: there are fewer of them, and attention is found, whose scores have one factor.

#include <algorithm>
#include <optional>
#include <set>

#include "network/attention_match.hpp"
#include "network/dim.hpp"
#include "network/infer_tensors.hpp"
#include "network/regions.hpp"
#include "network/space.hpp"

namespace unisono::network {

namespace {

// One number for each matrix, and not only one
bool is_of_matrices(const Shape& s) {
  return s.size() >= 3 && is_one(s[s.size() - 1]) && is_one(s[s.size() - 2]) &&
         !std::ranges::all_of(s, [](const Dim& d) { return is_one(d); });
}

// Whether a softmax is made of the tensor, with masks added and in another shape: elsewhere a factor is cheaper on the
// product's sums, and they have more digits
bool are_scores(const TensorUses& uses, TensorId id) {
  for (int left = 8; left > 0; --left) {
    const Operator* reader = uses.only_reader(id);
    if (reader == nullptr) return false;
    if (std::holds_alternative<operators::Softmax>(reader->kind)) return true;
    const auto* e = std::get_if<operators::Elementwise>(&reader->kind);
    if (!is_reshape(reader->kind) && (e == nullptr || e->op != Op::add)) return false;
    id = reader->output;
  }
  return false;
}

// A product whose result is multiplied by one number for each of its matrices, and by nothing else
struct Factor {
  const Operator* product = nullptr;
  TensorId number = 0;
};

std::optional<Factor> factor_of_scores(const Network& n, const TensorUses& uses, const Operator& op) {
  const auto* e = std::get_if<operators::Elementwise>(&op.kind);
  if (e == nullptr || e->op != Op::mul || op.inputs.size() != 2) return std::nullopt;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const Operator* product = uses.producer(op.inputs[i]);
    const TensorId number = op.inputs[1 - i];
    if (product == nullptr || !std::holds_alternative<operators::MatMul>(product->kind)) continue;
    const Shape &queries = n[product->inputs[0]].shape, &made = n[op.inputs[i]].shape;
    const bool alone =
        uses.only_reader(op.inputs[i]) == &op && n[op.output].shape == made && are_scores(uses, op.output);
    if (alone && is_of_matrices(n[number].shape) && queries.size() == made.size() &&
        n[number].keeps_f32 == n[op.output].keeps_f32 && broadcast_shapes(queries, n[number].shape, op.name) == queries)
      return Factor{product, number};
  }
  return std::nullopt;
}

}  // namespace

Network with_factors_of_queries(const Network& network) {
  const TensorUses uses(network);
  Network out = network;
  out.operators.clear();
  std::set<const Operator*> later;  // products that are made after their factors
  for (const Operator& op : network.operators)
    if (const auto factor = factor_of_scores(network, uses, op)) later.insert(factor->product);
  for (const Operator& op : network.operators) {
    if (later.contains(&op)) continue;
    const auto factor = factor_of_scores(network, uses, op);
    if (!factor) {
      out.operators.push_back(op);
      continue;
    }
    const Operator& product = *factor->product;
    NetworkTensor queries = network[product.inputs[0]];
    queries.name = network[op.output].name + "_queries";
    out.tensors.push_back(std::move(queries));
    const auto scaled = static_cast<TensorId>(out.tensors.size() - 1);
    out.operators.push_back({op.kind, op.name, {product.inputs[0], factor->number}, scaled});
    out.operators.push_back({product.kind, product.name, {scaled, product.inputs[1]}, op.output});
  }
  return out;
}

}  // namespace unisono::network
