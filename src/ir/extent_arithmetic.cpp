#include "ir/extent_arithmetic.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "unisono/error.hpp"

namespace unisono::ir {

namespace {

double extent_of(Coordinate c, const Extents& e) {
  switch (c) {
    case Coordinate::m:
      return static_cast<double>(e.images) * static_cast<double>(e.height) * static_cast<double>(e.width);
    case Coordinate::n: return static_cast<double>(e.cols);
    case Coordinate::b: return static_cast<double>(e.images);
    case Coordinate::h: return static_cast<double>(e.height);
    case Coordinate::w: return static_cast<double>(e.width);
  }
  throw InternalError("a coordinate without an extent");
}

// What an i32 operation gives before it wraps; nothing if it is none, or an input is unknown
std::optional<double> computed(const Node& node, const std::vector<double>& in) {
  switch (node.op) {
    case Op::add: return in[0] + in[1];
    case Op::sub: return in[0] - in[1];
    case Op::mul: return in[0] * in[1];
    case Op::fma: return in[0] * in[1] + in[2];
    case Op::square: return in[0] * in[0];
    case Op::neg: return -in[0];
    case Op::abs: return std::abs(in[0]);
    case Op::min: return std::min(in[0], in[1]);
    case Op::max: return std::max(in[0], in[1]);
    default: return {};  // the result of any other is no larger than its inputs, or no integer
  }
}

}  // namespace

void check_extent_arithmetic(const Graph& graph, const Extents& extents) {
  std::vector<std::optional<double>> known(graph.nodes.size());
  for (ValueId id = 0; id < graph.nodes.size(); ++id) {
    const Node& x = graph[id];
    std::vector<double> in;
    for (const ValueId i : x.inputs)
      if (known[i]) in.push_back(*known[i]);
    if (x.op == Op::constant) known[id] = x.attr.value;
    if (x.op == Op::extent) known[id] = extent_of(x.attr.coordinate, extents);
    if (x.dtype != DType::i32 || x.inputs.empty() || in.size() != x.inputs.size()) {
      if (x.op != Op::extent) continue;
    } else {
      known[id] = computed(x, in);
    }
    if (!known[id] || (*known[id] >= -0x1p31 && *known[id] < 0x1p31)) continue;
    throw UserError(fmt::format(
        "{} is {:.0f}, which i32 cannot hold: extents are i32, and their arithmetic wraps beyond 32 bits. Cast one of "
        "them first, such as cast(extent(m), f32), or divide by one after the other",
        x.op == Op::extent ? std::string("an extent") : fmt::format("{}({:.0f})", to_string(x.op), fmt::join(in, ", ")),
        *known[id]));
  }
}

}  // namespace unisono::ir
