// Operands, extents and the parameters that bring them.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/expression.hpp"
#include "codegen/pieces.hpp"
#include "codegen/visitor.hpp"
#include "ir/row_coordinates.hpp"
#include "ir/spelling.hpp"
#include "plan/refusal.hpp"
#include "unisono/error.hpp"

namespace unisono::codegen {

namespace {

std::string extent_name(Coordinate c) {
  return c == Coordinate::n ? "channels" : fmt::format("extent_of_{}", ir::to_string(c));
}

bool is_scalar(const Node& x) { return x.axes == axes::scalar; }

bool is_passed_by_value(const Node& operand, const Options& options) {
  return is_scalar(operand) && !options.scalar_pointers.contains(operand.attr.name);
}

DType storage_of(const Node& operand, const Options& options) {
  if (operand.attr.storage) return *operand.attr.storage;
  const auto bound = options.storage.find(operand.attr.name);
  return bound == options.storage.end() ? DType::f32 : bound->second;
}

}  // namespace

std::optional<plan::Refusal> refuse_operands(const plan::Epilogue& e, const Options& options) {
  for (const auto* list : {&e.ahead_of_stages().tensors, &e.reads.tensors})
    for (const ValueId id : *list)
      if (storage_of(e.graph[id], options) == DType::f64)
        return plan::refusal_at(e.graph, id, "operands [m,n] are bf16, f16, f32, i32 or bool in memory, not f64");
  for (ValueId id = 0; id < e.graph.nodes.size(); ++id) {
    const Node& x = e.graph[id];
    if (x.op == Op::operand && !is_passed_by_value(x, options) && storage_of(x, options) == DType::f64)
      return plan::refusal_at(e.graph, id, "its storage is f64");
  }
  return std::nullopt;
}

std::string VisitorWriter::element_of(ValueId operand) const {
  const DType t = storage_of(g_[operand], options_);
  if (t == DType::f64)
    throw InternalError(fmt::format("a visitor of '{}', which lies in memory as f64", g_[operand].attr.name));
  return std::string(element_name(t));
}

bool VisitorWriter::lies_apart(ValueId id) const {
  return g_[id].op == Op::operand && g_[id].axes == axes::bn && options_.apart.contains(g_[id].attr.name);
}

// ---- Fields

void VisitorWriter::add_fields() {
  const auto add = [&](Field f, const std::string& name) {
    fields_.push_back(std::move(f));
    field_names_.push_back(name);
  };
  bool by_channel = false;
  for (ValueId id = 0; id < g_.nodes.size(); ++id) {
    const Node& x = g_[id];
    if (x.op != Op::operand) continue;
    const bool by_value = is_passed_by_value(x, options_);
    const DType value = x.dtype == DType::i32 || x.dtype == DType::boolean ? DType::i32 : DType::f32;
    add({by_value ? Field::Kind::operand_value : Field::Kind::operand_pointer,
         x.attr.name,
         by_value ? value : storage_of(x, options_),
         x.axes,
         {},
         x.attr.rows,
         x.attr.strided},
        names_.of(id));
    by_channel |= x.axes.col == ColAxis::g || (x.axes == axes::bn && !options_.apart.contains(x.attr.name));
  }
  for (const plan::Output& o : e_.outputs) {
    if (o.path == plan::Output::StorePath::before || o.path == plan::Output::StorePath::after) continue;
    const Store& s = g_.stores[o.store];
    add({Field::Kind::store_pointer, s.name, s.dtype, g_[s.value].axes, {}, {}, s.strided}, names_.of_store(o.store));
    by_channel |= (e_.norm() && e_.normalised()->group_channels == 1) || g_[s.value].axes == axes::bn;
  }
  std::set<Coordinate> extents = extents_read();
  if (by_channel) extents.insert(Coordinate::n);
  for (const Coordinate c : extents) add({Field::Kind::extent, "", DType::i32, axes::scalar, c}, extent_name(c));
  for (ValueId id = 0; id < g_.nodes.size(); ++id)
    if (lies_apart(id)) add({Field::Kind::pitch, g_[id].attr.name, DType::i32, axes::scalar, {}}, names_.of_pitch(id));
  add_steps();
  for (const std::string& name : captured())
    add({Field::Kind::pointer, name, DType::f32, axes::scalar, {}}, pointer_member(name));
}

std::set<Coordinate> VisitorWriter::extents_read() const {
  std::set<Coordinate> extents;
  for (const Node& x : g_.nodes) {
    const Coordinate c = x.attr.coordinate;
    if (x.op == Op::index && (c == Coordinate::h || c == Coordinate::w)) extents.insert({Coordinate::h, Coordinate::w});
    if (x.op == Op::extent) extents.insert(c);
  }
  if (plan::places(g_)) extents.insert({Coordinate::h, Coordinate::w});
  return extents;
}

// Where operands and stores lie that are not as the output is
void VisitorWriter::add_steps() {
  constexpr Coordinate coordinates[] = {Coordinate::b, Coordinate::h, Coordinate::w, Coordinate::n};
  const auto add = [&](Field::Kind kind, const std::string& of, Coordinate c, const std::string& name) {
    fields_.push_back({kind, of, DType::i32, axes::scalar, c});
    field_names_.push_back(name);
  };
  for (ValueId id = 0; id < g_.nodes.size(); ++id) {
    const Node& x = g_[id];
    if (!plan::is_placed(x)) continue;
    for (const Coordinate c : coordinates)
      if (c != Coordinate::n || x.axes == axes::mn)
        add(Field::Kind::operand_step, x.attr.name, c, names_.of_step(id, c));
    if (x.axes == axes::mn)
      add(Field::Kind::operand_vectors, x.attr.name, Coordinate::m, names_.of_step(id, Coordinate::m));
  }
  for (std::size_t i = 0; i < g_.stores.size(); ++i)
    if (g_.stores[i].strided)
      for (const Coordinate c : coordinates)
        add(Field::Kind::store_step, g_.stores[i].name, c, names_.of_store_step(i, c));
}

// The pointers that called functions have captured, each once
std::vector<std::string> VisitorWriter::captured() const {
  std::vector<std::string> names;
  for (const Node& x : g_.nodes)
    if (x.op == Op::call)
      for (const CapturedPointer& p : g_.functions.at(x.attr.name)->pointers)
        if (std::ranges::find(names, p.name) == names.end()) names.push_back(p.name);
  return names;
}

std::string VisitorWriter::place(const std::string& image, const std::string& row, const std::string& pixel,
                                 const std::string& column) {
  return fmt::format("Place{{p.{}, p.{}, p.{}, p.{}, p.{}, {}}}", extent_name(Coordinate::h),
                     extent_name(Coordinate::w), image, row, pixel, column);
}

std::string VisitorWriter::place_of(ValueId id) const {
  using enum Coordinate;
  return place(names_.of_step(id, b), names_.of_step(id, h), names_.of_step(id, w),
               g_[id].axes == axes::mn ? "p." + names_.of_step(id, n) : "0");
}

std::string VisitorWriter::place_of_store(std::size_t store) const {
  using enum Coordinate;
  return place(names_.of_store_step(store, b), names_.of_store_step(store, h), names_.of_store_step(store, w),
               "p." + names_.of_store_step(store, n));
}

std::string VisitorWriter::params() const {
  std::string text;
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    const Field& f = fields_[i];
    const bool pointer = f.kind == Field::Kind::operand_pointer || f.kind == Field::Kind::store_pointer;
    const bool step = f.kind == Field::Kind::operand_step || f.kind == Field::Kind::store_step;
    const std::string type = f.kind == Field::Kind::operand_pointer      ? "const void* "
                             : pointer || f.kind == Field::Kind::pointer ? "void* "
                             : step                                      ? "i64 "
                                    : fmt::format("alignas(8) {} ", type_of(f.dtype));
    const std::string note =
        pointer ? fmt::format("  // {} {}", to_string(f.dtype), ir::operand_axes(f.axes, f.rows)) : "";
    text += fmt::format("        {}{};{}\n", type, field_names_[i], note);
  }
  return structure("Params", text);
}

