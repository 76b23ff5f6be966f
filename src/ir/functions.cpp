#include "ir/functions.hpp"

#include <fmt/format.h>

#include <set>
#include <string>
#include <utility>

#include "ir/function_forms.hpp"
#include "ir/names.hpp"
#include "ir/store_forms.hpp"
#include "unisono/error.hpp"

namespace unisono::ir {

namespace {

constexpr int most_inputs = 16;  // captured scalars included: the reference has so many places
constexpr int most_results = 8;

std::string_view type_in_cuda(ParameterType t) {
  return t == ParameterType::int64 ? "long long" : t == ParameterType::int32 ? "int" : "float";
}

void check_captures(const UserFunction& f) {
  std::set<std::string_view> names;
  for (const std::string& name : f.scalars) {
    check_identifier(name, "captured scalar");
    if (!names.insert(name).second)
      throw UserError(fmt::format("function {} captures {} twice; capture it once", f.name, name));
  }
  for (const CapturedPointer& p : f.pointers) {
    check_identifier(p.name, "captured pointer");
    if (!names.insert(p.name).second)
      throw UserError(fmt::format("function {} captures {} twice; capture it once", f.name, p.name));
    if (p.type.find('*') == p.type.npos)
      throw UserError(
          fmt::format("function {} captures the pointer {} as '{}'; expected the type of a pointer in C++, "
                      "such as const float*",
                      f.name, p.name, p.type));
  }
}

void check_results(const UserFunction& f) {
  if (f.results < 1 || f.results > most_results)
    throw UserError(fmt::format("function {} was given {} results; expected 1 to {}", f.name, f.results, most_results));
  if (f.results == 1) return;
  if (!f.returns_value)
    throw UserError(fmt::format("function {} has {} results and returns nothing; one of the two", f.name, f.results));
  if (f.cpu)
    throw UserError(fmt::format("function {} has {} results and UserFunction::cpu, which has one; give cpu_results",
                                f.name, f.results));
}

}  // namespace

void check_function(const UserFunction& f) {
  check_identifier(f.name, "function");
  if (f.arity < 0 || f.input_count() > most_inputs)
    throw UserError(f.scalars.empty()
                        ? fmt::format("function {} was given arity {}; expected 0 to {}", f.name, f.arity, most_inputs)
                        : fmt::format("function {} was given arity {} and captures {} scalars; expected 0 to {} in all",
                                      f.name, f.arity, f.scalars.size(), most_inputs));
  if (std::ssize(f.parameters) > f.input_count())
    throw UserError(fmt::format("function {} was given the types of {} parameters; it has {}", f.name,
                                f.parameters.size(), f.input_count()));
  check_captures(f);
  check_results(f);
  if (!f.cpu && !f.cpu_results && f.cuda_source.empty())
    throw UserError(fmt::format("function {} has neither a CPU callable nor CUDA text", f.name));
  if (is_store_form(f.name))
    throw UserError(fmt::format("function {} has the name of a form of a store; choose another", f.name));
  vector_forms(f);
}

namespace {

/// A device function that returns result i of `f`, with vectors of so many elements, or 1: in its scalar form.
std::string result_text(const UserFunction& f, const std::string& name, int i, int width) {
  std::string parameters, arguments;
  const auto add = [&](std::string_view type, const std::string& parameter) {
    parameters += fmt::format("{}{} {}", parameters.empty() ? "" : ", ", type, parameter);
    arguments += fmt::format("{}{}", arguments.empty() ? "" : ", ", parameter);
  };
  const std::string type =
      width == 1 ? "float" : fmt::format("{}{}", width == 8 ? "unisono::" : "", vector_type(width));
  for (int j = 0; j < f.input_count(); ++j) {
    const ParameterType of = f.parameter(static_cast<std::size_t>(j));
    const bool vector = of == ParameterType::float32 && j < f.arity;
    add(vector ? std::string_view(type) : type_in_cuda(of), fmt::format("x{}", j));
  }
  for (std::size_t j = 0; j < f.pointers.size(); ++j) add(f.pointers[j].type, fmt::format("p{}", j));
  return fmt::format(
      "__device__ inline {} {}({}) {{\n    {} results[{}];\n    {}({}results);\n    return results[{}];\n}}", type,
      name, parameters, type, f.results, f.name, arguments.empty() ? "" : arguments + ", ", i);
}

}  // namespace

std::vector<UserFunction> result_functions(const UserFunction& f) {
  const VectorForms forms = vector_forms(f);
  std::vector<UserFunction> parts;
  for (int i = 0; i < f.results; ++i) {
    UserFunction part = f;
    part.name = fmt::format("{}_{}", f.name, i);
    part.results = 1;
    part.cpu_results = {};
    if (f.cpu_results)
      part.cpu = [all = f.cpu_results, i, count = static_cast<std::size_t>(f.results)](std::span<const double> x) {
        std::vector<double> results(count);
        all(x, results);
        return results[static_cast<std::size_t>(i)];
      };
    if (!f.cuda_source.empty()) {
      part.shared_source = f.shared_source + f.cuda_source;
      part.cuda_source = result_text(f, part.name, i, 1);
      for (int width = 2; width <= widest_form; width *= 2)
        if (has_form(forms, width)) part.cuda_source += "\n" + result_text(f, part.name, i, width);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace unisono::ir
