#include "command/kernel_problem.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "command/convolution.hpp"
#include "command/inputs.hpp"
#include "command/machine.hpp"
#include "command/quantities.hpp"
#include "command/subject.hpp"
#include "explore/roofline.hpp"
#include "ir/check_graph.hpp"
#include "media/convert.hpp"
#include "reference/reference.hpp"
#include "unisono/error.hpp"

namespace unisono::command {
namespace {

DType operand_dtype(const Graph& graph, ValueId id) {
  const Node& x = graph[id];
  if (x.attr.storage) return *x.attr.storage;
  for (const Node& user : graph.nodes)
    if (user.op == Op::one_hot && user.inputs[0] == id) return DType::i32;
  return DType::f32;
}

/// A batch of one product is a product: (1,M,N) in memory, (M,N) in files.
std::vector<std::int64_t> shape_in_files(const Contraction& contraction, std::vector<std::int64_t> shape) {
  const auto* gemm = std::get_if<Gemm>(&contraction);
  if (gemm != nullptr && gemm->batch == 1 && shape.size() == 3) shape.erase(shape.begin());
  return shape;
}

std::vector<KernelInput> inputs_of(const Contraction& contraction, const Graph& graph) {
  const bool is_product = has_left_and_right(contraction);
  const auto [a, b] = explore::factor_dtypes(contraction);
  // accumulators of about 1, whatever the depth
  const double small = std::sqrt(3 / static_cast<double>(depth(contraction)));
  std::vector<KernelInput> inputs;
  const auto add = [&](const std::string& name, DType dtype, const std::vector<std::int64_t>& shape, double reach,
                       bool optional, bool has_batch = true) {
    inputs.push_back({name, dtype, has_batch ? shape_in_files(contraction, shape) : shape, shape, reach, optional});
  };
  add(is_product ? "left" : "image", a, shape_a(contraction), 1, false);
  add(is_product ? "right" : "filter", b, shape_b(contraction), small, false);
  if (product_count(contraction) == 2) add("right1", b, shape_b(contraction), small, false);
  for (ValueId id = 0; id < graph.nodes.size(); ++id)
    if (const Node& x = graph[id]; x.op == Op::operand)
      add(x.attr.name, operand_dtype(graph, id), reference::shape_of(x, contraction), 1,
          x.attr.default_value.has_value(), x.attr.rows == RowCoordinates::all);
  const auto factors = inputs.begin() + factor_count(contraction);
  for (auto i = factors; i != inputs.end(); ++i)
    if (std::any_of(inputs.begin(), factors, [&](const KernelInput& factor) { return factor.name == i->name; }))
      throw UserError(fmt::format("operand {} has the name of what the contraction reads; rename it", i->name));
  return inputs;
}

std::string list_of(const std::vector<KernelInput>& inputs) {
  std::string text;
  for (const KernelInput& i : inputs)
    text += fmt::format("\n  {}: {} ({}){}", i.name, media::numpy_name(i.dtype), fmt::join(i.shape, ","),
                        i.optional ? ", has a default" : "");
  return text;
}

const KernelInput& input_of(const KernelProblem& p, const std::string& name, const std::string& source) {
  const auto input =
      std::find_if(p.inputs.begin(), p.inputs.end(), [&](const KernelInput& i) { return i.name == name; });
  if (input == p.inputs.end())
    throw UserError(fmt::format("'{}' is given by '{}', and the kernel reads no '{}'; it reads:{}", name, source, name,
                                list_of(p.inputs)));
  return *input;
}

void accept(KernelProblem& p, const std::string& name, media::Array array, const std::string& source) {
  const KernelInput& input = input_of(p, name, source);
  if (array.shape != input.shape && array.shape != input.in_memory)
    throw UserError(fmt::format("input '{}' is given as ({}) by '{}'; expected ({})", name, fmt::join(array.shape, ","),
                                source, fmt::join(input.shape, ",")));
  array.shape = input.shape;
  media::Converted converted = media::convert(std::move(array), input.dtype, source);
  if (!converted.note.empty()) p.notes.push_back(fmt::format("input '{}' ('{}'): {}", name, source, converted.note));
  if (!p.arrays.emplace(name, std::move(converted.array)).second)
    throw UserError(fmt::format("input '{}' is given twice, the second time by '{}'", name, source));
}

/// Names that the members of an archive have.
std::string names_of(const media::NamedArrays& arrays) {
  std::string names;
  for (const auto& [name, array] : arrays) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "none" : names;
}

void read_input(KernelProblem& p, const InputFile& file) {
  bool archive = false;
  const std::string path = file.path.string();
  if (const auto number = number_of(file))
    return accept(p, file.name, scalar_array(*number, input_of(p, file.name, path).dtype, file.name), path);
  media::NamedArrays arrays = read_arrays(file.path, archive);
  if (!archive && file.name.empty())
    throw UserError(
        fmt::format("--input {}: say what it is: --input NAME={}; the kernel reads:{}", path, path, list_of(p.inputs)));
  if (file.name.empty()) {
    for (auto& [member, array] : arrays) accept(p, member, std::move(array), path);
    return;
  }
  const auto found = std::find_if(arrays.begin(), arrays.end(), [&](const auto& member) {
    return !archive || arrays.size() == 1 || member.first == file.name;
  });
  if (found == arrays.end())
    throw UserError(fmt::format("--input {}={}: the file has no member '{}'; it has: {}", file.name, path, file.name,
                                names_of(arrays)));
  accept(p, file.name, std::move(found->second), path);
}

void refuse_missing(const KernelProblem& p) {
  std::vector<KernelInput> missing;
  for (const KernelInput& i : p.inputs)
    if (!i.optional && !p.arrays.contains(i.name)) missing.push_back(i);
  if (!missing.empty())
    throw UserError(fmt::format(
        "not given, by --input NAME=FILE.npy, a member of a .npz file or, of a scalar, --input NAME=NUMBER:{}",
        list_of(missing)));
}

void make_random(KernelProblem& p, std::uint64_t seed) {
  for (const KernelInput& i : p.inputs) {
    if (i.optional) continue;
    const std::uint64_t own_seed = seed++;
    if (p.arrays.contains(i.name)) continue;
    if (is_float(i.dtype)) {
      Tensor32 tensor = random_tensor(i.shape, own_seed);
      for (float& x : tensor.value) x = static_cast<float>(i.reach) * (2 * x - 1);
      p.arrays[i.name] = media::convert(to_array(tensor), i.dtype, "random numbers").array;
    } else {
      p.arrays[i.name] = random_array(i.shape, i.dtype, own_seed);
      p.notes.push_back(fmt::format("input '{}' takes {}: random zeros and ones", i.name, media::numpy_name(i.dtype)));
    }
  }
}

double bytes_in(const std::vector<std::int64_t>& shape, double each) {
  for (const std::int64_t extent : shape) each *= static_cast<double>(extent);
  return each;
}

/// All arrays must fit in memory, with --check also the reference's accumulators and one value for each of them.
void check_memory(const KernelProblem& p, bool check) {
  double bytes = 0;
  for (const KernelInput& i : p.inputs) bytes += bytes_in(i.shape, static_cast<double>(size_of(i.dtype)));
  for (const Store& s : p.graph.stores)
    bytes += bytes_in(reference::shape_of(p.graph, s, p.contraction), static_cast<double>(size_of(s.dtype)));
  if (check) bytes += bytes_in(shape_mn(p.contraction), 32);
  const MemoryInfo memory = memory_info();
  const std::uint64_t most = std::min(memory.bytes, memory.limit.value_or(memory.bytes));
  if (bytes > static_cast<double>(most))
    throw UserError(
        fmt::format("{}: its arrays{} take at least {:.3g} GiB, and this machine has {}; give a smaller shape",
                    to_string(p.contraction), check ? " and the float64 reference" : "", bytes / (1024. * 1024 * 1024),
                    size_text(most)));
}

}  // namespace

std::ptrdiff_t factor_count(const Contraction& contraction) { return 1 + product_count(contraction); }

unisono::Arguments KernelProblem::arguments() {
  unisono::Arguments arguments;
  for (const KernelInput& i : inputs) {
    const auto found = arrays.find(i.name);
    if (found == arrays.end()) continue;
    const media::Array& array = found->second;
    const ConstTensorView view{array.bytes.data(), array.type, i.in_memory, {}};
    if (i.name == inputs[0].name)
      arguments.a(contraction) = view;
    else if (i.name == inputs[1].name)
      arguments.b(contraction) = view;
    else if (factor_count(contraction) == 3 && i.name == inputs[2].name)
      arguments.right1 = view;
    else
      arguments.operands[i.name] = view;
  }
  for (const Store& s : graph.stores)
    arguments.outputs[s.name] = {
        outputs.at(s.name).bytes.data(), s.dtype, reference::shape_of(graph, s, contraction), {}};
  return arguments;
}

KernelProblem read_kernel_problem(const RunOptions& options) {
  KernelProblem p;
  p.contraction = parse_contraction(options.conv, options.gemm, "an epilogue's text is run over");
  const auto [text, source] = find_text(options.model.string());
  p.graph = parse_text(text, source, options.functions);
  p.contraction = with_products(p.contraction, p.graph);
  ir::check_graph(p.graph, p.contraction);
  p.inputs = inputs_of(p.contraction, p.graph);
  check_memory(p, options.check);
  for (const InputFile& input : options.inputs) read_input(p, input);
  if (options.random)
    make_random(p, options.seed);
  else
    refuse_missing(p);
  for (const Store& s : p.graph.stores) {
    media::Array& array = p.outputs[s.name];
    array = {s.dtype, shape_in_files(p.contraction, reference::shape_of(p.graph, s, p.contraction)), {}};
    array.bytes.resize(static_cast<std::size_t>(element_count(array.shape)) * size_of(array.type));
    poison(array);
  }
  return p;
}

}  // namespace unisono::command
