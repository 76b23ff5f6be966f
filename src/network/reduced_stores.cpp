/// Sums and means of what a contraction makes, over everything or over an image's pixels, which its kernel may compute
/// as it stores that; and what is computed of the one number.

#include <algorithm>

#include "network/dim.hpp"
#include "network/regions.hpp"
#include "network/space.hpp"

namespace unisono::network {

namespace {

bool is_single(const Shape& shape) {
  return std::ranges::all_of(shape, [](const Dim& d) { return is_one(d); });
}

// What the operator reduces of all axes of a tensor of this shape: everything, the pixels of each image, or neither
std::optional<ReduceDomain> domain_of(const OperatorKind& kind, const Shape& shape) {
  if (std::holds_alternative<operators::GlobalAveragePool>(kind)) return per_image_over_m;
  const auto* r = std::get_if<operators::Reduce>(&kind);
  if (r == nullptr || shape.empty()) return std::nullopt;
  if (r->op != ReduceOp::sum && r->op != ReduceOp::mean && r->op != ReduceOp::max && r->op != ReduceOp::min)
    return std::nullopt;
  const auto is_reduced = [&](int axis) { return r->axes.empty() || std::ranges::count(r->axes, axis) != 0; };
  if (shape.size() == 4 && r->axes == std::vector{2, 3}) return per_image_over_m;
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (!is_reduced(static_cast<int>(axis)) && !is_one(shape[axis])) return std::nullopt;
  return over_all;
}

class ReductionFolder {
 public:
  explicit ReductionFolder(FusedNetwork& f) : f_(f), n_(f.network), readers_(n_.tensors.size()) {
    for (std::size_t i = 0; i < f_.regions.size(); ++i)
      for (const std::size_t m : f_.regions[i].operators)
        for (const TensorId id : data_inputs(n_.operators[m]))
          if (readers_[id].empty() || readers_[id].back() != i) readers_[id].push_back(i);
  }

  void run() {
    for (std::size_t i = 0; i < f_.regions.size(); ++i) {
      Region& r = f_.regions[i];
      if (r.kind != RegionReport::Kind::contraction || !r.resampled.empty()) continue;
      for (std::size_t k = 0; k < r.outputs.size() && !r.reduced; ++k) fold(i, r.outputs[k].tensor);
    }
  }

 private:
  const Operator& first(std::size_t region) const { return n_.operators[f_.regions[region].operators[0]]; }
  bool is_output(TensorId id) const { return std::ranges::count(n_.outputs, id) != 0; }
  void fold(std::size_t index, TensorId from);
  void follow(ReducedStore& store) const;
  bool continues(const Region& r, TensorId number) const;

  FusedNetwork& f_;
  const Network& n_;
  std::vector<std::vector<std::size_t>> readers_;  // by tensor: regions
};

// Whether the region computes one number of that one, and of constants, alone
bool ReductionFolder::continues(const Region& r, TensorId number) const {
  if (r.outputs.size() != 1 || !is_single(n_[r.outputs[0].tensor].shape)) return false;
  if (r.kind == RegionReport::Kind::single && r.operators.size() == 1 && is_reshape(n_.operators[r.operators[0]].kind))
    return true;
  if (r.kind != RegionReport::Kind::epilogue) return false;
  std::vector<TensorId> known{number};
  for (const std::size_t i : r.operators) {
    const Operator& op = n_.operators[i];
    if (!std::holds_alternative<operators::Elementwise>(op.kind)) return false;
    for (const TensorId id : op.inputs)
      if (std::ranges::count(known, id) == 0 && !(n_[id].constant && n_[id].constant->size() == 1)) return false;
    known.push_back(op.output);
  }
  return true;
}

// Everything that is computed of the number before somebody else needs it
void ReductionFolder::follow(ReducedStore& store) const {
  while (!is_output(store.to) && readers_[store.to].size() == 1) {
    const std::size_t next = readers_[store.to][0];
    const Region& r = f_.regions[next];
    if (!continues(r, store.to)) return;
    store.regions.push_back(next);
    store.operators.insert(store.operators.end(), r.operators.begin(), r.operators.end());
    store.to = r.outputs[0].tensor;
  }
}

void ReductionFolder::fold(std::size_t index, TensorId from) {
  for (const std::size_t reader : readers_[from]) {
    const Region& r = f_.regions[reader];
    if (r.kind != RegionReport::Kind::single || r.operators.size() != 1) continue;
    const auto domain = domain_of(first(reader).kind, n_[from].shape);
    if (!domain || n_[from].dtype != DType::f32 || f_.own_type[from] || f_.own_type[first(reader).output]) continue;
    ReducedStore store{.domain = *domain,
                       .operators = {r.operators[0]},
                       .regions = {reader},
                       .from = from,
                       .to = first(reader).output,
                       .graph = {},
                       .name = {}};
    if (*domain == over_all) follow(store);
    const auto is_others = [&](std::size_t i) { return i != reader && i != index; };
    store.only = !is_output(from) && std::ranges::none_of(readers_[from], is_others);
    if (!write_reduced(n_, f_.regions[index], store, f_.style.column_multiple)) continue;
    if (*domain == over_all && readers_[store.to].empty())  // the caller's, which gets all digits
      for (const std::size_t i : store.operators) f_.own_type[n_.operators[i].output] = true;
    f_.regions[index].reduced = std::move(store);
    return;
  }
}

}  // namespace

void fold_reductions(FusedNetwork& fused) { ReductionFolder(fused).run(); }

}  // namespace unisono::network
