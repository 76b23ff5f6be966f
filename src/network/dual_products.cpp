#include "network/dual_products.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "network/dim.hpp"
#include "network/infer_tensors.hpp"
#include "network/regions.hpp"
#include "network/space.hpp"

namespace unisono::network {

namespace {

constexpr std::size_t longest_side = 24;  // operators between a product and the multiplication: gpt-oss has 5

// A network's operators by what they read and make
class Readers {
 public:
  explicit Readers(const Network& n) : n_(n), readers_(n.tensors.size()) {
    for (const TensorId id : n.outputs) outputs_.insert(id);
    for (std::size_t i = 0; i < n.operators.size(); ++i)
      for (const TensorId id : n.operators[i].inputs)
        if (readers_[id].empty() || readers_[id].back() != i) readers_[id].push_back(i);
  }

  const std::vector<std::size_t>& of(TensorId id) const { return readers_[id]; }
  bool is_output(TensorId id) const { return outputs_.contains(id); }
  bool meets_in_product(TensorId first, TensorId second) const;

 private:
  bool is_elementwise(std::size_t i, const Shape& shape) const {
    const Operator& op = n_.operators[i];
    return std::holds_alternative<operators::Elementwise>(op.kind) && n_[op.output].shape == shape;
  }
  std::set<std::size_t> elements_of(TensorId id) const;
  bool leads_to(TensorId id, const std::set<std::size_t>& side, std::size_t meeting) const;

  const Network& n_;
  std::vector<std::vector<std::size_t>> readers_;  // by tensor: operators
  std::set<TensorId> outputs_;
};

// What is computed of the tensor element by element
std::set<std::size_t> Readers::elements_of(TensorId id) const {
  std::set<std::size_t> all;
  std::vector<TensorId> pending{id};
  while (!pending.empty() && all.size() <= longest_side) {
    const TensorId from = pending.back();
    pending.pop_back();
    for (const std::size_t i : of(from))
      if (is_elementwise(i, n_[id].shape) && all.insert(i).second) pending.push_back(n_.operators[i].output);
  }
  return all;
}

// Whether nothing but the operators of the side ahead of the meeting, and this, reads the tensor and what they make
bool Readers::leads_to(TensorId id, const std::set<std::size_t>& side, std::size_t meeting) const {
  std::vector<TensorId> made{id};
  for (const std::size_t i : side)
    if (i < meeting) made.push_back(n_.operators[i].output);
  return std::ranges::all_of(made, [&](TensorId t) {
    return !is_output(t) && std::ranges::all_of(of(t), [&](std::size_t i) { return i <= meeting && side.contains(i); });
  });
}

// Whether the first operator that needs both is a multiplication, and none else reads what is computed of them
bool Readers::meets_in_product(TensorId first, TensorId second) const {
  const std::set<std::size_t> a = elements_of(first), b = elements_of(second);
  const auto meeting = std::ranges::find_if(a, [&](std::size_t i) { return b.contains(i); });
  if (meeting == a.end()) return false;
  const auto* kind = std::get_if<operators::Elementwise>(&n_.operators[*meeting].kind);
  return kind->op == Op::mul && leads_to(first, a, *meeting) && leads_to(second, b, *meeting);
}

// Which axis of its constant weights has the columns of a product, or the filters of a convolution in one group;
// nothing of any other operator
std::optional<std::size_t> columns_of_weights(const Network& n, const Operator& op) {
  const auto* g = std::get_if<operators::Gemm>(&op.kind);
  const auto* c = std::get_if<operators::Conv2d>(&op.kind);
  if ((g == nullptr || g->transpose_a) && (c == nullptr || c->groups != 1)) return std::nullopt;
  if (!n[op.inputs[1]].constant || (op.inputs.size() == 3 && !n[op.inputs[2]].constant)) return std::nullopt;
  return g != nullptr && !g->transpose_b ? 1 : 0;
}

// Whether it multiplies by an input of the network, (n,k), which kernels read where it lies
bool has_given_rows(const Network& n, const Operator& op) {
  const auto* g = std::get_if<operators::Gemm>(&op.kind);
  const auto is_given = [&](TensorId id) { return std::ranges::find(n.inputs, id) != n.inputs.end(); };
  return g != nullptr && !g->transpose_a && g->transpose_b && n[op.inputs[1]].shape.size() == 2 &&
         is_given(op.inputs[1]) &&
         (op.inputs.size() < 3 || n[op.inputs[2]].constant != nullptr || is_given(op.inputs[2]));
}

// Whether rows and columns of the weights, or both kinds of a filter's channels, are such multiples
bool is_packed(const Network& n, const Operator& op, std::int64_t multiple) {
  const Shape& weights = n[op.inputs[1]].shape;
  return std::ranges::all_of(std::span(weights).first(2),
                             [&](const Dim& d) { return d.known() && d.value() % multiple == 0; });
}

// Columns of a stacked product: from `begin`, so many, so far apart
struct Columns {
  std::int64_t begin = 0, count = 0, step = 1;
};

// Those that the operator takes of a tensor, if it takes nothing else apart
std::optional<Columns> columns_of(const Network& n, const Operator& op) {
  const auto* s = std::get_if<operators::Slice>(&op.kind);
  if (s == nullptr) return std::nullopt;
  const Shape& from = n[op.inputs[0]].shape;
  const std::size_t axis = column_axis(from.size());
  if (s->axes != std::vector{static_cast<int>(axis)} || !from[axis].known() || s->steps[0] < 1) return std::nullopt;
  const SliceRange range = slice_range(*s, 0, from[axis].value());
  return Columns{range.begin, range.count, s->steps[0]};
}

// Which axis of a tensor that broadcasts over the space has a number for each column; nothing: it has one number
std::optional<std::size_t> axis_of_columns(const Shape& tensor, const Shape& space) {
  const std::size_t behind = space.size() - 1 - column_axis(space.size());
  if (tensor.size() <= behind || is_one(tensor[tensor.size() - 1 - behind])) return std::nullopt;
  return tensor.size() - 1 - behind;
}

// Whether sums of many products make few tiles, so that CTAs share them (split-K): those of one convolution of all
// channels, and not those of two filters. By the cost model, which then has the former with a pass behind it faster:
// 1,16,16,1280 -> 256, 3x3, is 15 us and 3 of the pass, the dual one 26. Extents that are symbols count as 1.
bool has_few_tiles(const Network& n, const Operator& op) {
  if (!std::holds_alternative<operators::Conv2d>(op.kind)) return false;
  constexpr std::int64_t many_products = 6144, few_sums = std::int64_t{1} << 18;
  const auto count = [](std::span<const Dim> extents) {
    std::int64_t all = 1;
    for (const Dim& d : extents) all *= d.known() ? d.value() : 1;
    return all;
  };
  const Shape& result = n[op.output].shape;
  return count(std::span(n[op.inputs[1]].shape).subspan(1)) >= many_products && result[2].known() &&
         result[3].known() && count(result) <= few_sums;
}

class Splitter {
 public:
  Splitter(Network network, std::int64_t multiple) : n_(std::move(network)), multiple_(multiple), readers_(n_) {}

