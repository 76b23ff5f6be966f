#include "node_run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>

#include "reference/network/answer.hpp"
#include "runtime/cpu/ops/tensor.hpp"
#include "support/float_convert.hpp"
#include "unisono/error.hpp"
#include "unisono/network.hpp"
#include "unisono/onnx.hpp"

namespace unisono::test {

namespace {

using Tensors = std::map<std::string, CaseTensor>;

Tensors read_tensors(const NodeCase& c, const std::vector<std::string>& names, const std::filesystem::path& folder,
                     const char* prefix) {
  Tensors result;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto file = folder / fmt::format("{}_{}.pb", prefix, i);
    if (std::filesystem::exists(file)) result[names[i]] = read_tensor(file, c.types.at(names[i]));
  }
  return result;
}

std::string with_symbols(const NodeCase& c) {
  onnx::ModelProto model = c.model;
  for (auto& input : *model.mutable_graph()->mutable_input()) {
    if (c.parameters.contains(input.name())) continue;
    auto& shape = *input.mutable_type()->mutable_tensor_type()->mutable_shape();
    for (int i = 0; i < shape.dim_size(); ++i)
      if (shape.dim(i).dim_value() > 0) shape.mutable_dim(i)->set_dim_param(fmt::format("{}_{}", input.name(), i));
  }
  return model.SerializeAsString();
}

// Element as a number; of 64-bit integers what a float64 holds of it, so these are compared by their bytes first
double number(const CaseTensor& t, std::size_t i) {
  if (is_float(t.dtype)) return support::load(t.bytes.data(), static_cast<std::int64_t>(i), t.dtype);
  return cpu::with_type(t.dtype, [&]<class T>() {
    T x;
    std::memcpy(&x, t.bytes.data() + i * sizeof(T), sizeof(T));
    return static_cast<double>(x);
  });
}

// The tolerance of ONNX's own runner, and half a unit of the 16-bit types in addition; integers are equal
std::string difference(const CaseTensor& expected, const CaseTensor& actual) {
  if (expected.shape != actual.shape)
    return fmt::format("shape ({}), expected ({})", fmt::join(actual.shape, ","), fmt::join(expected.shape, ","));
  if (expected.dtype != actual.dtype)
    return fmt::format("dtype {}, expected {}", to_string(actual.dtype), to_string(expected.dtype));
  if (!is_float(expected.dtype)) return expected.bytes == actual.bytes ? "" : "integers differ";
  const double relative = 1e-3 + (size_of(expected.dtype) == 2 ? unit_roundoff(expected.dtype) : 0);
  for (std::size_t i = 0; i < expected.bytes.size() / size_of(expected.dtype); ++i) {
    const double x = number(expected, i), y = number(actual, i);
    const bool same = x == y || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= 1e-7 + relative * std::abs(x);
    if (!same) return fmt::format("element {} is {}, expected {}", i, y, x);
  }
  return "";
}

float64::Tensors64 in_float64(const Tensors& tensors) {
  float64::Tensors64 all;
  for (const auto& [name, t] : tensors) {
    auto values = float64::as_float64({t.bytes.data(), t.dtype, t.shape, {}}, name);
    std::vector<double> bounds(values.size(), 0.0);
    all[name] = {t.shape, std::move(values), std::move(bounds), t.dtype};
  }
  return all;
}

// How the results of a GPU, with 16 bits between kernels, differ from the reference
Outcome judged(const NetworkExecutable& run, const NetworkOptions& options, const Tensors& inputs,
               const Tensors& actual) {
  const float64::NetworkAnswer answer(run.network(), in_float64(inputs), {}, float64::rounding_of(run, options), 4);
  Outcome outcome;
  for (const auto& a : answer.compare(in_float64(actual))) {
    if (!a.ok())
      return {Outcome::Kind::failed,
              fmt::format("output '{}': {} of {} elements are off by up to {:.3g} (tolerance {:.3g})", a.output,
                          a.outside, a.elements, a.largest_error, a.tolerance)};
    outcome.compared = outcome.compared && a.compared();
  }
  return outcome;
}

Outcome run_data(const NodeCase& c, bool symbols, const std::filesystem::path& folder, const NetworkOptions& wanted) {
  const Tensors inputs = read_tensors(c, c.inputs, folder, "input"),
                expected = read_tensors(c, c.outputs, folder, "output");
  OnnxOptions options;
  Tensors given;
  std::map<std::string, ConstTensorView> bound;
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const auto& [name, t] : inputs) {
    const ConstTensorView view{t.bytes.data(), t.dtype, t.shape, {}};
    if (c.parameters.contains(name)) {
      options.constants[name] = view;
    } else {
      bound[name] = view;
      given[name] = t;
      shapes[name] = t.shape;
    }
  }
  const std::string model = symbols ? with_symbols(c) : c.model.SerializeAsString();
  const NetworkExecutable run = compile(parse_onnx(std::as_bytes(std::span(model)), c.name, options), wanted);
  Tensors actual;
  std::map<std::string, TensorView> out;
  for (const auto& [name, shape] : run.output_shapes(shapes)) {
    CaseTensor& t = actual[name];
    t.shape = shape;
    for (const TensorId id : run.network().outputs)
      if (run.network()[id].name == name) t.dtype = run.network()[id].dtype;
    t.bytes.assign(static_cast<std::size_t>(element_count(shape)) * size_of(t.dtype), std::byte{0x5a});
    out[name] = {t.bytes.data(), t.dtype, shape, {}};
  }
  run.run(bound, out);
  if (wanted.device == Device::cuda) {
    Outcome outcome = judged(run, wanted, given, actual);
    outcome.on_host = !run.host_steps(shapes).empty();
    return outcome;
  }
  for (const auto& [name, t] : expected) {
    if (!actual.contains(name)) return {Outcome::Kind::failed, fmt::format("no output '{}'", name)};
    if (const std::string text = difference(t, actual.at(name)); !text.empty())
      return {Outcome::Kind::failed, fmt::format("output '{}': {}", name, text)};
  }
  if (expected.size() != c.outputs.size()) return {Outcome::Kind::failed, "expected outputs are missing"};
  return {};
}

}  // namespace

Outcome run_case(const NodeCase& c, bool symbols, const NetworkOptions& options) {
  if (c.data.empty()) return {Outcome::Kind::failed, "has no data"};
  try {
    Outcome all;
    for (const auto& folder : c.data) {
      const Outcome o = run_data(c, symbols, folder, options);
      if (o.kind != Outcome::Kind::passed) return o;
      all.on_host = all.on_host || o.on_host;
      all.compared = all.compared && o.compared;
    }
    return all;
  } catch (const UserError& error) {
    return {Outcome::Kind::refused, error.what()};
  } catch (const Unsupported& error) {
    return {Outcome::Kind::refused, error.what()};
  } catch (const std::exception& error) {
    return {Outcome::Kind::failed, error.what()};
  }
}

}  // namespace unisono::test
