/// Products with a constant matrix of at most 8 by 8 over many rows, such as those that mix the heads of attention, are
/// sums of products element by element: a tensor core would multiply padding, and they are part of chains so.

#include <algorithm>

#include "network/chains.hpp"
#include "network/dim.hpp"

namespace unisono::network {

namespace {

constexpr std::int64_t most_columns = 8, least_rows = 2048;

class SmallProducts {
 public:
  explicit SmallProducts(const Network& network) : in_(network), out_(network) { out_.operators.clear(); }

  Network run() {
    for (const Operator& op : in_.operators)
      if (is_small(op))
        write(op);
      else
        out_.operators.push_back(op);
    return std::move(out_);
  }

 private:
  bool is_small(const Operator& op) const;
  void write(const Operator& op);
  TensorId add(const Operator& op, OperatorKind kind, std::vector<TensorId> inputs, Shape shape) {
    out_.tensors.push_back({in_[op.output].name + "_term", DType::f32, std::move(shape), nullptr, nullptr});
    const auto made = static_cast<TensorId>(out_.tensors.size() - 1);
    out_.operators.push_back({std::move(kind), op.name, std::move(inputs), made});
    return made;
  }
  TensorId row_of_weights(const NetworkTensor& w, std::int64_t row);

  const Network& in_;
  Network out_;
};

bool SmallProducts::is_small(const Operator& op) const {
  const auto* g = std::get_if<operators::Gemm>(&op.kind);
  if (g == nullptr || g->transpose_a || g->transpose_b) return false;
  const Shape &a = in_[op.inputs[0]].shape, &result = in_[op.output].shape;
  const NetworkTensor& w = in_[op.inputs[1]];
  const auto is_known = [](const Dim& d) { return d.known() && d.value() > 0; };
  if (!w.constant || w.shape.size() != 2 || !std::ranges::all_of(a, is_known)) return false;
  const bool is_f32 =
      in_[op.inputs[0]].dtype == DType::f32 && !in_[op.inputs[0]].keeps_f32 && !in_[op.output].keeps_f32;
  const std::int64_t rows = element_count(values(a)) / a.back().value();
  return is_f32 && a.back().value() <= most_columns && result.back().value() <= most_columns && rows >= least_rows;
}

TensorId SmallProducts::row_of_weights(const NetworkTensor& w, std::int64_t row) {
  const std::int64_t columns = w.shape[1].value();
  const auto first = w.constant->begin() + static_cast<std::ptrdiff_t>(row * columns);
  auto elements = std::make_shared<std::vector<float>>(first, first + static_cast<std::ptrdiff_t>(columns));
  out_.tensors.push_back({w.name + "_row", DType::f32, {Dim(columns)}, std::move(elements), nullptr});
  return static_cast<TensorId>(out_.tensors.size() - 1);
}

void SmallProducts::write(const Operator& op) {
  const NetworkTensor w = in_[op.inputs[1]];
  const Shape &a = in_[op.inputs[0]].shape, &result = in_[op.output].shape;
  Shape column = a;
  column.back() = 1;
  std::optional<TensorId> sum;
  for (std::int64_t k = 0; k < a.back().value(); ++k) {
    operators::Slice slice{.starts = {k}, .ends = {k + 1}, .steps = {1}, .axes = {static_cast<int>(a.size()) - 1}};
    const TensorId part = add(op, std::move(slice), {op.inputs[0]}, column);
    const TensorId term = add(op, operators::Elementwise{Op::mul}, {part, row_of_weights(w, k)}, result);
    sum = sum ? add(op, operators::Elementwise{Op::add}, {*sum, term}, result) : term;
  }
  if (op.inputs.size() == 3) add(op, operators::Elementwise{Op::add}, {*sum, op.inputs[2]}, result);
  out_.operators.back().output = op.output;
}

}  // namespace

Network with_small_products(const Network& network) { return SmallProducts(network).run(); }

}  // namespace unisono::network