  Network run() {
    std::vector<Operator> operators;
    std::set<std::size_t> gone;
    for (std::size_t i = 0; i < n_.operators.size(); ++i) {
      if (const auto stacked = stacked_product(i)) split(*stacked, operators, gone);
      if (!gone.contains(i)) operators.push_back(n_.operators[i]);
    }
    n_.operators = std::move(operators);
    drop_unread_constants();
    return std::move(n_);
  }

 private:
  struct Stacked {
    std::vector<std::size_t> operators;  // the product and what is computed of all of its columns
    std::array<std::size_t, 2> slices;
  };

  std::optional<Stacked> stacked_product(std::size_t product) const;
  bool is_of_columns(const Operator& op, TensorId from, const Dim& columns) const;
  void split(const Stacked& stacked, std::vector<Operator>& to, std::set<std::size_t>& gone);
  TensorId part_of(TensorId constant, const Columns& columns, std::optional<std::size_t> axis);
  void drop_unread_constants();

  Network n_;
  std::int64_t multiple_;
  Readers readers_;
  std::set<TensorId> split_;  // constants of which there are parts
};

// Whether the operator computes element by element with constants that have a number for each column
bool Splitter::is_of_columns(const Operator& op, TensorId from, const Dim& columns) const {
  if (!std::holds_alternative<operators::Elementwise>(op.kind) || !(n_[op.output].shape == n_[from].shape))
    return false;
  return std::ranges::all_of(op.inputs, [&](TensorId id) {
    if (id == from) return true;
    const NetworkTensor& t = n_[id];
    if (!t.constant) return false;
    const auto axis = axis_of_columns(t.shape, n_[from].shape);
    const auto count = static_cast<std::int64_t>(t.constant->size());
    return count == 1 || (axis && t.shape[*axis] == columns && count == columns.value());
  });
}

std::optional<Splitter::Stacked> Splitter::stacked_product(std::size_t product) const {
  const Operator& first = n_.operators[product];
  if (!columns_of_weights(n_, first) || !is_packed(n_, first, multiple_) || has_few_tiles(n_, first))
    return std::nullopt;
  Stacked all{{product}, {}};
  TensorId made = first.output;
  const Dim columns = network::columns(n_[made].shape);
  while (!readers_.is_output(made) && readers_.of(made).size() == 1) {
    const std::size_t next = readers_.of(made)[0];
    if (!is_of_columns(n_.operators[next], made, columns) || all.operators.size() > longest_side) return std::nullopt;
    all.operators.push_back(next);
    made = n_.operators[next].output;
  }
  const auto& slices = readers_.of(made);
  if (readers_.is_output(made) || slices.size() != 2) return std::nullopt;
  for (std::size_t k = 0; k < 2; ++k) {
    const auto part = columns_of(n_, n_.operators[slices[k]]);
    if (!part || 2 * part->count != columns.value() || part->count % multiple_ != 0 ||
        readers_.is_output(n_.operators[slices[k]].output))
      return std::nullopt;
    all.slices[k] = slices[k];
  }
  if (!readers_.meets_in_product(n_.operators[slices[0]].output, n_.operators[slices[1]].output)) return std::nullopt;
  return all;
}

// Some columns of a constant, which lie along the axis; the constant itself if it has one number
TensorId Splitter::part_of(TensorId id, const Columns& c, std::optional<std::size_t> axis) {
  const NetworkTensor& given = n_[id];
  if (!axis || given.constant->size() == 1) return id;
  split_.insert(id);
  const std::int64_t whole = given.shape[*axis].value();
  std::int64_t width = 1;
  for (std::size_t i = *axis + 1; i < given.shape.size(); ++i) width *= given.shape[i].value();
  const std::int64_t rows = static_cast<std::int64_t>(given.constant->size()) / (whole * width);
  std::vector<float> elements;
  elements.reserve(static_cast<std::size_t>(rows * c.count * width));
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < c.count; ++i) {
      const auto at = given.constant->begin() + (row * whole + c.begin + i * c.step) * width;
      elements.insert(elements.end(), at, at + width);
    }
  NetworkTensor part = given;
  part.name = fmt::format("{}_columns_{}", given.name, c.begin);
  part.shape[*axis] = Dim(c.count);
  part.constant = std::make_shared<const std::vector<float>>(std::move(elements));
  n_.tensors.push_back(std::move(part));
  return static_cast<TensorId>(n_.tensors.size() - 1);
}

// The product and what follows, once for either slice, which is what they make
void Splitter::split(const Stacked& stacked, std::vector<Operator>& to, std::set<std::size_t>& gone) {
  const auto of_weights = columns_of_weights(n_, n_.operators[stacked.operators[0]]);
  for (const std::size_t slice : stacked.slices) {
    const Columns part = *columns_of(n_, n_.operators[slice]);
    std::map<TensorId, TensorId> made;
    for (const std::size_t i : stacked.operators) {
      Operator op = n_.operators[i];
      NetworkTensor result = n_[op.output];
      const bool first = i == stacked.operators.front(), last = i == stacked.operators.back();
      for (std::size_t k = first ? 1 : 0; k < op.inputs.size(); ++k) {
        const TensorId id = op.inputs[k];
        std::optional<std::size_t> axis = 0;  // of a bias
        if (k == 1 || !first) axis = first ? of_weights : axis_of_columns(n_[id].shape, result.shape);
        op.inputs[k] = made.contains(id) ? made.at(id) : part_of(id, part, axis);
      }
      result.shape[column_axis(result.shape.size())] = Dim(part.count);
      result.name = fmt::format("{}_columns_{}", result.name, part.begin);
      const TensorId id = last ? n_.operators[slice].output : static_cast<TensorId>(n_.tensors.size());
      if (!last) n_.tensors.push_back(std::move(result));
      op.output = made[op.output] = id;
      to.push_back(std::move(op));
    }
  }
  gone.insert(stacked.operators.begin(), stacked.operators.end());
  gone.insert(stacked.slices.begin(), stacked.slices.end());
}

// Whose parts are constants now
void Splitter::drop_unread_constants() {
  std::set<TensorId> read(n_.outputs.begin(), n_.outputs.end());
  for (const Operator& op : n_.operators) read.insert(op.inputs.begin(), op.inputs.end());
  for (const TensorId id : split_)
    if (!read.contains(id)) n_.tensors[id].constant = nullptr;
}

}  // namespace

Network with_parts_of_products(Network network, std::int64_t multiple) {
  return Splitter(std::move(network), multiple).run();
}

std::vector<std::pair<std::size_t, std::size_t>> dual_products(const Network& n, std::int64_t multiple) {
  const Readers readers(n);
  std::map<TensorId, std::vector<std::size_t>> waiting;  // by their matrix: products that no pair has
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t i = 0; i < n.operators.size(); ++i) {
    const Operator& op = n.operators[i];
    const bool is_given = has_given_rows(n, op);
    if (!(is_given || columns_of_weights(n, op)) || !is_packed(n, op, multiple)) continue;
    const Shape& weights = n[op.inputs[1]].shape;
    auto& others = waiting[op.inputs[0]];
    const auto is_other = [&](std::size_t k) {
      const Operator& other = n.operators[k];
      return other.kind == op.kind && has_given_rows(n, other) == is_given && n[other.inputs[1]].shape == weights &&
             readers.meets_in_product(other.output, op.output);
    };
    const auto found = std::ranges::find_if(others, is_other);
    if (found == others.end()) {
      others.push_back(i);
      continue;
    }
    pairs.emplace_back(*found, i);
    others.erase(found);
  }
  return pairs;
}

}  // namespace unisono::network
