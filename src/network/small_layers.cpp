/// Two layers of a pixel an image behind a pool, such as a squeeze-and-excitation block has: each is small, so that a
/// launch of its own takes longer than its work.

#include <algorithm>

#include "network/dim.hpp"
#include "network/regions.hpp"
#include "network/space.hpp"

namespace unisono::network {

namespace {

constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

// The image's pixels of a tensor of rank 4, to their mean
bool is_pool(const OperatorKind& kind, const Shape& shape) {
  if (shape.size() != 4) return false;
  if (std::holds_alternative<operators::GlobalAveragePool>(kind)) return true;
  const auto* r = std::get_if<operators::Reduce>(&kind);
  return r != nullptr && r->op == ReduceOp::mean && r->axes == std::vector{2, 3};
}

class LayerFinder {
 public:
  explicit LayerFinder(FusedNetwork& f)
      : f_(f), n_(f.network), maker_(n_.tensors.size(), nowhere), readers_(n_.tensors.size(), 0) {
    for (std::size_t i = 0; i < f_.regions.size(); ++i) {
      const Region& r = f_.regions[i];
      if (r.kind == RegionReport::Kind::free) continue;
      for (const std::size_t m : r.operators)
        if (r.kind == RegionReport::Kind::single) maker_[n_.operators[m].output] = i;
      for (const RegionOutput& o : r.outputs) maker_[o.tensor] = i;
    }
    for (const Operator& op : n_.operators)
      for (const TensorId id : data_inputs(op)) ++readers_[id];
    for (const TensorId id : n_.outputs) ++readers_[id];
  }

  void run() {
    for (std::size_t i = 0; i < f_.regions.size(); ++i) f_.regions[i].layers = layers_of(i);
  }

 private:
  const Operator& first(std::size_t region) const { return n_.operators[f_.regions[region].operators[0]]; }
  // The tensor of which this one is a view
  TensorId viewed(TensorId id) const {
    while (f_.placement[id] && !f_.placement[id]->slice) id = f_.placement[id]->base;
    return id;
  }
  // The same, if each of them is read once
  std::optional<TensorId> made(TensorId id) const {
    while (readers_[id] == 1 && f_.placement[id] && !f_.placement[id]->slice) id = f_.placement[id]->base;
    if (readers_[id] != 1 || f_.placement[id] || f_.own_type[id]) return std::nullopt;
    return id;
  }
  bool is_layer(const Region& r) const;
  std::optional<SmallLayers> layers_of(std::size_t second) const;

  FusedNetwork& f_;
  const Network& n_;
  std::vector<std::size_t> maker_;  // by tensor: the region that makes it
  std::vector<int> readers_;        // by tensor: operators that read it, and the caller
};

// A product with constant weights of one row an image, and what follows it with constants alone
bool LayerFinder::is_layer(const Region& r) const {
  if (r.kind != RegionReport::Kind::contraction || r.second || r.outputs.size() != 1 || !r.resampled.empty() ||
      r.reduced)
    return false;
  const Operator& op = n_.operators[r.operators[0]];
  if (!n_[op.inputs[1]].is_constant() || n_[op.inputs[0]].is_constant()) return false;
  if (!std::ranges::all_of(r.operands, [&](const RegionOperand& o) { return n_[o.tensor].is_constant(); }))
    return false;
  const Shape &x = n_[op.inputs[0]].shape, &w = n_[op.inputs[1]].shape;
  if (const auto* gemm = std::get_if<operators::Gemm>(&op.kind)) return !gemm->transpose_a && w.size() == 2;
  const auto* conv = std::get_if<operators::Conv2d>(&op.kind);
  if (conv == nullptr || conv->groups != 1) return false;
  return is_one(x[2]) && is_one(x[3]) && is_one(w[2]) && is_one(w[3]) && conv->pad == Margins(0);
}

std::optional<SmallLayers> LayerFinder::layers_of(std::size_t second) const {
  const Region& r = f_.regions[second];
  if (!is_layer(r) || f_.own_type[r.outputs[0].tensor]) return std::nullopt;
  const auto hidden = made(first(second).inputs[0]);
  if (!hidden || maker_[*hidden] == nowhere) return std::nullopt;
  SmallLayers l{.first = maker_[*hidden], .pool = std::nullopt, .from = {}, .pooled = {}};
  if (!is_layer(f_.regions[l.first])) return std::nullopt;
  const TensorId read = first(l.first).inputs[0];
  l.pooled = viewed(read);
  const std::size_t pool = maker_[l.pooled];
  if (pool == nowhere || f_.own_type[l.pooled] || f_.regions[pool].kind != RegionReport::Kind::single)
    return std::nullopt;
  const Operator& op = first(pool);
  if (f_.regions[pool].operators.size() != 1 || !is_pool(op.kind, n_[op.inputs[0]].shape)) return std::nullopt;
  l.from = op.inputs[0];
  if (made(read) && !f_.own_type[l.from] && !n_[l.from].is_constant()) l.pool = pool;
  return l;
}

}  // namespace

void find_small_layers(FusedNetwork& fused) { LayerFinder(fused).run(); }

}  // namespace unisono::network
