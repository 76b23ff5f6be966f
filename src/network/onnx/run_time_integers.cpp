/// Integers that were known by numbers and symbols, where a tensor is needed: symbols become numbers in the run.

#include <algorithm>
#include <cstring>
#include <span>

#include "network/onnx/importer.hpp"

namespace unisono::network::onnx_import {

namespace {
constexpr int deepest_arithmetic = 64;  // extent_at_run_time calls itself
}

// Integers as a tensor: a constant, or extents of tensors that have them, read at run time
NetworkValue Importer::materialised(const Integers& integers, const std::string& name, const std::string& reader) {
  const bool wide = integers.dtype == DType::i64;
  const auto constant = [&](std::span<const Dim> dims, const Shape& shape) {
    std::vector<std::byte> bytes(dims.size() * size_of(integers.dtype));
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const std::int64_t x = dims[i].value();
      const auto narrow = static_cast<std::int32_t>(x);
      if (wide) std::memcpy(bytes.data() + i * sizeof(x), &x, sizeof(x));
      if (!wide) std::memcpy(bytes.data() + i * sizeof(narrow), &narrow, sizeof(narrow));
    }
    return builder_.constant(name, shape, integers.dtype, std::move(bytes));
  };
  const auto& all = integers.elements;
  const Shape shape = integers.scalar ? Shape{} : Shape{all.size()};
  if (std::all_of(all.begin(), all.end(), [](const Dim& d) { return d.known(); })) return constant(all, shape);
  std::vector<NetworkValue> parts;
  for (const Dim& d : all) {
    if (d.known()) {
      parts.push_back(constant(std::span(&d, 1), {1}));
      continue;
    }
    NetworkValue part = extent_at_run_time(d, reader);
    if (!wide) part = builder_.apply(operators::Map{MapOp::cast, integers.dtype}, {part});
    parts.push_back(part);
  }
  NetworkValue v = parts.size() == 1 ? parts[0] : builder_.apply(operators::Concat{.axis = 0}, parts);
  if (integers.scalar) v = builder_.apply(operators::Reshape{}, {v});
  return v;
}

// An extent is read from a tensor that has it; what was computed from extents while importing is computed again
NetworkValue Importer::extent_at_run_time(const Dim& d, const std::string& reader) {
  if (const auto it = at_run_time_.find(d.symbol()); it != at_run_time_.end()) return it->second;
  const auto& tensors = builder_.so_far().tensors;
  for (TensorId id = 0; id < tensors.size(); ++id)
    for (std::size_t axis = 0; axis < tensors[id].shape.size(); ++axis)
      if (tensors[id].shape[axis] == d) {
        const int begin = static_cast<int>(axis);
        const NetworkValue extent = builder_.apply(operators::ShapeOf{begin, begin + 1}, {NetworkValue(builder_, id)});
        return at_run_time_.emplace(d.symbol(), extent).first->second;
      }
  const auto it = arithmetic_.find(d.symbol());
  if (it == arithmetic_.end())
    fail(fmt::format("node '{}' reads the extent {}, which is not known", reader, d.symbol()));
  const auto operand = [&](const Dim& x) {
    return x.known() ? materialised({.elements = {x}}, "number", reader) : extent_at_run_time(x, reader);
  };
  const Arithmetic a = it->second;
  const NetworkValue x = operand(a.x), y = operand(a.y);
  return at_run_time_.emplace(d.symbol(), builder_.apply(operators::Map{a.op}, {x, y})).first->second;
}

bool Importer::remember(const Dim& result, MapOp op, const Dim& x, const Dim& y) {
  const auto depth_of = [&](const Dim& d) {
    const auto it = d.known() ? arithmetic_.end() : arithmetic_.find(d.symbol());
    return it == arithmetic_.end() ? 0 : it->second.depth;
  };
  const int depth = std::max(depth_of(x), depth_of(y)) + 1;
  if (depth > deepest_arithmetic) return false;
  if (!result.known()) arithmetic_.try_emplace(result.symbol(), Arithmetic{op, x, y, depth});
  return true;
}

}  // namespace unisono::network::onnx_import
