#pragma once
/// The caller's tensors: their names, shapes and dtypes checked, and their orders of memory.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "ir/suggest.hpp"
#include "network/storage.hpp"
#include "unisono/error.hpp"
#include "unisono/network.hpp"

namespace unisono::network {

using NamedSizes = std::map<std::string, Sizes>;

// (N,C,H,W) of sizes or strides in the caller's layout, and back
template <class T>
T to_logical(const T& x, Layout layout) {
  return x.size() == 4 && layout == Layout::nhwc ? T{x[0], x[3], x[1], x[2]} : x;
}
template <class T>
T from_logical(const T& x, Layout layout) {
  return x.size() == 4 && layout == Layout::nhwc ? T{x[0], x[2], x[3], x[1]} : x;
}

inline std::string dtype_list(const std::vector<DType>& dtypes) {
  std::string text;
  for (const DType t : dtypes) text += fmt::format("{}{}", text.empty() ? "" : " or ", to_string(t));
  return text;
}

/// `v` with its strides, after checking it: one of these dtypes, this shape (in the caller's order), some memory.
template <class View>
View checked_view(View v, const Sizes& expected, std::string_view what, const NetworkTensor& tensor,
                  const std::vector<DType>& dtypes) {
  const std::string& name = tensor.name;
  if (std::find(dtypes.begin(), dtypes.end(), v.dtype) == dtypes.end())
    throw UserError(
        fmt::format("{} '{}' was given dtype {}; expected {}", what, name, to_string(v.dtype), dtype_list(dtypes)));
  if (v.shape != expected)
    throw UserError(fmt::format("{} '{}' was given shape ({}); expected ({})", what, name, fmt::join(v.shape, ","),
                                fmt::join(expected, ",")));
  if (v.data == nullptr && element_count(v.shape) != 0)
    throw UserError(fmt::format("{} '{}' was given a null pointer", what, name));
  if (v.strides.empty()) v.strides = row_major_strides(v.shape);
  if (v.strides.size() != v.shape.size())
    throw UserError(fmt::format("{} '{}' was given {} strides for shape ({})", what, name, v.strides.size(),
                                fmt::join(v.shape, ",")));
  return v;
}

/// Throws UserError unless `given` has just the names of these tensors.
template <class Map>
void check_names(const Network& n, const std::vector<TensorId>& ids, const Map& given, std::string_view what) {
  std::vector<std::string> names;
  names.reserve(ids.size());
  for (const TensorId id : ids) names.push_back(n[id].name);
  for (const auto& [name, value] : given)
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw UserError(
          fmt::format("'{}' is no {} of the network; it has {}{}", name, what, fmt::join(names, ", "),
                      ir::did_you_mean(ir::nearest(name, std::vector<std::string_view>(names.begin(), names.end())))));
  for (const std::string& name : names)
    if (!given.contains(name))
      throw UserError(fmt::format("{} '{}' is missing; the network has {}", what, name, fmt::join(names, ", ")));
}

}  // namespace unisono::network
