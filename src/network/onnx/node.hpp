#pragma once
/// What the operators' functions see of a node.

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "onnx.pb.h"
#include "unisono/error.hpp"
#include "unisono/network.hpp"

namespace unisono::network::onnx_import {

namespace schema = ::unisono::onnx;

/// A tensor of integers known while importing, such as the shape of another: a scalar or a vector of numbers and
/// symbols.
struct Integers {
  std::vector<Dim> elements;
  bool scalar = false;
  DType dtype = DType::i64;  ///< or i32
};

/// A sequence whose length is known while importing. Its tensors need not have one shape.
struct Sequence {
  struct Element {
    std::variant<NetworkValue, Integers> value;
    int type = 0;  ///< TensorProto's
  };
  std::vector<Element> elements;
};

/// What a name of the file stands for.
using Imported = std::variant<NetworkValue, Integers, Sequence>;

class Importer;

/// A node that cannot be imported.
struct NodeError : UserError {
  /// `node`: its name, with those of the calls around it. `reason`: the message without file and node.
  NodeError(std::string op, std::string node, std::string why, const std::string& message)
      : UserError(message), op_type(std::move(op)), name(std::move(node)), reason(std::move(why)) {}
  std::string op_type, name, reason;
};

/// One node: its inputs, attributes and results. Errors name operator, node and opset.
class NodeReader {
 public:
  /// `place`: the node's in its graph or function, from 1 on, which names it if nothing else does.
  NodeReader(Importer& importer, const schema::NodeProto& node, int place);

  const schema::NodeProto& proto() const { return node_; }
  /// TensorProto's data types of the outputs, as the operator's schema says; 0 where it does not.
  void expect(std::vector<int> types) { output_types_ = std::move(types); }

  const std::string& op_type() const { return node_.op_type(); }
  std::int64_t opset() const;
  const std::string& name() const { return name_; }
  NetworkBuilder& builder() const;

  int inputs() const { return node_.input_size(); }
  /// True if input i is given: trailing inputs may be absent, others empty.
  bool has(int i) const;
  bool is_integers(int i) const;
  /// Null if the input is no sequence.
  const Sequence* sequence(int i) const;
  /// An element of a sequence as a tensor.
  NetworkValue value(const Sequence::Element& element) const;
  /// A tensor of any type; float16 and bfloat16 are f32 here. Integers become a constant, or read extents at run time.
  NetworkValue value(int i) const;
  /// The first `count` of them.
  std::vector<NetworkValue> values(int count) const;
  /// TensorProto's data type of an input.
  int type(int i) const;
  /// The same for a schema's check: 0 if the input is absent, or named by nothing. Reads no constant.
  int known_type(int i) const;
  /// Whether the input is known now.
  bool known_constant(int i) const { return value(i).tensor().is_constant(); }
  /// Whether the input is a tensor without elements (exporters write that for one that is left out).
  bool is_empty(int i) const;
  /// Integers known now.
  Integers integers(int i) const;
  /// Integers that must be numbers.
  std::vector<std::int64_t> numbers(int i) const;
  /// Elements of an f32 constant; nothing if the input is no constant.
  const std::vector<float>* constant(int i) const;
  const std::vector<float>& needed_constant(int i, std::string_view what) const;
  /// A constant of one number of any type.
  double needed_scalar(int i, std::string_view what) const;

  double real(std::string_view name, double otherwise) const;
  std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
  /// An integer that is one of TensorProto's data types.
  int type_attribute(std::string_view name, int otherwise) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  std::optional<std::vector<std::int64_t>> list(std::string_view name) const;
  /// Null if it is not given. In a function's body, what the call gave where the body refers to that.
  const schema::AttributeProto* attribute(std::string_view name) const;

  /// An axis of a tensor of this rank, counted from the end if negative.
  int axis(std::int64_t axis, std::size_t rank) const;

  int outputs() const { return node_.output_size(); }
  /// True if output i is wanted.
  bool wants(int i) const { return i < node_.output_size() && !node_.output(i).empty(); }
  /// Sets an output. Where inputs are float16 or bfloat16, a result of f32 stands for that type too.
  void result(Imported value, int output = 0) const;
  /// Sets the first output, which stands for TensorProto's `type`.
  void result_of_type(Imported value, int type) const;
  /// The operator's result. What constants alone make becomes a constant.
  NetworkValue apply(OperatorKind kind, const std::vector<NetworkValue>& inputs) const;
  NetworkValue map(MapOp op, const std::vector<NetworkValue>& inputs) const {
    return apply(operators::Map{op}, inputs);
  }
  NetworkValue elementwise(Op op, const std::vector<NetworkValue>& inputs) const {
    return apply(operators::Elementwise{.op = op}, inputs);
  }
  NetworkValue cast(NetworkValue x, DType to) const;
  /// A constant of rank 0 (or of this shape), the number as x's type.
  NetworkValue number_like(NetworkValue x, double number) const;
  /// A new constant of the network.
  NetworkValue make_constant(std::string_view suffix, Shape shape, std::vector<float> elements) const;

  NetworkValue make_constant(std::string_view suffix, Shape shape, DType dtype, std::vector<std::byte> elements) const;
  /// The tensor of an attribute as a constant of the network.
  NetworkValue stored_constant(const schema::TensorProto& tensor) const;
  /// Fails unless a constant of so many bytes may be made: asked before its memory is taken.
  void ask_memory(std::uint64_t bytes) const;

  /// Remembers that `shaped` is `source` with another shape, and finds it again.
  void remember_reshape(NetworkValue shaped, NetworkValue source) const;
  std::optional<NetworkValue> reshaped_from(NetworkValue shaped) const;
  /// Remembers how a symbol was computed from other integers, for a run that needs it as a tensor; false if the chain
  /// gets too long for that.
  bool remember_arithmetic(const Dim& result, MapOp op, const Dim& x, const Dim& y) const;

  /// Remembers that the elements of `cast` are these integers, cast to another type, and finds them again.
  void remember_cast(NetworkValue cast, const Integers& integers) const;
  std::optional<Integers> cast_from(int i) const;

  /// If a symbol was computed as a sum, what was added to `part`.
  std::optional<Dim> other_summand(const Dim& sum, const Dim& part) const;
  /// How a symbol was computed; nothing of one that was not.
  struct Computed {
    MapOp op;
    Dim x, y;
  };
  std::optional<Computed> arithmetic_of(const Dim& symbol) const;

  template <class... T>
  [[noreturn]] void fail(fmt::format_string<T...> format, T&&... args) const {
    fail_with(fmt::format(format, std::forward<T>(args)...));
  }
  [[noreturn]] void fail_with(const std::string& message) const;

 private:
  void name_and_define(Imported value, int output, int type) const;
  std::string description() const;  // file, operator, node and opset

  Importer& importer_;
  const schema::NodeProto& node_;
  std::string name_;
  std::vector<int> output_types_;
};

}  // namespace unisono::network::onnx_import
