/// Decides in which type each tensor lies in memory.

#include <algorithm>

#include "network/regions.hpp"

namespace unisono::network {

namespace {

class MemoryTypes {
 public:
  explicit MemoryTypes(FusedNetwork& fused) : f_(fused), n_(fused.network), tensors_(n_.tensors.size()) {
    for (const TensorId id : n_.inputs) tensors_[id].is_input = true;
    for (const TensorId id : n_.outputs) tensors_[id].is_output = true;
    for (const Operator& op : n_.operators) {
      tensors_[op.output].maker = &op;
      for (const TensorId id : data_inputs(op)) tensors_[id].readers.push_back(&op);
    }
  }

  void run() {
    f_.own_type.assign(n_.tensors.size(), true);
    if (f_.style.element_bytes == 0) return;
    for (TensorId id = 0; id < n_.tensors.size(); ++id)
      f_.own_type[id] = n_[id].dtype != DType::f32 && !is_float_at_border(id);
  }

 private:
  struct Tensor {
    bool is_input = false, is_output = false;
    const Operator* maker = nullptr;
    std::vector<const Operator*> readers;
  };

  bool is_f32(TensorId id) const { return n_[id].dtype == DType::f32; }

  // A tensor of 16 bits that the caller gives, and that is then f32; or one that the caller takes, and that was f32:
  // it is changed to or from the element on its way
  bool is_float_at_border(TensorId id) const {
    if (n_[id].is_constant() || !is_float(n_[id].dtype) || size_of(n_[id].dtype) != 2) return false;
    const Tensor& t = tensors_[id];
    const auto is_widened = [&](const Operator* reader) { return is_cast(*reader) && is_f32(reader->output); };
    if (t.is_input) return !t.is_output && std::ranges::all_of(t.readers, is_widened);
    return t.is_output && t.readers.empty() && t.maker && is_cast(*t.maker) && is_f32(t.maker->inputs[0]);
  }

  static bool is_cast(const Operator& op) {
    const auto* map = std::get_if<operators::Map>(&op.kind);
    return map != nullptr && map->op == MapOp::cast;
  }

  FusedNetwork& f_;
  const Network& n_;
  std::vector<Tensor> tensors_;  // by id
};

}  // namespace

void choose_memory_types(FusedNetwork& fused) { MemoryTypes(fused).run(); }

}  // namespace unisono::network
