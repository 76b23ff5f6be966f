/// The text of an elementwise computation.

#include <fmt/format.h>

#include "codegen/expression.hpp"
#include "tensors/map.hpp"
#include "tensors/text.hpp"
#include "unisono/error.hpp"
#include "unisono/graph.hpp"

namespace unisono::tensors {

namespace {

// The columns `types` and `cuda` of the table of maps
enum class Types : std::uint8_t { numbers, floats, integers, comparison, equality, truth };
struct MapRow {
  const char* name;
  std::size_t operands;
  Types types;
  const char* text;  // null: has none of its own
};
constexpr MapRow map_rows[] = {
#define UNISONO_MAP(NAME, OPERANDS, TYPES, CPU, CUDA, ...) {#NAME, OPERANDS, Types::TYPES, CUDA},
#define UNISONO_MAP_OTHER(NAME, OPERANDS, ...) {#NAME, OPERANDS, Types::numbers, nullptr},
#include "unisono/network/maps.def"
};

struct Value {
  std::string name;
  DType type{};
};

// How a node is written, and of which type it is
struct Written {
  std::string text;
  DType type{};
  bool reports = false;
};

[[noreturn]] void no_such(const char* name, DType t) {
  throw InternalError(fmt::format("no kernel computes {} of {}", name, to_string(t)));
}

bool accepts(Types types, DType t) {
  if (t == DType::boolean) return types == Types::truth || types == Types::equality;
  if (types == Types::truth || t == DType::f16 || t == DType::bf16) return false;
  return types == Types::floats ? is_float(t) : types != Types::integers || !is_float(t);
}

Written written(const operators::Map& map, std::span<const Value* const> x) {
  const MapRow& row = map_rows[static_cast<std::size_t>(map.op)];
  if (x.size() != row.operands) throw InternalError(fmt::format("{} of {} operands", row.name, x.size()));
  if (map.op == MapOp::cast) return {fmt::format("converted<{}>({})", tag_of(map.to), x[0]->name), map.to};
  if (map.op == MapOp::select) {
    if (x[0]->type != DType::boolean || x[1]->type != x[2]->type) no_such(row.name, x[0]->type);
    return {fmt::format("{} ? {} : {}", x[0]->name, x[1]->name, x[2]->name), x[1]->type};
  }
  const DType t = x[0]->type;
  if (!accepts(row.types, t) || x.back()->type != t) no_such(row.name, t);
  const std::string_view form = row.text;
  return {fmt::format(fmt::runtime(form), fmt::arg("x", x[0]->name), fmt::arg("y", x.back()->name)),
          row.types == Types::comparison || row.types == Types::equality ? DType::boolean : t,
          !is_float(t) && form.find("faults") != form.npos};
}

// As epilogues write it: a graph of this one node
Written written(const operators::Elementwise& e, std::span<const Value* const> x) {
  Graph g;
  Node node{.op = e.op, .dtype = DType::f32, .axes = {}, .inputs = {}, .attr = e.attr, .name = {}};
  std::vector<std::string> names;
  for (const Value* v : x) {
    if (v->type != DType::f32) no_such("an elementwise operation", v->type);
    node.inputs.push_back(static_cast<ValueId>(g.nodes.size()));
    g.nodes.push_back({.op = Op::operand, .dtype = DType::f32, .axes = {}, .inputs = {}, .attr = {}, .name = {}});
    names.push_back(v->name);
  }
  g.nodes.push_back(std::move(node));
  return {codegen::expression(g, static_cast<ValueId>(g.nodes.size() - 1), names, true), DType::f32};
}

class MapWriter {
 public:
  MapWriter(const MapProgram& program, int chunk) : p_(program), chunk_(chunk) {}
  MapText text();

 private:
  std::string loads();
  std::string nodes();
  std::string stores();

  const MapProgram& p_;
  int chunk_;
  std::vector<Value> values_;
  bool reports_ = false;
};

std::string MapWriter::loads() {
  std::string lines;
  for (std::size_t i = 0; i < p_.inputs.size(); ++i) {
    lines += fmt::format("        const auto x{0} = load_chunk<{1}, {2}>(p.tensors[{0}], offsets[{0}], here);\n", i,
                         chunk_, tag_of(p_.inputs[i].memory));
    values_.push_back({fmt::format("x{}.of[k]", i), p_.inputs[i].value});
  }
  for (std::size_t i = 0; i < p_.outputs.size(); ++i)
    lines += fmt::format("        Chunk<{}, {}> y{};\n", chunk_, tag_of(p_.outputs[i].type.memory), i);
  return lines;
}

std::string MapWriter::nodes() {
  std::string lines;
  for (const MapNode& node : p_.nodes) {
    std::vector<const Value*> operands;
    for (const std::size_t i : node.operands) operands.push_back(&values_.at(i));
    const Written w = std::visit([&](const auto& op) { return written(op, operands); }, node.op);
    reports_ = reports_ || w.reports;
    const std::string name = fmt::format("v{}", values_.size());
    lines += fmt::format("            const {} {} = {};\n", number_of(w.type), name, w.text);
    values_.push_back({name, w.type});
  }
  for (std::size_t i = 0; i < p_.outputs.size(); ++i) {
    const Value& v = values_.at(p_.outputs[i].value);
    if (v.type != p_.outputs[i].type.value) no_such("an output", v.type);
    lines += fmt::format("            y{}.of[k] = {};\n", i, v.name);
  }
  return lines;
}

std::string MapWriter::stores() {
  std::string lines;
  for (std::size_t i = 0; i < p_.outputs.size(); ++i)
    lines += fmt::format("        store_chunk<{0}, {1}>(p.tensors[{2}], offsets[{2}], here, y{3});\n", chunk_,
                         tag_of(p_.outputs[i].type.memory), p_.inputs.size() + i, i);
  return lines;
}

MapText MapWriter::text() {
  const std::size_t tensors = p_.inputs.size() + p_.outputs.size();
  std::string body = loads();
  body += "#pragma unroll\n        for (int k = 0; k < kElements; ++k) {\n            if (k >= here) continue;\n";
  body += nodes() + "        }\n";
  body += stores();
  std::string source = fmt::format(
      "// An elementwise computation on tensors.\n#include <unisono/tensor/map.cuh>\n\n"
      "namespace unisono::tensor {{\n\nstruct Program {{\n    static constexpr int kTensors = {0}, kElements = {1};\n"
      "    static UNISONO_DEVICE void run(const MapParams<{0}>& p, const i64 (&offsets)[{0}], int here) {{\n"
      "        const FaultReport& faults = p.head.faults;\n{2}"
      "    }}\n}};\n\n}}  // namespace unisono::tensor\n",
      tensors, chunk_, body);
  source += kernel_text("unisono_map", fmt::format("MapParams<{}>", tensors), "map<Program>");
  return {{std::move(source), "unisono_map"}, reports_};
}

}  // namespace

MapText map_text(const MapProgram& program, int chunk) { return MapWriter(program, chunk).text(); }

MapProgram program_of(const operators::Map& op, std::vector<ElementType> operands, ElementType result) {
  MapNode node{op, {}};
  for (std::size_t i = 0; i < operands.size(); ++i) node.operands.push_back(i);
  const std::size_t value = operands.size();
  return {std::move(operands), {std::move(node)}, {{value, result}}};
}

}  // namespace unisono::tensors
