/// The text of an elementwise computation.

#include <fmt/format.h>

#include "tensors/map.hpp"
#include "tensors/node_text.hpp"
#include "tensors/text.hpp"
#include "unisono/error.hpp"

namespace unisono::tensors {

namespace {

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
  std::vector<NodeValue> values_;
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
    std::vector<const NodeValue*> operands;
    for (const std::size_t i : node.operands) operands.push_back(&values_.at(i));
    const NodeText w = node_text(node.op, operands);
    reports_ = reports_ || w.reports;
    const std::string name = fmt::format("v{}", values_.size());
    lines += fmt::format("            const {} {} = {};\n", number_of(w.type), name, w.text);
    values_.push_back({name, w.type});
  }
  for (std::size_t i = 0; i < p_.outputs.size(); ++i) {
    const NodeValue& v = values_.at(p_.outputs[i].value);
    if (v.type != p_.outputs[i].type.value)
      throw InternalError(fmt::format("no kernel computes an output of {}", to_string(v.type)));
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
