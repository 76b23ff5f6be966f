#include "codegen/visitor.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "coda/error.hpp"
#include "codegen/expression.hpp"
#include "ir/spelling.hpp"
#include "plan/normalisation.hpp"
#include "plan/refusal.hpp"

namespace coda::codegen {

namespace {

using PlaceOfStore = plan::Output::Place;

std::string_view element_name(DType t) {
  switch (t) {
    case DType::bf16: return "Bf16";
    case DType::f16: return "F16";
    case DType::i32: return "int";
    case DType::boolean: return "bool";
    default: return "float";
  }
}

std::string extent_name(Coordinate c) {
  return c == Coordinate::n ? "channels" : fmt::format("extent_of_{}", ir::to_string(c));
}

bool is_scalar(const Node& x) { return x.axes == axes::scalar; }

std::string function(const std::string& head, const std::string& body) {
  return fmt::format("    static CODA_DEVICE {} {{\n{}    }}\n", head, body);
}

}  // namespace

VisitorWriter::VisitorWriter(const plan::Epilogue& epilogue, const Options& options)
    : e_(epilogue), g_(epilogue.graph), options_(options), names_(epilogue.graph) {
  std::vector<ValueId> statistics;
  if (e_.norm)
    for (const auto& id : {e_.norm->mean, e_.norm->variance})
      if (id) statistics.push_back(*id);
  statistical_ = plan::depends_on(g_, statistics);
  add_fields();
  check_tensors();
  decide_halving();
}

DType VisitorWriter::storage_of(const Node& operand) const {
  if (operand.attr.storage) return *operand.attr.storage;
  const auto bound = options_.storage.find(operand.attr.name);
  return bound == options_.storage.end() ? DType::f32 : bound->second;
}

std::string VisitorWriter::element_of(ValueId operand) const {
  const DType t = storage_of(g_[operand]);
  if (t == DType::f64) plan::refuse(g_, operand, "its storage is f64");
  return std::string(element_name(t));
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
    const bool by_value = is_scalar(x) && !options_.scalar_pointers.contains(x.attr.name);
    const DType value = x.dtype == DType::i32 || x.dtype == DType::boolean ? DType::i32 : DType::f32;
    add({by_value ? Field::Kind::operand_value : Field::Kind::operand_pointer,
         x.attr.name,
         by_value ? value : storage_of(x),
         x.axes,
         {}},
        names_.of(id));
    by_channel |= x.axes == axes::bn;
  }
  for (const plan::Output& o : e_.outputs) {
    if (o.place != PlaceOfStore::statistics) continue;
    const Store& s = g_.stores[o.store];
    add({Field::Kind::store_pointer, s.name, s.dtype, g_[s.value].axes, {}}, names_.of_store(o.store));
    by_channel |= e_.norm->group_channels == 1;
  }
  std::set<Coordinate> extents;
  if (by_channel) extents.insert(Coordinate::n);
  for (const Node& x : g_.nodes)
    if (x.op == Op::extent) extents.insert(x.attr.coordinate);
  for (const Coordinate c : extents) add({Field::Kind::extent, "", DType::i32, axes::scalar, c}, extent_name(c));
}

std::string VisitorWriter::params() const {
  std::string text = "    struct Params {\n";
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    const Field& f = fields_[i];
    const bool pointer = f.kind == Field::Kind::operand_pointer || f.kind == Field::Kind::store_pointer;
    const std::string type = f.kind == Field::Kind::operand_pointer ? "const void* "
                             : pointer                              ? "void* "
                                                                    : fmt::format("alignas(8) {} ", type_of(f.dtype));
    const std::string note = pointer ? fmt::format("  // {} {}", to_string(f.dtype), to_string(f.axes)) : "";
    text += fmt::format("        {}{};{}\n", type, field_names_[i], note);
  }
  return text + "    };\n";
}

void VisitorWriter::check_tensors() const {
  for (const auto* list : {&e_.tensors_before, &e_.tensors_after})
    for (const ValueId id : *list) {
      const DType t = storage_of(g_[id]);
      if (t != DType::bf16 && t != DType::f16 && t != DType::f32 && t != DType::tf32)
        plan::refuse(g_, id,
                     fmt::format("operands [m,n] are bf16, f16 or f32 in memory, and this one is {}", to_string(t)));
    }
}

