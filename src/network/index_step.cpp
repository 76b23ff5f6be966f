/// Steps of the operators that pick, place, count and order elements.

#include <array>
#include <optional>

#include "network/names.hpp"
#include "network/tensor_view.hpp"
#include "runtime/cpu/ops/copy.hpp"
#include "runtime/cpu/ops/grid_sample.hpp"
#include "runtime/cpu/ops/indices.hpp"
#include "runtime/cpu/ops/order.hpp"
#include "runtime/cpu/ops/recurrence.hpp"
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
  StepRun operator()(const operators::Recurrence& r) const;
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

StepRun IndexStep::operator()(const operators::Recurrence& r) const {
  std::size_t next = 2;
  const auto optional = [&](bool given) { return given ? std::optional(in(next++)) : std::nullopt; };
  std::array<std::optional<ViewOfTensor>, 6> views{in(0), in(1)};
  for (std::size_t i = 2; const bool given : {r.has_extra, r.has_lengths, r.has_h, r.has_c})
    views[i++] = optional(given);
  const auto strided = [&](std::size_t i) { return views[i] ? views[i]->strided : cpu::Strided{}; };
  const cpu::Recurrence recurrence(
      r, {strided(0), strided(1), strided(2), strided(3), strided(4), strided(5), out().strided}, threads_);
  std::array<std::optional<TensorId>, 6> ids;
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (views[i]) ids[i] = views[i]->id;
  StepRun step = [recurrence, ids, to = op_.output, parallel = parallel_](const Tensors& t) {
    const auto data = [&](std::size_t i) { return ids[i] ? t.data(*ids[i]) : nullptr; };
    recurrence.run({data(0), data(1), data(2), data(3), data(4), data(5), const_cast<void*>(t.data(to))}, parallel,
                   t.scratch());
  };
  step.scratch_bytes = recurrence.scratch_bytes();
  return step;
}

}  // namespace

OperatorStep index_step(const Network& network, const Operator& op, const StoragePlan& storage,
                        const cpu::Parallel& parallel, int threads) {
  return std::visit(IndexStep(network, op, storage, parallel, threads), op.kind);
}

}  // namespace unisono::network
