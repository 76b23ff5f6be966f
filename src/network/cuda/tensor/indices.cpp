/// Operators whose indices say which elements they read or write.

#include "network/cuda/tensor/operands.hpp"
#include "tensors/indexed.hpp"

namespace unisono::network::gpu {

namespace {

class Indexed {
 public:
  explicit Indexed(const TensorOperands& operands) : o_(operands) {}

  TensorAnswer operator()(const operators::Gather& g) const {
    return gathered([&](const auto&... all) { return tensors::gather(g.axis, all...); });
  }
  TensorAnswer operator()(const operators::GatherElements& g) const {
    return gathered([&](const auto&... all) { return tensors::gather_elements(g.axis, all...); });
  }
  TensorAnswer operator()(const operators::GatherND& g) const {
    return gathered([&](const auto&... all) { return tensors::gather_nd(g.batch, all...); });
  }
  TensorAnswer operator()(const operators::ScatterElements& s) const {
    return scattered([&](const tensors::Scattered& all) { return tensors::scatter_elements(s, all); });
  }
  TensorAnswer operator()(const operators::ScatterND& s) const {
    return scattered([&](const tensors::Scattered& all) { return tensors::scatter_nd(s, all); });
  }
  TensorAnswer operator()(const auto&) const { return std::nullopt; }

 private:
  template <class F>
  TensorAnswer gathered(const F& launches) const {
    const WholeTensor x = o_.input(0), indices = o_.input(1), to = o_.result();
    return o_.over(launches(x.strided, indices.strided, to.strided), {x, indices, to});
  }
  template <class F>
  TensorAnswer scattered(const F& launches) const {
    const WholeTensor x = o_.input(0), indices = o_.input(1), updates = o_.input(2), to = o_.result();
    const tensors::Scattered all{x.strided, indices.strided, updates.strided, to.strided};
    return o_.over(launches(all), {x, indices, updates, to});
  }

  const TensorOperands& o_;
};

}  // namespace

TensorAnswer launches_of_indices(const TensorOperands& operands) {
  return std::visit(Indexed(operands), operands.op.kind);
}

}  // namespace unisono::network::gpu
