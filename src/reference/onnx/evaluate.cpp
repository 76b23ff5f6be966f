#include "reference/onnx/evaluate.hpp"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>

#include "network/onnx/opsets.hpp"
#include "reference/onnx/call.hpp"
#include "support/float_convert.hpp"
#include "support/regular_file.hpp"
#include "unisono/error.hpp"

namespace unisono::float64 {

struct OnnxModel::File {
  schema::ModelProto model;
  std::string given_folder, real_folder;
};

namespace {

using Nodes = google::protobuf::RepeatedPtrField<schema::NodeProto>;

// Names that nodes read, those within branches too
void count_reads(const Nodes& nodes, std::map<std::string, int>& reads) {
  for (const auto& node : nodes) {
    for (const auto& name : node.input()) ++reads[name];
    for (const auto& a : node.attribute()) {
      if (!a.has_g()) continue;
      count_reads(a.g().node(), reads);
      for (const auto& output : a.g().output()) reads[output.name()] += 1 << 20;  // stays
    }
  }
}

// What names mean: in the graph, in a branch, in a step of a loop or in a function
struct Scope {
  Scope* outer = nullptr;  // of a branch or a step
  std::map<std::string, OnnxValue> values;
  std::map<std::string, const schema::TensorProto*> initializers;
  OnnxAttributes attributes;  // of a function's call
  std::int64_t opset = 0;
};

const schema::GraphProto& graph_of(const schema::NodeProto& node, const char* name) {
  const auto& all = node.attribute();
  const auto a = std::find_if(all.begin(), all.end(), [&](const auto& x) { return x.name() == name; });
  if (a == all.end()) throw UserError(fmt::format("{} has no {}", node.op_type(), name));
  return a->g();
}

Scope inner_scope(const schema::GraphProto& graph, Scope& scope) {
  Scope inner;
  inner.outer = &scope;
  inner.opset = scope.opset;
  inner.attributes = scope.attributes;
  for (const auto& t : graph.initializer()) inner.initializers[t.name()] = &t;
  return inner;
}

class Evaluator {
 public:
  Evaluator(const OnnxModel::File& file, const ResultObserver& observer) : file_(file), observer_(observer) {}

  Tensors64 run(const Tensors64& inputs);

 private:
  void run_nodes(const Nodes& nodes, Scope& scope, bool forgets);
  void run_node(const schema::NodeProto& node, Scope& scope);
  void run_branch(const schema::NodeProto& node, Scope& scope, bool condition);
  void run_loop(const schema::NodeProto& node, Scope& scope);
  bool run_function(const schema::NodeProto& node, Scope& scope);
  std::vector<OnnxValue> run_definition(const schema::NodeProto& node, Scope& scope);
  const OnnxValue& find(const std::string& name, Scope& scope);
  static OnnxAttributes attributes_of(const schema::NodeProto& node, const Scope& scope);
  void observe(OnnxValue& value) const;

  const OnnxModel::File& file_;
  const ResultObserver& observer_;
};

OnnxValue input_value(const schema::ValueInfoProto& input, const Tensor64& given) {
  OnnxValue v{.tensor = given, .declared = given.dtype};
  const int type = input.type().tensor_type().elem_type();
  if (type == 10) v.declared = DType::f16;  // TensorProto's float16 and bfloat16
  if (type == 16) v.declared = DType::bf16;
  if (v.declared == DType::f16 || v.declared == DType::bf16) v.tensor.dtype = DType::f32;
  v.tensor.bound.assign(v.tensor.value.size(), 0.0);
  return v;
}

Tensors64 Evaluator::run(const Tensors64& inputs) {
  const auto& graph = file_.model.graph();
  Scope scope;
  for (const auto& set : file_.model.opset_import())
    if (network::onnx_import::is_standard_domain(set.domain())) scope.opset = set.version();
  for (const auto& t : graph.initializer()) scope.initializers[t.name()] = &t;
  for (const auto& input : graph.input()) {
    const auto given = inputs.find(input.name());
    if (given != inputs.end()) {
      scope.values[input.name()] = input_value(input, given->second);
    } else if (!scope.initializers.contains(input.name())) {
      throw UserError(fmt::format("input '{}' is missing", input.name()));
    }
  }
  run_nodes(graph.node(), scope, true);
  Tensors64 outputs;
  for (const auto& output : graph.output()) {
    const OnnxValue& v = find(output.name(), scope);
    if (v.sequence) throw Unsupported(fmt::format("output '{}' is a sequence", output.name()));
    Tensor64 y = v.tensor;
    if (v.declared == DType::f16 || v.declared == DType::bf16) {  // computed in f32, rounded here
      const double u = unit_roundoff(v.declared), least = v.declared == DType::f16 ? 0x1p-24 : f32_underflow;
      for (std::size_t i = 0; i < y.value.size(); ++i) {
        y.value[i] = support::round_to(y.value[i], v.declared);
        y.bound[i] = std::isfinite(y.value[i]) ? u * std::abs(y.value[i]) + least : 0;
      }
      if (observer_) observer_(y);
    }
    y.dtype = v.declared;
    outputs[output.name()] = std::move(y);
  }
  return outputs;
}

const OnnxValue& Evaluator::find(const std::string& name, Scope& scope) {
  for (Scope* s = &scope; s != nullptr; s = s->outer) {
    if (const auto it = s->values.find(name); it != s->values.end()) return it->second;
    if (const auto it = s->initializers.find(name); it != s->initializers.end())
      return s->values.emplace(name, tensor_of(*it->second, file_.given_folder, file_.real_folder)).first->second;
  }
  throw UserError(fmt::format("'{}' is read, and nothing makes it", name));
}

// Tensors that no node reads any more are dropped
void Evaluator::run_nodes(const Nodes& nodes, Scope& scope, bool forgets) {
  std::map<std::string, int> reads;
  count_reads(nodes, reads);
  if (forgets)
    for (const auto& output : file_.model.graph().output()) ++reads[output.name()];
  for (const auto& node : nodes) {
    run_node(node, scope);
    for (const auto& name : node.input())
      if (forgets && --reads[name] == 0) scope.values.erase(name);
  }
}

void Evaluator::run_node(const schema::NodeProto& node, Scope& scope) {
  if (node.op_type() == "If" && network::onnx_import::is_standard_domain(node.domain()))
    return run_branch(node, scope, find(node.input(0), scope).tensor.value.at(0) != 0);
  if (node.op_type() == "Loop" && network::onnx_import::is_standard_domain(node.domain())) return run_loop(node, scope);
  if (run_function(node, scope)) return;
  std::vector<OnnxValue> results = run_definition(node, scope);
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty()) continue;
    OnnxValue& y = results[static_cast<std::size_t>(i)];
    observe(y);
    scope.values[node.output(i)] = std::move(y);
  }
}

