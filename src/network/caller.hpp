#pragma once
/// The caller's tensors: their names, shapes and dtypes checked, and their orders of memory.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/suggest.hpp"
#include "network/storage.hpp"
#include "runtime/common/views.hpp"
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

/// `v` with its strides, after checking it: one of these dtypes, this shape (in the caller's order), some memory. What
/// is read may lie backwards.
template <class View>
View checked_view(View v, const Sizes& expected, std::string_view what, const NetworkTensor& tensor,
                  const std::vector<DType>& dtypes) {
  const auto allowed = what == "input" ? runtime::Strides::either : runtime::Strides::forward;
  v.strides = runtime::checked_strides(v, expected, dtypes, fmt::format("{} '{}'", what, tensor.name), allowed);
  return v;
}

/// The same of all outputs, of these shapes, which share no memory with one another.
template <class TypesOf>
std::vector<TensorView> checked_outputs(const Network& n, const std::map<std::string, TensorView>& given,
                                        const std::vector<Sizes>& expected, TypesOf dtypes) {
  std::vector<TensorView> views;
  std::vector<runtime::Written> written;
  for (std::size_t i = 0; i < n.outputs.size(); ++i) {
    const NetworkTensor& t = n[n.outputs[i]];
    views.push_back(checked_view(given.at(t.name), expected[i], "output", t, dtypes(n.outputs[i])));
    written.push_back({views.back(), views.back().strides, fmt::format("output '{}'", t.name)});
  }
  runtime::check_apart(written);
  return views;
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
          fmt::format("the network has no {1} '{0}'; it has {2}{3}", name, what, fmt::join(names, ", "),
                      ir::did_you_mean(ir::nearest(name, std::vector<std::string_view>(names.begin(), names.end())))));
  for (const std::string& name : names)
    if (!given.contains(name))
      throw UserError(fmt::format("{} '{}' is missing; the network has {}", what, name, fmt::join(names, ", ")));
}

}  // namespace unisono::network