std::string VisitorWriter::tensors() const {
  std::vector<ValueId> all = e_.ahead_of_stages().tensors;
  all.insert(all.end(), e_.reads.tensors.begin(), e_.reads.tensors.end());
  std::string text = fmt::format("    static constexpr int kTensorsBefore = {}, kTensors = {};\n",
                                 e_.ahead_of_stages().tensors.size(), all.size());
  if (all.empty()) return text;
  std::string body;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool last = i + 1 == all.size();
    const std::string choice = all.size() == 1 ? ""
                               : last          ? "else "
                                               : fmt::format("{}if constexpr (i == {}) ", i == 0 ? "" : "else ", i);
    const std::string element = element_of(all[i]), name = names_.of(all[i]);
    body += plan::is_placed(g_[all[i]])
                ? fmt::format("        {}return PlacedSource<{}>{{{{p.{}}}, {}, p.{} != 0}};\n", choice, element, name,
                              place_of(all[i]), names_.of_step(all[i], Coordinate::m))
                : fmt::format("        {}return TensorSource<{}>{{p.{}}};\n", choice, element, name);
  }
  return text + "    template <int i>\n" + function("auto tensor(const Params& p)", body);
}

// ---- Leaves

std::string VisitorWriter::load_scalar(ValueId id) const {
  const Node& x = g_[id];
  if (x.op == Op::extent) return "p." + extent_name(x.attr.coordinate);
  if (!is_passed_by_value(x, options_)) {
    const DType t = storage_of(x, options_);
    return converted(fmt::format("load<{}>(p.{}, 0)", element_of(id), names_.of(id)), t, x.dtype);
  }
  const DType passed = x.dtype == DType::boolean ? DType::i32 : x.dtype;
  return converted("p." + names_.of(id), passed, x.dtype);
}

