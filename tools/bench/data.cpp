#include "bench/data.hpp"

#include <fmt/format.h>

#include <cmath>

#include "gpu/kernels.hpp"
#include "reference/reference.hpp"
#include "unisono/error.hpp"
#include "unisono/tensor.hpp"

namespace unisono::bench {

namespace {

// Normal, as PyTorch's operands are: what bits change decides what power a matrix product takes
void fill(const gpu::Buffer& to, DType dtype, std::int64_t count, double mean, double deviation, std::uint64_t seed) {
  const auto scale = static_cast<float>(deviation), offset = static_cast<float>(mean);
  const auto n = static_cast<unsigned long long>(count), s = static_cast<unsigned long long>(seed);
  if (dtype == DType::f32)
    gpu::launch("unisono_normal32", gpu::striding, nullptr, to.address(), n, scale, offset, s);
  else
    gpu::launch("unisono_normal16", gpu::striding, nullptr, to.address(), n, scale, offset, s,
                static_cast<int>(dtype == DType::f16));
}

}  // namespace

gpu::Buffer& Data::add(const std::string& name, DType dtype, std::int64_t count, double mean, double deviation,
                       std::uint64_t seed) {
  if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16)
    throw UserError(
        fmt::format("operand {} has dtype {}; the benchmark fills f32, bf16 and f16 only", name, to_string(dtype)));
  auto& buffer = buffers_[name];
  buffer = std::make_unique<gpu::Buffer>(static_cast<std::size_t>(count) * size_of(dtype));
  fill(*buffer, dtype, count, mean, deviation, seed);
  return *buffer;
}

Data::Data(const Contraction& contraction, DType dtype, const Graph& graph, std::uint64_t seed) {
  const auto shape_x = shape_a(contraction), shape_w = shape_b(contraction);
  const double unit = 1 / std::sqrt(static_cast<double>(depth(contraction)));
  arguments_.a(contraction) = {add("a", dtype, element_count(shape_x), 0, 1, seed).data(), dtype, shape_x, {}};
  arguments_.b(contraction) = {add("b", dtype, element_count(shape_w), 0, unit, seed + 1).data(), dtype, shape_w, {}};
  if (product_count(contraction) == 2)
    arguments_.right1 = {add("b1", dtype, element_count(shape_w), 0, unit, seed + 500).data(), dtype, shape_w, {}};
  std::uint64_t next = seed + 2;
  for (const OperandTensor& x : operand_tensors(graph, contraction)) {
    const bool scale = x.name == "gamma" || x.name == "alpha", filter = x.axes == axes::scalar;
    const double deviation = scale ? 0.35 : filter ? 1 / std::sqrt(static_cast<double>(x.shape.back())) : 1;
    const gpu::Buffer& buffer = add(x.name, x.dtype, element_count(x.shape), scale ? 1 : 0, deviation, next++);
    arguments_.operands[x.name] = {buffer.data(), x.dtype, x.shape, {}};
  }
  for (const Store& s : graph.stores) {
    const auto shape = reference::shape_of(graph, s, contraction);
    auto& buffer = outputs_[s.name];
    buffer = std::make_unique<gpu::Buffer>(static_cast<std::size_t>(element_count(shape)) * size_of(s.dtype));
    arguments_.outputs[s.name] = {buffer->data(), s.dtype, shape, {}};
  }
  arguments_.scalars = scalars_of(graph);
  gpu::wait(nullptr, "filling the operands");
}

void Data::poison() const {
  for (const auto& [name, buffer] : outputs_) buffer->poison();
}

Arguments Data::on_host(std::map<std::string, std::vector<std::byte>>& memory) const {
  Arguments host;
  host.scalars = arguments_.scalars;
  for (const auto& [name, view] : arguments_.operands) {
    memory[name] = buffers_.at(name)->contents();
    host.operands[name] = {memory[name].data(), view.dtype, view.shape, {}};
  }
  return host;
}

std::vector<std::unique_ptr<Data>> make_sets(const Case& c, const Contraction& contraction, const Graph& graph,
                                             std::uint64_t seed) {
  std::vector<std::unique_ptr<Data>> sets;
  for (int i = 0; i < rotating_sets(c.bytes()); ++i)
    sets.push_back(
        std::make_unique<Data>(contraction, c.conv.dtype_x, graph, seed + 1000 * static_cast<std::uint64_t>(i)));
  return sets;
}

std::map<std::string, double> scalars_of(const Graph& graph) {
  std::map<std::string, double> values;
  for (const Node& x : graph.nodes)
    if (x.op == Op::operand && x.axes == axes::scalar && !x.attr.default_value) values[x.attr.name] = 0.5;
  return values;
}

}  // namespace unisono::bench