std::string VisitorWriter::tensors() const {
  std::vector<ValueId> all = e_.tensors_before;
  all.insert(all.end(), e_.tensors_after.begin(), e_.tensors_after.end());
  std::string text = fmt::format("    static constexpr int kTensorsBefore = {}, kTensors = {};\n",
                                 e_.tensors_before.size(), all.size());
  if (all.empty()) return text;
  std::string body;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool last = i + 1 == all.size();
    const std::string choice = all.size() == 1 ? ""
                               : last          ? "else "
                                               : fmt::format("{}if constexpr (i == {}) ", i == 0 ? "" : "else ", i);
    body += fmt::format("        {}return TensorSource<{}>{{p.{}}};\n", choice, element_of(all[i]), names_.of(all[i]));
  }
  return text + "    template <int i>\n" + function("auto tensor(const Params& p)", body);
}

// ---- Leaves

std::string VisitorWriter::load_scalar(ValueId id) const {
  const Node& x = g_[id];
  if (x.op == Op::extent) return "p." + extent_name(x.attr.coordinate);
  if (options_.scalar_pointers.contains(x.attr.name)) {
    const DType t = storage_of(x);
    return converted(fmt::format("load<{}>(p.{}, 0)", element_of(id), names_.of(id)), t, x.dtype);
  }
  const DType passed = x.dtype == DType::boolean ? DType::i32 : x.dtype;
  return converted("p." + names_.of(id), passed, x.dtype);
}

std::string VisitorWriter::load_column(ValueId id, const std::string& channel) const {
  const Node& x = g_[id];
  const std::string at = x.axes == axes::n   ? channel
                         : x.axes == axes::b ? "image"
                                             : fmt::format("image * p.channels + {}", channel);
  return converted(fmt::format("load<{}>(p.{}, {})", element_of(id), names_.of(id), at), storage_of(x), x.dtype);
}

// How a value is spelled where it is not computed; "" if it is to be
std::string VisitorWriter::given(ValueId id, const Place& place) {
  if (const auto found = place.values.find(id); found != place.values.end()) return found->second;
  const Node& x = g_[id];
  if (is_scalar(x)) {
    uniforms_read_.insert(id);
    return "u." + names_.of(id);
  }
  const auto index_in = [&](const std::vector<ValueId>* list) {
    return list == nullptr ? -1 : static_cast<int>(std::find(list->begin(), list->end(), id) - list->begin());
  };
  if (const int i = index_in(place.columns); i >= 0 && i < std::ssize(*place.columns)) {
    const std::string column = fmt::format("column[{}]", i);
    return x.dtype == DType::i32 ? fmt::format("__float_as_int({})", column) : converted(column, DType::f32, x.dtype);
  }
  if (x.op != Op::operand) return "";
  if (const int i = index_in(place.tensors); i >= 0 && i < std::ssize(*place.tensors))
    return converted(fmt::format("tensor[{}]", i), DType::f32, x.dtype);
  return load_column(id, place.channel);
}

Scope VisitorWriter::scope(const Place& place, bool accurate, bool halving) {
  const auto instead = [this, halving](ValueId id) -> std::string {
    const Node& x = g_[id];
    if (!halving || (x.op != Op::silu && x.op != Op::sigmoid) || x.inputs[0] != e_.norm->result) return "";
    return fmt::format("math::{}_of_half(norm)", to_string(x.op));
  };
  return Scope(
      g_, names_, accurate, [this, &place](ValueId id) { return given(id, place); }, instead);
}

// ---- Uniforms

std::string VisitorWriter::uniform() {
  std::string members, names, parameter = uniforms_read_.empty() ? "" : " p";
  const std::vector<ValueId> values(uniforms_read_.begin(), uniforms_read_.end());
  for (const ValueId id : values) {
    members += fmt::format("        {} {};\n", type_of(g_[id].dtype), names_.of(id));
    names += (names.empty() ? "" : ", ") + names_.of(id);
  }
  Scope s(g_, names_, true, [this](ValueId id) {
    const Op op = g_[id].op;
    return op == Op::operand || op == Op::extent ? load_scalar(id) : "";
  });
  s.compute(values);
  std::string results;
  for (const ValueId id : values) results += (results.empty() ? "" : ", ") + s.text(id, g_[id].dtype);
  s.line(fmt::format("return {{{}}};", results));
  return "    struct Uniform {\n" + members + "    };\n" +
         function(fmt::format("Uniform uniform(const Params&{})", parameter), s.lines());
}