void Evaluator::observe(OnnxValue& value) const {
  Tensor64& y = value.tensor;
  const double tiny = y.dtype == DType::f64 ? 0 : f32_underflow;  // what is below may be flushed to 0
  for (double& bound : y.bound)
    if (bound > 0) bound += tiny;
  if (observer_ && !value.sequence) observer_(y);
  y.margin = y.other = {};
}

std::vector<OnnxValue> Evaluator::run_definition(const schema::NodeProto& node, Scope& scope) {
  const OnnxDefinition* definition = find_definition(node.op_type());
  const bool known =
      network::onnx_import::is_standard_domain(node.domain()) || network::onnx_import::is_own_domain(node.domain());
  if (definition == nullptr || !known)
    throw Unsupported(fmt::format("operator '{}' has no definition in float64", node.op_type()));
  std::vector<const OnnxValue*> inputs;
  for (const auto& name : node.input()) {
    const OnnxValue* value = name.empty() ? nullptr : &find(name, scope);
    inputs.push_back(value == nullptr || value->absent ? nullptr : value);
  }
  Call call(node, scope.opset, std::move(inputs), attributes_of(node, scope));
  definition->define(call);
  return call.take_results();
}

// By the name that the node has for each: a reference stands for what the function's call gives, if that is anything
OnnxAttributes Evaluator::attributes_of(const schema::NodeProto& node, const Scope& scope) {
  OnnxAttributes attributes;
  for (const auto& a : node.attribute()) {
    if (a.ref_attr_name().empty()) {
      attributes[a.name()] = &a;
    } else if (const auto it = scope.attributes.find(a.ref_attr_name()); it != scope.attributes.end()) {
      attributes[a.name()] = it->second;
    }
  }
  return attributes;
}

void Evaluator::run_branch(const schema::NodeProto& node, Scope& scope, bool condition) {
  const auto& graph = graph_of(node, condition ? "then_branch" : "else_branch");
  Scope branch = inner_scope(graph, scope);
  run_nodes(graph.node(), branch, false);
  for (int i = 0; i < node.output_size(); ++i)
    if (!node.output(i).empty()) scope.values[node.output(i)] = find(graph.output(i).name(), branch);
}

// Tensors of one shape along a new first axis
OnnxValue stacked(const std::vector<OnnxValue>& all) {
  if (all.empty()) throw Unsupported("a loop without a step stacks nothing, so the result has no shape");
  Extents64 shape = all[0].tensor.shape;
  shape.insert(shape.begin(), std::ssize(all));
  OnnxValue y{.tensor = empty_tensor(shape), .declared = all[0].declared};
  y.tensor.dtype = all[0].tensor.dtype;
  auto to = y.tensor.value.begin();
  for (const OnnxValue& x : all) {
    if (x.sequence || x.tensor.shape != all[0].tensor.shape) throw UserError("a loop stacks tensors of several shapes");
    to = std::copy(x.tensor.value.begin(), x.tensor.value.end(), to);
  }
  return y;
}

