/// Steps of the operators that pick, place, count and order elements.

#include "network/names.hpp"
#include "network/tensor_view.hpp"
#include "runtime/cpu/ops/copy.hpp"
#include "runtime/cpu/ops/grid_sample.hpp"
#include "runtime/cpu/ops/indices.hpp"
#include "runtime/cpu/ops/order.hpp"
#include "unisono/error.hpp"

namespace unisono::network {

namespace {

using StepRun = OperatorStep;

// Errors of a run name the operator
template <class F>
void named(const std::string& name, F&& f) {
  try {
    f();
  } catch (const UserError& error) {
    throw UserError(name + ": " + error.what());
  }
}

class IndexStep {
 public:
  IndexStep(const Network& n, const Operator& op, const StoragePlan& storage, const cpu::Parallel& parallel,
            int threads)
      : n_(n), op_(op), storage_(storage), parallel_(parallel), threads_(threads) {}

  StepRun operator()(const operators::GatherElements& g) const {
    return
        [x = in(0), at = in(1), y = out(), axis = g.axis, parallel = parallel_, name = where(op_)](const Tensors& t) {
          named(name, [&] { cpu::gather_elements(axis, x.at(t), at.at(t), y.at(t), parallel); });
        };
  }
  StepRun operator()(const operators::GatherND& g) const {
    return [x = in(0), at = in(1), y = out(), batch = g.batch, parallel = parallel_, name = where(op_)](
               const Tensors& t) { named(name, [&] { cpu::gather_nd(batch, x.at(t), at.at(t), y.at(t), parallel); }); };
  }
  StepRun operator()(const operators::ScatterElements& s) const {
    return
        [x = in(0), at = in(1), from = in(2), y = out(), s, parallel = parallel_, name = where(op_)](const Tensors& t) {
          const cpu::Strided to = copied(x.at(t), y.at(t), parallel);
          named(name, [&] { cpu::scatter_elements(s.axis, s.reduction, at.at(t), from.at(t), to, parallel); });
        };
  }
  StepRun operator()(const operators::ScatterND& s) const {
    return
        [x = in(0), at = in(1), from = in(2), y = out(), s, parallel = parallel_, name = where(op_)](const Tensors& t) {
          const cpu::Strided to = copied(x.at(t), y.at(t), parallel);
          named(name, [&] { cpu::scatter_nd(s.reduction, at.at(t), from.at(t), to, parallel); });
        };
  }
  StepRun operator()(const operators::Range&) const {
    return [y = out()](const Tensors& t) {
      const cpu::Strided to = y.at(t);
      for (std::int64_t i = 0; i < to.shape[0]; ++i) static_cast<std::int64_t*>(to.data)[i * to.strides[0]] = i;
    };
  }
  StepRun operator()(const operators::Triangle& k) const {
    return [x = in(0), y = out(), k, parallel = parallel_](const Tensors& t) {
      cpu::triangle(k.upper, k.diagonal, x.at(t), y.at(t), parallel);
    };
  }
  StepRun operator()(const operators::CumulativeSum& c) const {
    return [x = in(0), y = out(), c, parallel = parallel_](const Tensors& t) {
      cpu::cumulative_sum(c.axis, c.exclusive, c.reverse, x.at(t), y.at(t), parallel);
    };
  }
  StepRun operator()(const operators::TopK& k) const {
    StepRun step = [x = in(0), y = out(), k, parallel = parallel_](const Tensors& t) {
      cpu::top_k(k.axis, k.smallest, x.at(t), y.at(t), parallel, t.scratch());
    };
    const std::int64_t along = out().strided.shape[static_cast<std::size_t>(k.axis)];
    step.scratch_bytes = static_cast<std::size_t>(threads_) * cpu::top_k_bytes(along);
    return step;
  }
  StepRun operator()(const operators::GridSample& g) const {
    return [x = in(0), grid = in(1), y = out(), g, parallel = parallel_](const Tensors& t) {
      cpu::grid_sample(g, x.at(t), grid.at(t), y.at(t), parallel);
    };
  }
  StepRun operator()(const auto&) const { throw InternalError(where(op_) + " does not run by itself"); }

 private:
  ViewOfTensor in(std::size_t i) const { return view_of_tensor(n_, storage_, op_.inputs[i]); }
  ViewOfTensor out() const { return view_of_tensor(n_, storage_, op_.output); }

  static cpu::Strided copied(const cpu::Strided& x, cpu::Strided y, const cpu::Parallel& parallel) {
    cpu::copy_elements(size_of(x.dtype), x.shape, x.data, x.strides, y.data, y.strides, parallel);
    return y;
  }

  const Network& n_;
  const Operator& op_;
  const StoragePlan& storage_;
  const cpu::Parallel& parallel_;
  int threads_;
};

}  // namespace

OperatorStep index_step(const Network& network, const Operator& op, const StoragePlan& storage,
                        const cpu::Parallel& parallel, int threads) {
  return std::visit(IndexStep(network, op, storage, parallel, threads), op.kind);
}

}  // namespace unisono::network
