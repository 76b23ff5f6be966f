/// Products of one input, side by side: the embedding of time of a diffusion network goes through a layer of its own in
/// every block, each a product of as many rows as there are images, and far too small for a GPU.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "network/dim.hpp"
#include "network/names.hpp"
#include "network/regions.hpp"
#include "network/space.hpp"

namespace unisono::network {

namespace {

constexpr std::int64_t most_rows = 256;  // a product of at most so many leaves a GPU idle by itself

bool is_constant(const Network& n, TensorId id) { return n[id].constant != nullptr; }

// With a row an image: with more rows it is not a small product. One that attention reads may have any.
bool is_product(const Network& n, const Operator& op) {
  const Shape& out = n[op.output].shape;
  if (const auto* g = std::get_if<operators::Gemm>(&op.kind))
    return !g->transpose_a && (out.size() == 2 || out.size() == 3);
  return op.kind == OperatorKind(operators::Conv2d{}) && is_one(out[2]) && is_one(out[3]) &&
         is_one(n[op.inputs[1]].shape[2]) && is_one(n[op.inputs[1]].shape[3]);
}

// One number a column, nothing else
bool is_vector(const Network& n, TensorId id, std::int64_t columns) {
  const Shape& s = n[id].shape;
  return !s.empty() && s[column_axis(s.size())] == Dim(columns) &&
         static_cast<std::int64_t>(n[id].constant->size()) == columns;
}

class Stacker {
 public:
  Stacker(const Network& network, const std::vector<Region>& regions, const MemoryStyle& style)
      : in_(network), regions_(regions), style_(style) {}
  Stacked run();

 private:
  using Class = std::vector<const Region*>;  // that become one
  const Operator& op(const Region& r, std::size_t i) const { return in_.operators[r.operators[i]]; }
  TensorId made(const Region& r) const { return r.outputs[0].tensor; }
  std::int64_t columns_of(const Region& r) const { return columns(in_[op(r, 0).output].shape).value(); }
  std::optional<Refusal> refusal(const Region& r) const;
  bool is_for_attention(TensorId id) const;
  bool alike(const Region& a, const Region& b) const;
  bool alike(const Region& a, const Region& b, std::size_t op, std::size_t input) const;
  void find_classes(const std::vector<const Region*>& readers);
  TensorId joined(const Class& c, std::size_t i, std::size_t input);
  void write(const Class& c);
  TensorId add_tensor(NetworkTensor t) {
    out_.tensors.push_back(std::move(t));
    return static_cast<TensorId>(out_.tensors.size() - 1);
  }

