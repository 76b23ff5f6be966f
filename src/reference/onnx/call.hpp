#pragma once
/// A node of an ONNX model while it is evaluated: what its definition reads and makes.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onnx.pb.h"
#include "reference/network/decision.hpp"
#include "reference/network/index.hpp"
#include "unisono/network.hpp"

namespace unisono::float64 {

namespace schema = ::unisono::onnx;

/// What a name of the model stands for: a tensor, or a sequence of them. float16 and bfloat16 are computed in float32,
/// so a tensor of them is one of f32 here, and `declared` is its type in the model.
struct OnnxValue {
  Tensor64 tensor = {};
  DType declared = DType::f32;
  std::shared_ptr<const std::vector<Tensor64>> sequence = nullptr;
  bool absent = false;  ///< an input of a function that its call leaves out
};

/// Attributes by the name that the node has for them.
using OnnxAttributes = std::map<std::string, const schema::AttributeProto*, std::less<>>;

class Call {
 public:
  Call(const schema::NodeProto& node, std::int64_t opset, std::vector<const OnnxValue*> inputs,
       OnnxAttributes attributes);

  std::int64_t opset() const { return opset_; }
  std::size_t inputs() const { return inputs_.size(); }
  std::size_t outputs() const { return results_.size(); }
  bool has(std::size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr; }
  bool wants(std::size_t i) const { return i < results_.size() && !node_.output(static_cast<int>(i)).empty(); }
  /// Input i; throws UserError if it is missing.
  const Tensor64& in(std::size_t i) const { return value(i).tensor; }
  const OnnxValue& value(std::size_t i) const;
  /// All of them, which must be given.
  ReferenceInputs all() const;
  /// Input i as integers.
  std::vector<std::int64_t> numbers(std::size_t i) const;

  bool given(std::string_view name) const { return attribute(name) != nullptr; }
  double real(std::string_view name, double otherwise) const;
  std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  std::optional<std::vector<std::int64_t>> list(std::string_view name) const;
  /// A list that is an attribute in older opsets and an input since.
  std::optional<std::vector<std::int64_t>> list(std::string_view name, std::size_t input) const;
  const schema::AttributeProto* attribute(std::string_view name) const;
  /// TensorProto's type that an integer attribute names; throws Unsupported for one that networks do not have.
  DType type(std::string_view name, DType otherwise) const;
  /// An axis from 0 on.
  std::size_t axis(std::int64_t axis, std::size_t rank) const;

  /// Sets output i. Where an input of floats is declared as float16 or bfloat16, so is a result of f32.
  void result(Tensor64 tensor, std::size_t i = 0);
  /// Sets output 0, which is declared as `type`.
  void result_as(Tensor64 tensor, DType type);
  void result_sequence(std::vector<Tensor64> tensors, std::size_t like);
  std::vector<OnnxValue> take_results() { return std::move(results_); }

  /// Throws UserError that names the node.
  [[noreturn]] void fail(const std::string& message) const;

 private:
  const schema::NodeProto& node_;
  std::int64_t opset_;
  std::vector<const OnnxValue*> inputs_;
  OnnxAttributes attributes_;
  std::vector<OnnxValue> results_;
};

/// A tensor of the file; float16 and bfloat16 as f32.
OnnxValue tensor_of(const schema::TensorProto& tensor, const std::string& given_folder, const std::string& real_folder);

/// One operator's definition.
struct OnnxDefinition {
  std::string_view op_type;
  void (*define)(Call& call);
};

/// The operator's definition, or null.
const OnnxDefinition* find_definition(std::string_view op_type);

/// Unit roundoff of an implementation: float16 and bfloat16 are computed in f32. 0 for integers and bool.
double roundoff(DType t);

/// A number, and how far an implementation may be off.
struct Number64 {
  double value, bound = 0;
  Decision decision = {};
};

/// The shape to which tensors broadcast; throws UserError if they do not.
Extents64 common_shape(const ReferenceInputs& in);

/// Elements f(x, …) of tensors that broadcast. The type is that of the result.
template <class F>
Tensor64 each(const ReferenceInputs& in, DType type, const F& f) {
  const Extents64 shape = common_shape(in);
  std::vector<std::vector<double>> x;
  for (const Tensor64* t : in) x.push_back(expanded(*t, shape));
  Tensor64 y = empty_tensor(shape);
  y.dtype = type;
  std::vector<double> elements(in.size());
  for (std::size_t i = 0; i < y.value.size(); ++i) {
    for (std::size_t k = 0; k < x.size(); ++k) elements[k] = x[k][i];
    const Number64 n = f(elements.data());
    y.value[i] = n.value;
    y.bound[i] = std::isfinite(n.value) ? n.bound : 0;
    decide(y, i, n.decision);
  }
  return y;
}

/// A tensor of integers without error.
Tensor64 integers_tensor(Extents64 shape, const std::vector<std::int64_t>& elements);
/// The same elements in another shape, without error.
Tensor64 in_shape(const Tensor64& x, Extents64 shape);
/// Output axis i is axis order[i].
Tensor64 permuted_axes(const Tensor64& x, const std::vector<std::size_t>& order);
/// Elements of x by place: of each element of the result the index in x.
template <class F>
Tensor64 picked(const Tensor64& x, Extents64 shape, const F& index_of) {
  Tensor64 y = empty_tensor(std::move(shape));
  y.dtype = x.dtype;
  std::size_t to = 0;
  for_indices(y.shape, [&](const Extents64& at) { y.value[to++] = x.value[place(x.shape, index_of(at))]; });
  return y;
}
/// The operator of networks on these tensors, as reference/network computes it; bounds included.
Tensor64 evaluated(const OperatorKind& kind, const ReferenceInputs& in, DType type);

inline std::int64_t product(const Extents64& e, std::size_t begin, std::size_t end) {
  std::int64_t n = 1;
  for (std::size_t i = begin; i < end; ++i) n *= e[i];
  return n;
}

}  // namespace unisono::float64