// ---- Columns

std::string VisitorWriter::columns(const char* name, const std::vector<ValueId>& values) {
  Place place;
  place.channel = "channel";
  Scope s = scope(place, true);
  s.compute(values);
  for (std::size_t i = 0; i < values.size(); ++i)
    s.line(fmt::format("column[{}] = as_column({});", i, s.text(values[i], g_[values[i]].dtype)));
  return function(
      fmt::format("void columns_{}(const Params& p, const Uniform& u, int image, int channel, float* column)", name),
      s.lines());
}

// ---- Elements

std::string VisitorWriter::raw_as_input() const { return converted("raw", DType::f32, g_[e_.norm->input].dtype); }

VisitorWriter::Place VisitorWriter::elements_before() const {
  Place place;
  place.columns = &e_.columns_before;
  place.tensors = &e_.tensors_before;
  for (ValueId id = 0; id < g_.nodes.size(); ++id)
    if (g_[id].op == Op::acc) place.values[id] = "acc";
  return place;
}

VisitorWriter::Place VisitorWriter::elements_after(bool with_raw) const {
  Place place;
  if (!e_.norm) place = elements_before();
  place.columns = &e_.columns_after;
  place.tensors = &e_.tensors_after;
  if (!e_.norm) return place;
  if (with_raw && e_.uses_raw) place.values[e_.norm->input] = raw_as_input();
  place.values[e_.norm->result] = "norm";
  return place;
}

std::string VisitorWriter::element(const char* head, const Place& place, ValueId value) {
  Scope s = scope(place, options_.accurate, halved_);
  s.compute(std::vector{value});
  s.line(fmt::format("return {};", s.text(value, DType::f32)));
  return function(fmt::format("float {}const float* column, const float* tensor, const Uniform& u)", head), s.lines());
}

std::string VisitorWriter::before() {
  if (!e_.norm)
    return function("float before(float acc, const float*, const float*, const Uniform&)", "        return acc;\n");
  return element("before(float acc, ", elements_before(), e_.norm->input);
}

std::string VisitorWriter::after() {
  const ValueId value = g_.stores[e_.outputs.at(0).store].value;
  return element(e_.norm ? "after(float norm, float raw, " : "after(float acc, float, ", elements_after(true), value);
}

std::string VisitorWriter::side() {
  if (e_.side_before()) return element("side(float acc, ", elements_before(), g_.stores[e_.outputs[1].store].value);
  if (e_.side_after())
    return element(e_.norm ? "side(float norm, " : "side(float acc, ", elements_after(false),
                   g_.stores[e_.outputs[1].store].value);
  return function("float side(float, const float*, const float*, const Uniform&)", "        return 0.f;\n");
}

// ---- The normalisation

// If y is read by silu and sigmoid alone, whose tanh takes y/2, the columns give y/2: exact, and one product less an
// element
void VisitorWriter::decide_halving() {
  if (!e_.norm || options_.accurate) return;
  const ValueId y = e_.norm->result;
  for (const Store& s : g_.stores)
    if (s.value == y) return;
  for (const Node& x : g_.nodes) {
    if (std::find(x.inputs.begin(), x.inputs.end(), y) == x.inputs.end()) continue;
    if (x.op != Op::silu && x.op != Op::sigmoid) return;
    halved_ = true;
  }
}

// What factor and shift are computed from besides statistics and scalars
std::vector<ValueId> VisitorWriter::late_values() const {
  std::set<ValueId> late, seen;
  std::vector<ValueId> pending;
  for (const auto& id : {e_.norm->factor, e_.norm->shift})
    if (id) pending.push_back(*id);
  while (!pending.empty()) {
    const ValueId id = pending.back();
    pending.pop_back();
    if (is_scalar(g_[id]) || id == e_.norm->mean || id == e_.norm->variance || !seen.insert(id).second) continue;
    if (statistical_[id])
      pending.insert(pending.end(), g_[id].inputs.begin(), g_[id].inputs.end());
    else
      late.insert(id);
  }
  return {late.begin(), late.end()};
}