  const Network& in_;
  const std::vector<Region>& regions_;
  const MemoryStyle& style_;
  Network out_;
  std::vector<Class> classes_;
  std::map<std::string, std::string> wide_, alone_;  // notes
};

// As q, k and v are, which attention reads wherever they lie
bool Stacker::is_for_attention(TensorId id) const {
  bool any = false;
  for (const Operator& op : in_.operators) {
    if (std::ranges::find(op.inputs, id) == op.inputs.end()) continue;
    if (!std::holds_alternative<operators::Attention>(op.kind)) return false;
    any = true;
  }
  return any;
}

// Why a product cannot be a part of a wide one, whatever the others are
std::optional<Refusal> Stacker::refusal(const Region& r) const {
  const Operator& first = op(r, 0);
  if (!is_constant(in_, first.inputs[1]))
    return because(fmt::format("'{}' is not a constant", in_[first.inputs[1]].name));
  const Shape& shape = in_[first.output].shape;
  const Dim &rows = shape[0], &width = columns(shape);
  if (!is_for_attention(made(r))) {
    if (shape.size() == 3) return because("it is a batch of matrices");
    if (rows.known() && rows.value() > most_rows) return because(fmt::format("it has {} rows", rows.value()));
  }
  if (!width.known() || width.value() % style_.column_multiple != 0)
    return because(fmt::format("it has {} columns, not a multiple of {}", to_string(width), style_.column_multiple));
  if (r.outputs.size() != 1) return because("it has several results");
  if (r.second) return because("it is one of two products of a gated unit");
  for (std::size_t i = 1; i < r.operators.size(); ++i)
    if (!std::holds_alternative<operators::Elementwise>(op(r, i).kind))
      return because(fmt::format("{} joins its columns", where(op(r, i))));
  for (const RegionOperand& o : r.operands)
    if (!is_constant(in_, o.tensor) || !is_vector(in_, o.tensor, width.value()))
      return because(
          fmt::format("its operand '{}' is not a constant with one value for each column", in_[o.tensor].name));
  return needs_dense(in_, regions_, made(r));
}

bool Stacker::alike(const Region& a, const Region& b, std::size_t i, std::size_t input) const {
  const TensorId x = op(a, i).inputs[input], y = op(b, i).inputs[input];
  for (std::size_t k = 0; k < i; ++k)
    if (op(a, k).output == x || op(b, k).output == y) return op(a, k).output == x && op(b, k).output == y;
  if (!is_constant(in_, x) || !is_constant(in_, y)) return x == y;
  const bool filter = i == 0 && input == 1;
  if (!filter && in_[x].constant->size() == 1) return *in_[x].constant == *in_[y].constant;
  return in_[x].shape.size() == in_[y].shape.size() && (filter || is_vector(in_, y, columns_of(b)));
}

// The same operators on the same values, but for the constants' elements and the number of columns
bool Stacker::alike(const Region& a, const Region& b) const {
  if (a.operators.size() != b.operators.size()) return false;
  for (std::size_t i = 0; i < a.operators.size(); ++i) {
    const Operator &x = op(a, i), &y = op(b, i);
    if (!(x.kind == y.kind) || x.inputs.size() != y.inputs.size()) return false;
    if ((x.output == made(a)) != (y.output == made(b))) return false;
    for (std::size_t k = 0; k < x.inputs.size(); ++k)
      if (!alike(a, b, i, k)) return false;
  }
  return true;
}

// Groups the products that read one input
void Stacker::find_classes(const std::vector<const Region*>& readers) {
  std::vector<Class> classes;
  for (const Region* r : readers) {
    if (const auto refused = refusal(*r)) {
      alone_[in_[made(*r)].name] = fmt::format("runs by itself: {}", refused->first());
      continue;
    }
    const auto found = std::find_if(classes.begin(), classes.end(), [&](const Class& c) { return alike(*c[0], *r); });
    if (found == classes.end())
      classes.push_back({r});
    else
      found->push_back(r);
  }
  for (Class& c : classes) {
    if (c.size() > 1)
      classes_.push_back(std::move(c));
    else
      alone_[in_[made(*c[0])].name] = fmt::format("runs by itself: no other product of '{}' has the same epilogue",
                                                  in_[op(*c[0], 0).inputs[0]].name);
  }
}

// The constants of an input side by side, or the input that all share
TensorId Stacker::joined(const Class& c, std::size_t i, std::size_t input) {
  const TensorId first = op(*c[0], i).inputs[input];
  if (!is_constant(in_, first)) return first;
  const bool filter = i == 0 && input == 1;
  if (!filter && in_[first].constant->size() == 1) return first;
  NetworkTensor t = in_[first];
  // rows of a filter side by side lie one after another; columns do not
  const auto* g = std::get_if<operators::Gemm>(&op(*c[0], 0).kind);
  const bool by_rows = filter && g != nullptr && !g->transpose_b;
  const std::size_t axis = filter ? (by_rows ? 1 : 0) : column_axis(t.shape.size());
  std::int64_t total = 0;
  for (const Region* r : c) total += columns_of(*r);
  t.shape[axis] = Dim(total);
  std::vector<float> elements;
  const std::int64_t depth = by_rows ? t.shape[0].value() : 1;
  for (std::int64_t row = 0; row < depth; ++row)
    for (const Region* r : c) {
      const std::vector<float>& own = *in_[op(*r, i).inputs[input]].constant;
      const auto width = static_cast<std::ptrdiff_t>(own.size()) / depth;
      elements.insert(elements.end(), own.begin() + row * width, own.begin() + (row + 1) * width);
    }
  t.name = fmt::format("{}_stacked", t.name);
  t.constant = std::make_shared<const std::vector<float>>(std::move(elements));
  return add_tensor(std::move(t));
}

// The wide operators, and the ranges of what they make
void Stacker::write(const Class& c) {
  std::int64_t total = 0;
  std::vector<std::string> names;
  for (const Region* r : c) total += columns_of(*r), names.push_back(in_[made(*r)].name);
  std::map<TensorId, TensorId> wide;  // by tensor of the first product
  for (std::size_t i = 0; i < c[0]->operators.size(); ++i) {
    Operator o = op(*c[0], i);
    for (std::size_t k = 0; k < o.inputs.size(); ++k) {
      const auto inside = wide.find(o.inputs[k]);
      o.inputs[k] = inside == wide.end() ? joined(c, i, k) : inside->second;
    }
    NetworkTensor t = in_[o.output];
    t.name = fmt::format("{}_stacked", t.name);
    t.shape[column_axis(t.shape.size())] = Dim(total);
    wide[o.output] = add_tensor(std::move(t));
    o.output = wide[o.output];
    out_.operators.push_back(std::move(o));
  }
  const TensorId whole = wide.at(made(*c[0]));
  wide_[out_[whole].name] =
      fmt::format("{} products of '{}' as one: {}", c.size(), in_[op(*c[0], 0).inputs[0]].name, fmt::join(names, ", "));
  std::int64_t begin = 0;
  for (const Region* r : c) {
    const std::int64_t end = begin + columns_of(*r);
    out_.operators.push_back({operators::Slice{.starts = {begin},
                                               .ends = {end},
                                               .steps = {1},
                                               .axes = {static_cast<int>(column_axis(in_[made(*r)].shape.size()))}},
                              in_[made(*r)].name,
                              {whole},
                              made(*r)});
    begin = end;
  }
}

Stacked Stacker::run() {
  std::vector<std::pair<TensorId, std::vector<const Region*>>> by_input;
  for (const Region& r : regions_) {
    if (r.kind != RegionReport::Kind::contraction || !is_product(in_, op(r, 0))) continue;
    const TensorId x = op(r, 0).inputs[0];
    const auto found = std::find_if(by_input.begin(), by_input.end(), [&](const auto& e) { return e.first == x; });
    if (found == by_input.end())
      by_input.push_back({x, {&r}});
    else
      found->second.push_back(&r);
  }
  for (const auto& [x, readers] : by_input)
    if (readers.size() > 1) find_classes(readers);
  if (classes_.empty()) return {std::nullopt, {}, std::move(alone_)};
  // Each class stands where the first of its products stood: all that it reads is there
  std::map<std::size_t, const Class*> at;
  std::set<std::size_t> gone;
  for (const Class& c : classes_) {
    std::size_t first = in_.operators.size();
    for (const Region* r : c) {
      first = std::min(first, r->operators[0]);
      gone.insert(r->operators.begin(), r->operators.end());
    }
    at[first] = &c;
  }
  out_ = in_;
  out_.operators.clear();
  for (std::size_t i = 0; i < in_.operators.size(); ++i) {
    if (const auto c = at.find(i); c != at.end()) write(*c->second);
    if (!gone.contains(i)) out_.operators.push_back(in_.operators[i]);
  }
  std::set<TensorId> read;
  for (const Operator& o : out_.operators) read.insert(o.inputs.begin(), o.inputs.end());
  for (TensorId id = 0; id < in_.tensors.size(); ++id)
    if (is_constant(in_, id) && !read.contains(id)) out_.tensors[id].constant = nullptr;
  return {std::move(out_), std::move(wide_), std::move(alone_)};
}

// A reshape whose rows stay rows can be a view of a range of columns
std::optional<Refusal> reshaped_dense(const Network& n, const std::vector<Region>& regions, const Operator& reshape) {
  const Shape &from = n[reshape.inputs[0]].shape, &to = n[reshape.output].shape;
  if (!logical_order(from) || !logical_order(to)) return std::nullopt;  // a copy in any case
  if (columns(from) == columns(to)) return needs_dense(n, regions, reshape.output);
  return because(fmt::format("{} joins or divides its rows", where(reshape)));
}

std::optional<Refusal> reads_dense(const Network& n, const std::vector<Region>& regions, const Region& r, TensorId id) {
  const Operator& first = n.operators[r.operators[0]];
  const std::string& name = n[r.outputs[0].tensor].name;
  if (r.kind == RegionReport::Kind::epilogue) return std::nullopt;
  if (r.kind != RegionReport::Kind::contraction) {
    return is_reshape(first.kind) && first.inputs[0] == id ? reshaped_dense(n, regions, first) : std::nullopt;
  }
  for (const RegionOperand& o : r.operands)
    if (o.tensor == id && !(o.axes == axes::bn) && !(o.axes == axes::n))
      return because(fmt::format("'{}' reads '{}' as {}", name, n[id].name, to_string(o.axes)));
  return std::nullopt;
}

}  // namespace

std::optional<Refusal> needs_dense(const Network& network, const std::vector<Region>& regions, TensorId id) {
  if (std::find(network.outputs.begin(), network.outputs.end(), id) != network.outputs.end())
    return because(fmt::format("'{}' is an output", network[id].name));
  for (const Region& r : regions)
    if (auto refusal = reads_dense(network, regions, r, id)) return refusal;
  return std::nullopt;
}

Stacked stack_products(const Network& network, const std::vector<Region>& regions, const MemoryStyle& style) {
  return Stacker(network, regions, style).run();
}

void note_stacked(const Stacked& stacked, const Network& network, std::vector<Region>& regions) {
  for (Region& r : regions) {
    const std::string& name = network[r.outputs[0].tensor].name;
    if (const auto wide = stacked.wide.find(name); wide != stacked.wide.end()) r.note = wide->second;
    if (const auto alone = stacked.alone.find(name); alone != stacked.alone.end())
      r.note += (r.note.empty() ? "" : "; ") + alone->second;
  }
}

}  // namespace unisono::network
