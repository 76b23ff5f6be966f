/// Decides in which type each tensor lies in memory.
///
/// Integers, bool and floats of other widths lie there as they are, f32 as the element. But 16 bits hold too few digits
/// of an integer: step 999 of a diffusion process is 1000 in bf16, and its sine another. What is made of integers alone
/// is therefore f32 in memory too, as long as all that read it can read that.

#include <algorithm>

#include "network/regions.hpp"
#include "network/space.hpp"

namespace unisono::network {

namespace {

// Whether the results are some of the first input's elements, or of all inputs'
bool is_move(const OperatorKind& k) {
  using namespace operators;
  return is_reshape(k) || std::holds_alternative<Concat>(k) || std::holds_alternative<Pad>(k) ||
         std::holds_alternative<Transpose>(k) || std::holds_alternative<Expand>(k) ||
         std::holds_alternative<Slice>(k) || std::holds_alternative<Identity>(k) || std::holds_alternative<Tile>(k) ||
         std::holds_alternative<DepthToSpace>(k) || std::holds_alternative<Triangle>(k) ||
         std::holds_alternative<Gather>(k) || std::holds_alternative<GatherElements>(k) ||
         std::holds_alternative<GatherND>(k);
}

// Integers of 8 bits, and bool, are exact in 16 bits
bool is_wide_integer(DType t) { return !is_float(t) && size_of(t) > 1; }

bool is_cast(const Operator& op) {
  const auto* map = std::get_if<operators::Map>(&op.kind);
  return map != nullptr && map->op == MapOp::cast;
}

// Kernels of the tensor cores read the element alone
bool multiplies(const Network& n, const Region& r) {
  return r.kind == RegionReport::Kind::contraction ||
         std::holds_alternative<operators::Attention>(n.operators[r.operators[0]].kind);
}

// Whether the region can read and write f32
bool knows_f32(const Network& n, const Region& r) {
  const auto& kind = n.operators[r.operators[0]].kind;
  if (r.kind == RegionReport::Kind::epilogue)
    return std::ranges::all_of(r.operators, [&](std::size_t i) {
      return std::holds_alternative<operators::Elementwise>(n.operators[i].kind);
    });
  return r.kind == RegionReport::Kind::single && !multiplies(n, r) &&
         !std::holds_alternative<operators::Pool2d>(kind) &&
         !std::holds_alternative<operators::GlobalAveragePool>(kind) &&
         !std::holds_alternative<operators::Resize>(kind);
}

// What attention adds to its scores is read as it is
bool is_mask_of(const Operator& reader, TensorId id) {
  if (!std::holds_alternative<operators::Attention>(reader.kind)) return false;
  const auto masks = reader.inputs.begin() + 3;  // behind q, k and v
  return std::find(reader.inputs.begin(), masks, id) == masks &&
         std::find(masks, reader.inputs.end(), id) != reader.inputs.end();
}

class MemoryTypes {
 public:
  explicit MemoryTypes(FusedNetwork& fused)
      : f_(fused), n_(fused.network), tensors_(n_.tensors.size()), region_(n_.operators.size(), 0) {
    for (const TensorId id : n_.inputs) tensors_[id].is_input = true;
    for (const TensorId id : n_.outputs) tensors_[id].is_output = true;
    for (std::size_t i = 0; i < n_.operators.size(); ++i) {
      tensors_[n_.operators[i].output].maker = i;
      for (const TensorId id : data_inputs(n_.operators[i])) tensors_[id].readers.push_back(i);
    }
    for (std::size_t r = 0; r < f_.regions.size(); ++r)
      for (const std::size_t i : f_.regions[r].operators) region_[i] = r;
  }

  void run() {
    f_.own_type.assign(n_.tensors.size(), true);
    f_.exact.assign(n_.tensors.size(), false);
    wished_ = f_.exact;
    if (f_.style.element_bytes == 0) return;
    find_descendants();
    find_exact();
    for (TensorId id = 0; id < n_.tensors.size(); ++id)
      f_.own_type[id] = is_f32(id) ? wished_[id] && all_know_f32(id) : !is_float_at_border(id);
  }

 private:
  struct Tensor {
    bool is_input = false, is_output = false;
    bool descends = false;  // from integers alone
    std::optional<std::size_t> maker;
    std::vector<std::size_t> readers;
  };

  const Operator& op(std::size_t i) const { return n_.operators[i]; }
  const Region& region(std::size_t i) const { return f_.regions[region_[i]]; }
  bool is_f32(TensorId id) const { return n_[id].dtype == DType::f32; }