std::string VisitorWriter::late_and_affine() {
  if (!e_.norm)
    return "    struct Late {};\n" +
           function("Late late(const Params&, const Uniform&, int, int)", "        return {};\n") +
           function("float2 affine(const Late&, const Uniform&, float, float)", "        return {1.f, 0.f};\n");
  const std::vector<ValueId> values = late_values();
  Place loads, uses;
  loads.channel = "channel";
  std::string members, results;
  Scope first = scope(loads, true);
  first.compute(values);
  for (const ValueId id : values) {
    const DType held = g_[id].dtype == DType::boolean ? DType::i32 : g_[id].dtype;  // members of four bytes
    members += fmt::format("        {} {};\n", type_of(held), names_.of(id));
    results += (results.empty() ? "" : ", ") + first.text(id, held);
    uses.values[id] = converted("late." + names_.of(id), held, g_[id].dtype);
  }
  first.line(fmt::format("return {{{}}};", results));
  if (e_.norm->mean) uses.values[*e_.norm->mean] = "mean";
  if (e_.norm->variance) uses.values[*e_.norm->variance] = "variance";
  Scope second = scope(uses, true);
  std::string factor = "1.f", shift = "0.f";
  for (const auto& [id, text] : {std::pair{e_.norm->factor, &factor}, {e_.norm->shift, &shift}}) {
    if (!id) continue;
    second.compute(std::vector{*id});
    *text = second.text(*id, DType::f32);
  }
  const char* note = halved_ ? "  // y/2 is what comes next needs" : "";
  const char* half = halved_ ? "0.5f * " : "";
  second.line(fmt::format("return {{{}{}, {}{}}};{}", half, factor, half, shift, note));
  return "    struct Late {\n" + members + "    };\n" +
         function("Late late(const Params& p, const Uniform& u, int image, int channel)", first.lines()) +
         function("float2 affine(const Late& late, const Uniform& u, float mean, float variance)", second.lines());
}

std::string VisitorWriter::statistics() {
  Place place;
  place.channel = "group";  // of groups of one channel; others read no operand of a channel
  if (e_.norm && e_.norm->mean) place.values[*e_.norm->mean] = "mean";
  if (e_.norm && e_.norm->variance) place.values[*e_.norm->variance] = "variance";
  Scope s = scope(place, true);
  for (const plan::Output& o : e_.outputs) {
    if (o.place != PlaceOfStore::statistics) continue;
    const Store& store = g_.stores[o.store];
    const Axes& a = g_[store.value].axes;
    s.compute(std::vector{store.value});
    const std::string groups = e_.norm->group_channels == 1 ? "p.channels" : fmt::format("{}", std::max(1, a.groups));
    s.line(fmt::format("store<{}>(p.{}, image * {} + group, {});", element_name(store.dtype), names_.of_store(o.store),
                       groups, s.text(store.value, DType::f32)));
  }
  const bool any = !s.lines().empty();
  return fmt::format("    static constexpr bool kStatistics = {};\n", any) +
         function(
             "void statistics(const Params& p, const Uniform& u, int image, int group, float mean, float variance)",
             s.lines());
}

// ---- All of it

std::string VisitorWriter::text() {
  const auto dtype_of = [&](std::size_t i) { return element_name(g_.stores[e_.outputs.at(i).store].dtype); };
  const bool two = e_.side_before() || e_.side_after();
  const std::string functions = columns("before", e_.columns_before) + columns("after", e_.columns_after) + "\n" +
                                tensors() + before() + after() + side() + "\n" +
                                fmt::format("    static constexpr bool kRaw = {};\n", e_.uses_raw) + late_and_affine() +
                                statistics();
  return fmt::format(
             "struct Visitor {{\n    using Output = {};\n    using Side = {};\n    static constexpr SideStore kSide = "
             "SideStore::{};\n",
             dtype_of(0), dtype_of(two ? 1 : 0),
             e_.side_before() ? "kBefore"
             : two            ? "kAfter"
                              : "kNone") +
         params() + uniform() + "\n" +
         fmt::format("    static constexpr int kColumnsBefore = {}, kColumnsAfter = {};\n", e_.columns_before.size(),
                     e_.columns_after.size()) +
         functions + "};\n";
}

}  // namespace coda::codegen