std::string VisitorWriter::group_text(const Axes& a, const Bindings& bindings) {
  const std::string group = bindings.groups == a.groups
                                ? bindings.channel
                                : fmt::format("{} / (p.channels / {})", bindings.channel, a.groups);
  return a.row == RowAxis::b ? fmt::format("{} * {} + {}", bindings.image, a.groups, group) : group;
}

std::string VisitorWriter::load_column(ValueId id, const Bindings& bindings) const {
  const Node& x = g_[id];
  const std::string at = plan::is_placed(x)  ? fmt::format("int({}.offset(at.m, 0))", place_of(id))
                         : x.axes == axes::n ? bindings.channel
                         : x.axes == axes::b ? bindings.image
                         : x.axes == axes::m ? "at.m"
                         : x.axes.col == ColAxis::g
                             ? group_text(x.axes, bindings)
                             : fmt::format("{} * p.{} + {}", bindings.image,
                                           lies_apart(id) ? names_.of_pitch(id) : "channels", bindings.channel);
  const DType t = storage_of(x, options_);
  const std::string load = fmt::format("load<{}>(p.{}, {})", element_of(id), names_.of(id), at);
  if (!x.attr.default_value) return converted(load, t, x.dtype);
  return converted(fmt::format("(p.{} == nullptr ? {} : {})", names_.of(id), literal(*x.attr.default_value, t), load),
                   t, x.dtype);
}

std::string VisitorWriter::coordinate(Coordinate c, const Bindings& bindings) const {
  switch (c) {
    case Coordinate::m: return "at.m";
    case Coordinate::n: return bindings.channel;
    case Coordinate::b: return bindings.image;
    case Coordinate::h:
      return fmt::format("at.m / p.{} % p.{}", extent_name(Coordinate::w), extent_name(Coordinate::h));
    case Coordinate::w: return fmt::format("at.m % p.{}", extent_name(Coordinate::w));
  }
  throw InternalError("an index of an unknown coordinate");
}

// How a value is spelled where it is not computed; "" if it is to be
std::string VisitorWriter::given(ValueId id, const Bindings& bindings) {
  if (const auto found = bindings.values.find(id); found != bindings.values.end()) return found->second;
  const Node& x = g_[id];
  const auto index_in = [&](const std::vector<ValueId>* list) {
    return list == nullptr ? -1 : static_cast<int>(std::find(list->begin(), list->end(), id) - list->begin());
  };
  if (is_scalar(x) && late_[id]) {
    const int i = e_.general() || e_.exchanging() ? index_in(bindings.columns) : -1;
    return i >= 0 && i < std::ssize(*bindings.columns) ? column_text(static_cast<std::size_t>(i), x.dtype) : "";
  }
  if (is_scalar(x)) {
    uniforms_read_.insert(id);
    return "u." + names_.of(id);
  }
  // An image's number is a column where elements read it, as all that they have of an image is
  if (const int i = index_in(bindings.columns); i >= 0 && i < std::ssize(*bindings.columns))
    return column_text(static_cast<std::size_t>(i), x.dtype);
  if (x.op == Op::index && (x.attr.coordinate != Coordinate::n || !bindings.channel.empty()))
    return coordinate(x.attr.coordinate, bindings);
  if (x.op != Op::operand) return "";
  if (const int i = index_in(bindings.tensors); i >= 0 && i < std::ssize(*bindings.tensors)) {
    const std::string tensor = fmt::format("tensor[{}]", i);
    return storage_of(x, options_) == DType::i32
               ? converted(fmt::format("__float_as_int({})", tensor), DType::i32, x.dtype)
               : converted(tensor, DType::f32, x.dtype);
  }
  return load_column(id, bindings);
}

Scope VisitorWriter::scope(const Bindings& bindings, bool accurate) {
  return Scope(
      g_, names_, accurate, [this, &bindings](ValueId id) { return given(id, bindings); },
      [this, &bindings](ValueId id, std::span<const std::string> inputs) {
        const Node& x = g_[id];
        if (bindings.guards && x.op == Op::call && x.axes == axes::mn &&
            !g_.functions.at(x.attr.name)->pointers.empty())
          return fmt::format("exists ? {} : 0.f", codegen::expression(g_, id, inputs, true));
        if (!precise_.empty() && precise_[id]) return codegen::expression(g_, id, inputs, true);
        return halving_.expression(id, inputs);
      });
}

}  // namespace unisono::codegen
