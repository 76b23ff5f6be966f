#include "runtime/cpu/strips/bindings.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "coda/error.hpp"
#include "runtime/cpu/elements.hpp"
#include "support/float_convert.hpp"

namespace coda::cpu {

namespace {

using Shape = std::vector<std::int64_t>;

std::string listed(const std::vector<std::string>& names) {
  if (names.empty()) return "none";
  return fmt::format("{}", fmt::join(names, ", "));
}

Shape strides_or_dense(const ConstTensorView& v) { return v.strides.empty() ? row_major_strides(v.shape) : v.strides; }

// (rows) of an [m] value may also be given in the shape of the image: (batch, m) or (N, P, Q)
ConstTensorView flattened_rows(const ConstTensorView& v, const Operands& o) {
  const Extents& e = o.extents;
  const Shape image = o.matrix ? Shape{e.images, e.height} : Shape{e.images, e.height, e.width};
  if (v.shape != image) return v;
  if (!v.strides.empty() && v.strides != row_major_strides(v.shape)) return v;
  return {v.data, v.dtype, {e.rows()}, {}};
}

BoundTensor bind_tensor(const Operands& o, const Axes& axes, DType dtype, const ConstTensorView& given,
                        const std::string& what) {
  const ConstTensorView view = axes == axes::m ? flattened_rows(given, o) : given;
  const DType allowed[] = {dtype};
  const Shape shape = o.shape_of(axes);
  if (axes == axes::scalar && element_count(view.shape) == 1) {
    ConstTensorView scalar = view;
    scalar.shape = {};
    scalar.strides = {};
    checked_strides(scalar, {}, allowed, what);
    return {static_cast<std::byte*>(const_cast<void*>(view.data)), dtype, {}, 0, 0};
  }
  const Shape strides = checked_strides(view, shape, allowed, what);
  BoundTensor b{static_cast<std::byte*>(const_cast<void*>(view.data)), dtype, {}, 0, 0};
  if (axes == axes::mn) {
    b.mn = o.mn_strides(strides);
  } else if (axes.row != RowAxis::none && axes.col != ColAxis::none) {
    b.row = strides.at(0);
    b.col = strides.at(1);
  } else if (axes.row != RowAxis::none) {
    b.row = strides.at(0);
  } else if (axes.col != ColAxis::none) {
    b.col = strides.at(0);
  }
  return b;
}

double bind_scalar(const Operands::Operand& o, const Arguments& a) {
  if (const auto it = a.scalars.find(o.name); it != a.scalars.end()) {
    const bool integral = o.declared && o.storage == DType::i32;
    if (integral && it->second != support::round_to(it->second, DType::i32))
      throw UserError(fmt::format("scalar {} was given {}; it is declared i32, so an integer of 32 bits is expected",
                                  o.name, it->second));
    return it->second;
  }
  if (const auto it = a.operands.find(o.name); it != a.operands.end())
    return support::load(it->second.data, 0, o.storage);
  if (o.default_value) return *o.default_value;
  throw UserError(fmt::format(
      "scalar operand {} is not bound and has no default; set Arguments::scalars[\"{}\"] or operands[\"{}\"]", o.name,
      o.name, o.name));
}

void check_names(const Operands& o, const Arguments& a) {
  std::vector<std::string> operands, outputs;
  for (const auto& x : o.operands) operands.push_back(x.name);
  for (const auto& x : o.outputs) outputs.push_back(x.name);
  const auto known = [](const auto& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const auto pruned = [&](const std::string& name) { return known(o.pruned, name); };
  for (const auto& [name, view] : a.operands)
    if (!known(operands, name) && !pruned(name))
      throw UserError(
          fmt::format("operand {} is bound, but the graph has no such operand; it has: {}", name, listed(operands)));
  for (const auto& [name, value] : a.scalars) {
    if (pruned(name)) continue;
    const auto it = std::find_if(o.operands.begin(), o.operands.end(), [&](const auto& x) { return x.name == name; });
    if (it == o.operands.end())
      throw UserError(
          fmt::format("scalar {} is bound, but the graph has no such operand; it has: {}", name, listed(operands)));
    if (!(it->axes == axes::scalar))
      throw UserError(fmt::format("operand {}{} was bound by value; bind a tensor in Arguments::operands", name,
                                  to_string(it->axes)));
    if (a.operands.contains(name))
      throw UserError(fmt::format("scalar {} is bound twice: by value and by pointer", name));
  }
  for (const auto& [name, view] : a.outputs)
    if (!known(outputs, name))
      throw UserError(
          fmt::format("output {} is bound, but the graph stores no such value; it stores: {}", name, listed(outputs)));
}

struct Named {
  std::string what;
  ConstTensorView view;
  Shape strides;
};

void check_overlaps(const Operands& o, const Arguments& a, bool has_a, bool a_in_place) {
  std::vector<Named> read, written;
  if (has_a) read.push_back({"input a", a.a, strides_or_dense(a.a)});
  if (has_a && a.b.data) read.push_back({"input b", a.b, strides_or_dense(a.b)});
  for (const auto& [name, view] : a.operands) read.push_back({"operand " + name, view, strides_or_dense(view)});
  for (const auto& [name, view] : a.outputs) {
    written.push_back({"output " + name, view, strides_or_dense(view)});
    check_distinct(view, written.back().strides, "output " + name);
  }
  for (std::size_t i = 0; i < written.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j)
      if (may_overlap(written[i].view, written[i].strides, written[j].view, written[j].strides))
        throw UserError(fmt::format("{} and {} share memory", written[j].what, written[i].what));
    for (const Named& r : read) {
      if (!may_overlap(written[i].view, written[i].strides, r.view, r.strides)) continue;
      const bool same = r.view.data == written[i].view.data && r.strides == written[i].strides &&
                        r.view.dtype == written[i].view.dtype && r.view.shape == written[i].view.shape &&
                        r.view.shape == o.mn_shape;
      const bool allowed = same && o.in_place_allowed && (r.what != "input b") && (r.what != "input a" || a_in_place);
      if (!allowed)
        throw UserError(
            fmt::format("{} shares memory with {}; only an [m,n] operand with the very same view may be overwritten, "
                        "and only in a graph "
                        "without reductions over rows",
                        written[i].what, r.what));
    }
  }
}

}  // namespace

Shape Operands::shape_of(const Axes& axes) const {
  if (axes == axes::mn) return mn_shape;
  Shape s;
  if (axes.row == RowAxis::m) s.push_back(extents.rows());
  if (axes.row == RowAxis::b) s.push_back(extents.images);
  if (axes.col == ColAxis::n) s.push_back(extents.cols);
  if (axes.col == ColAxis::g) s.push_back(axes.groups);
  return s;
}

PixelStrides Operands::mn_strides(const Shape& strides) const {
  return matrix ? matrix_strides(strides) : pixel_strides(strides, layout);
}

Operands make_operands(const Graph& graph, const Graph& written, const Extents& extents, Shape mn_shape, Layout layout,
                       bool matrix, const CompileOptions& options) {
  Operands o;
  o.extents = extents;
  o.mn_shape = std::move(mn_shape);
  o.layout = layout;
  o.matrix = matrix;
  std::vector<bool> label(graph.nodes.size(), false);
  for (const Node& x : graph.nodes)
    if (x.op == Op::one_hot) label[x.inputs[0]] = true;
  for (ValueId id = 0; id < graph.nodes.size(); ++id) {
    const Node& x = graph[id];
    if (x.op != Op::operand) continue;
    DType storage = x.attr.storage.value_or(label[id] ? DType::i32 : DType::f32);
    if (const auto it = options.storage.find(x.attr.name); it != options.storage.end() && !x.attr.storage)
      storage = it->second;
    if (storage == DType::f8e4m3 || storage == DType::f8e5m2)
      throw UserError(
          fmt::format("operand {} was given storage {}: the fp8 types are reserved", x.attr.name, to_string(storage)));
    o.of_node[id] = o.operands.size();
    o.operands.push_back({x.attr.name, x.axes, storage, x.attr.storage.has_value(), x.attr.default_value});
  }
  for (const Node& x : written.nodes) {
    const bool used =
        std::any_of(o.operands.begin(), o.operands.end(), [&](const auto& y) { return y.name == x.attr.name; });
    if (x.op == Op::operand && !used) o.pruned.push_back(x.attr.name);
  }
  for (const Store& s : graph.stores) o.outputs.push_back({s.name, graph[s.value].axes, s.dtype});
  return o;
}

Bindings bind(const Operands& o, const Arguments& a, bool has_a, bool a_in_place) {
  check_names(o, a);
  Bindings b;
  for (const auto& x : o.operands) {
    const std::string what = fmt::format("operand {}{}", x.name, to_string(x.axes));
    const auto it = a.operands.find(x.name);
    if (x.axes == axes::scalar) {
      if (it != a.operands.end()) bind_tensor(o, x.axes, x.storage, it->second, what);
      b.operands.push_back({});
      b.scalars.push_back(bind_scalar(x, a));
      continue;
    }
    if (it == a.operands.end())
      throw UserError(fmt::format("{} is not bound; set Arguments::operands[\"{}\"]", what, x.name));
    b.operands.push_back(bind_tensor(o, x.axes, x.storage, it->second, what));
    b.scalars.push_back(0);
  }
  for (const auto& x : o.outputs) {
    const std::string what = fmt::format("output {}{}", x.name, to_string(x.axes));
    const auto it = a.outputs.find(x.name);
    if (it == a.outputs.end())
      throw UserError(fmt::format("{} is not bound; set Arguments::outputs[\"{}\"]", what, x.name));
    b.outputs.push_back(bind_tensor(o, x.axes, x.dtype, it->second, what));
  }
  check_overlaps(o, a, has_a, a_in_place);
  return b;
}

}  // namespace coda::cpu