// The body's inputs: the step, the condition, what steps hand on. Its outputs: the condition, what they hand on, and
// what is stacked. A condition that the node does not have is not asked.
void Evaluator::run_loop(const schema::NodeProto& node, Scope& scope) {
  const auto& body = graph_of(node, "body");
  const auto given = [&](int i) { return i < node.input_size() && !node.input(i).empty(); };
  const int carried = std::max(node.input_size() - 2, 0), stacks = node.output_size() - carried;
  if (body.input_size() != carried + 2 || stacks < 0 || body.output_size() != node.output_size() + 1)
    throw UserError("the body of a Loop does not fit its node");
  const bool counts = given(0), asks = given(1);
  if (!counts && !asks) throw UserError("a Loop has neither a number of steps nor a condition");
  const double steps = counts ? find(node.input(0), scope).tensor.value.at(0) : 0;
  Tensor64 truth = integers_tensor({}, {1});
  truth.dtype = DType::boolean;
  std::vector<OnnxValue> state{asks ? find(node.input(1), scope)
                                    : OnnxValue{.tensor = std::move(truth), .declared = DType::boolean}};
  for (int i = 0; i < carried; ++i) state.push_back(find(node.input(2 + i), scope));
  std::vector<std::vector<OnnxValue>> rows(static_cast<std::size_t>(stacks));
  for (std::int64_t step = 0; !counts || static_cast<double>(step) < steps; ++step) {
    if (asks && state[0].tensor.value.at(0) == 0) break;
    Scope inner = inner_scope(body, scope);
    inner.values[body.input(0).name()] = {.tensor = integers_tensor({}, {step}), .declared = DType::i64};
    for (int i = 0; i <= carried; ++i) inner.values[body.input(1 + i).name()] = state[static_cast<std::size_t>(i)];
    run_nodes(body.node(), inner, false);
    for (int i = 0; i <= carried; ++i) state[static_cast<std::size_t>(i)] = find(body.output(i).name(), inner);
    for (int i = 0; i < stacks; ++i)
      rows[static_cast<std::size_t>(i)].push_back(find(body.output(1 + carried + i).name(), inner));
  }
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty()) continue;
    const auto place = static_cast<std::size_t>(i < carried ? i + 1 : i - carried);
    scope.values[node.output(i)] = i < carried ? state[place] : stacked(rows[place]);
  }
}

// A function of the model, whose body is evaluated in the place of the call
bool Evaluator::run_function(const schema::NodeProto& node, Scope& scope) {
  if (network::onnx_import::is_standard_domain(node.domain())) return false;
  const auto& all = file_.model.functions();
  const auto f = std::find_if(all.begin(), all.end(), [&](const auto& x) {
    return x.domain() == node.domain() && x.name() == node.op_type() && x.overload() == node.overload();
  });
  if (f == all.end()) return false;
  Scope body;
  body.opset = scope.opset;
  for (const auto& set : f->opset_import())
    if (network::onnx_import::is_standard_domain(set.domain())) body.opset = set.version();
  for (int i = 0; i < f->input_size(); ++i) {
    const bool given = i < node.input_size() && !node.input(i).empty();
    body.values[f->input(i)] = given ? find(node.input(i), scope) : OnnxValue{.absent = true};
  }
  for (const auto& a : f->attribute_proto()) body.attributes[a.name()] = &a;
  for (const auto& [name, a] : attributes_of(node, scope)) body.attributes[name] = a;
  run_nodes(f->node(), body, false);
  for (int i = 0; i < node.output_size(); ++i)
    if (!node.output(i).empty()) scope.values[node.output(i)] = find(f->output(i), body);
  return true;
}

std::shared_ptr<OnnxModel::File> read(std::span<const std::byte> bytes, const std::string& name) {
  auto file = std::make_shared<OnnxModel::File>();
  constexpr int deepest_message = 100;
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(deepest_message);
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()) ||
      !file->model.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage())
    throw UserError(fmt::format("{}: damaged, or not an ONNX model", name));
  return file;
}

}  // namespace

OnnxModel OnnxModel::load(const std::string& path) {
  namespace fs = std::filesystem;
  const support::RegularFile file(path);
  std::vector<std::byte> bytes(file.size());
  if (file.read(0, bytes) != bytes.size()) throw UserError(path + ": cannot be read to its end");
  auto read_file = read(bytes, path);
  std::error_code error;
  const fs::path folder = fs::path(path).parent_path(), real = fs::canonical(path, error).parent_path();
  read_file->given_folder = folder.empty() ? "." : folder.string();
  read_file->real_folder = error ? read_file->given_folder : real.string();
  return OnnxModel(read_file);
}

OnnxModel OnnxModel::parse(std::span<const std::byte> bytes) { return OnnxModel(read(bytes, "model")); }

Tensors64 OnnxModel::evaluate(const Tensors64& inputs, const ResultObserver& observer) const {
  return Evaluator(*file_, observer).run(inputs);
}

}  // namespace unisono::float64