  bool reads_descendants(const Operator& o) const;
  void find_descendants();
  bool is_computed_with(TensorId id, const std::vector<bool>& moved) const;
  void find_exact();
  bool reads_descendants_alone(const Region& r) const;
  bool is_mask(TensorId id) const {
    return std::ranges::any_of(tensors_[id].readers, [&](std::size_t i) { return is_mask_of(op(i), id); });
  }
  bool all_know_f32(TensorId id) const;
  bool is_float_at_border(TensorId id) const;

  FusedNetwork& f_;
  const Network& n_;
  std::vector<Tensor> tensors_;      // by id
  std::vector<std::size_t> region_;  // by operator
  std::vector<bool> wished_;         // by tensor: it is to be exact if it can be
};

// Whether the operator's result is made of integers, or of floats that are. Indices say where a value lies, and not
// what it is.
bool MemoryTypes::reads_descendants(const Operator& o) const {
  if (is_contraction(o.kind)) return false;
  if (is_cast(o) && is_wide_integer(n_[o.inputs[0]].dtype)) return true;
  bool any = false;
  for (const TensorId id : data_inputs(o)) {
    if (n_[id].is_constant() || !is_float(n_[id].dtype)) continue;
    if (!tensors_[id].descends) return false;
    any = true;
  }
  return any;
}

void MemoryTypes::find_descendants() {
  for (const Operator& o : n_.operators) tensors_[o.output].descends = is_f32(o.output) && reads_descendants(o);
}

bool MemoryTypes::reads_descendants_alone(const Region& r) const {
  for (const std::size_t i : r.operators)
    for (const TensorId id : data_inputs(op(i)))
      if (!n_[id].is_constant() && is_float(n_[id].dtype) && !tensors_[id].descends) return false;
  return true;
}

// Whether what reads it beside contractions computes, or moves it to tensors of which `moved` is true
bool MemoryTypes::is_computed_with(TensorId id, const std::vector<bool>& moved) const {
  const Tensor& t = tensors_[id];
  return std::ranges::any_of(t.readers, [&](std::size_t i) {
    if (t.maker && region_[*t.maker] == region_[i]) return false;
    if (multiplies(n_, region(i))) return false;
    if (is_move(op(i).kind)) return bool{moved[op(i).output]};
    return knows_f32(n_, region(i)) || reads_descendants_alone(region(i));
  });
}

// Whoever reads a tensor stands behind its maker. The caller gets all digits where that costs nothing, and a mask may
// have the lowest f32, which 16 bits round to infinity
void MemoryTypes::find_exact() {
  for (std::size_t i = n_.operators.size(); i-- > 0;) {
    const TensorId id = op(i).output;
    wished_[id] = is_f32(id) && is_mask(id);
    if (!tensors_[id].descends) continue;
    f_.exact[id] = is_computed_with(id, f_.exact);
    wished_[id] = wished_[id] || tensors_[id].is_output || is_computed_with(id, wished_);
  }
}

// What reads nothing but descendants can be computed on the host, and knows f32 there
bool MemoryTypes::all_know_f32(TensorId id) const {
  const auto knows = [&](std::size_t i) { return knows_f32(n_, region(i)) || reads_descendants_alone(region(i)); };
  const Tensor& t = tensors_[id];
  return knows_f32(n_, region(t.maker.value())) && std::ranges::all_of(t.readers, [&](std::size_t i) {
           return is_mask_of(op(i), id) || (!multiplies(n_, region(i)) && knows(i));
         });
}

// A tensor of 16 bits that the caller gives, and that is then f32; or one that the caller takes, and that was f32: it
// is changed to or from the element on its way
bool MemoryTypes::is_float_at_border(TensorId id) const {
  if (n_[id].is_constant() || !is_float(n_[id].dtype) || size_of(n_[id].dtype) != 2) return false;
  const Tensor& t = tensors_[id];
  const auto is_widened = [&](std::size_t i) { return is_cast(op(i)) && is_f32(op(i).output); };
  if (t.is_input) return !t.is_output && std::ranges::all_of(t.readers, is_widened);
  return t.is_output && t.readers.empty() && t.maker && is_cast(op(*t.maker)) && is_f32(op(*t.maker).inputs[0]) &&
         !tensors_[op(*t.maker).inputs[0]].descends;
}

}  // namespace

void choose_memory_types(FusedNetwork& fused) { MemoryTypes(fused).run(); }

}  // namespace unisono::network
