#include "runtime/common/names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "ir/suggest.hpp"
#include "unisono/error.hpp"

namespace unisono::runtime {

namespace {

// "; did you mean 'bias'?", or the names that there are
std::string known(const std::string& name, std::span<const std::string> names, const char* what) {
  if (names.empty()) return "";
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const auto near = ir::nearest(name, candidates);
  return fmt::format("; its {} are {}{}", what, fmt::join(names, ", "), ir::did_you_mean(near));
}

bool contains(std::span<const std::string> names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_operand(const std::string& name, std::span<const std::string> operands, const char* where) {
  if (!contains(operands, name))
    throw UserError(fmt::format("{} has {}, but the graph has no operand of that name{}", where, name,
                                known(name, operands, "operands")));
}

}  // namespace

void check_names(const Arguments& arguments, std::span<const std::string> operands, std::span<const Store> stores) {
  for (const auto& [name, view] : arguments.operands) check_operand(name, operands, "Arguments::operands");
  for (const auto& [name, value] : arguments.scalars) {
    check_operand(name, operands, "Arguments::scalars");
    if (arguments.operands.contains(name))
      throw UserError(fmt::format("operand {} is bound twice: as a tensor and as a number", name));
  }
  std::vector<std::string> names;
  for (const Store& s : stores) names.push_back(s.name);
  for (const auto& [name, view] : arguments.outputs)
    if (!contains(names, name))
      throw UserError(fmt::format("Arguments::outputs has {}, but the graph has no store of that name{}", name,
                                  known(name, names, "stores")));
}

void check_pointers(const Arguments& arguments, std::span<const std::string> pointers) {
  for (const auto& [name, address] : arguments.pointers)
    if (!contains(pointers, name))
      throw UserError(fmt::format("Arguments::pointers has {}, but no function of the graph captures it{}", name,
                                  known(name, pointers, "captured pointers")));
}

std::vector<std::string> pointer_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& x : graph.nodes)
    if (x.op == Op::call)
      for (const CapturedPointer& p : graph.functions.at(x.attr.name)->pointers)
        if (!contains(names, p.name)) names.push_back(p.name);
  return names;
}

void check_factors(const Arguments& arguments, bool is_product, bool is_dual) {
  const auto refuse = [is_product](const ConstTensorView& view, std::string_view name) {
    if (view.data == nullptr && view.shape.empty()) return;
    throw UserError(fmt::format("Arguments::{} was given to a {}, which multiplies Arguments::{}", name,
                                is_product ? "product" : "convolution",
                                is_product ? "left and right" : "image and filter"));
  };
  if (is_product)
    refuse(arguments.image, "image"), refuse(arguments.filter, "filter");
  else
    refuse(arguments.left, "left"), refuse(arguments.right, "right");
  if (!is_dual && (arguments.right1.data != nullptr || !arguments.right1.shape.empty()))
    throw UserError(
        fmt::format("Arguments::right1 was given to a {}; it is the second right operand, or filter, of a "
                    "dual one (products = 2)",
                    is_product ? "single product" : "convolution of one filter"));
}

std::string bound_near(const std::string& operand, const Arguments& arguments) {
  std::vector<std::string_view> bound;
  for (const auto& [name, view] : arguments.operands) bound.emplace_back(name);
  for (const auto& [name, value] : arguments.scalars) bound.emplace_back(name);
  return ir::did_you_mean(ir::nearest(operand, bound));
}

void check_storage(const CompileOptions& options, std::span<const std::string> operands) {
  for (const auto& [name, t] : options.storage) {
    check_operand(name, operands, "CompileOptions::storage");
    if (t == DType::f8e4m3 || t == DType::f8e5m2)
      throw UserError(
          fmt::format("CompileOptions::storage says {} for {}: the fp8 types are reserved", to_string(t), name));
  }
  for (const std::string& name : options.device_scalars)
    check_operand(name, operands, "CompileOptions::device_scalars");
}

std::vector<std::string> operand_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& x : graph.nodes)
    if (x.op == Op::operand && !contains(names, x.attr.name)) names.push_back(x.attr.name);
  return names;
}

}  // namespace unisono::runtime
