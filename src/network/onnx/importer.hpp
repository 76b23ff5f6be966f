#pragma once
/// The importer's state and what the operators' functions see of a node.

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "coda/error.hpp"
#include "coda/network.hpp"
#include "coda/onnx.hpp"
#include "onnx.pb.h"

namespace coda::network::onnx_import {

namespace schema = ::coda::onnx;

/// A tensor of int64 known while importing, such as the shape of another: a scalar or a vector of numbers and symbols.
struct Integers {
  std::vector<Dim> elements;
  bool scalar = false;
};

/// What a name of the file stands for.
using Imported = std::variant<NetworkValue, Integers>;

class Importer;

/// One node: its inputs, attributes and results. Errors name operator, node and opset.
class NodeReader {
 public:
  NodeReader(Importer& importer, const schema::NodeProto& node);

  const std::string& op_type() const { return node_.op_type(); }
  std::int64_t opset() const;
  const std::string& name() const { return name_; }
  NetworkBuilder& builder() const;

  int inputs() const { return node_.input_size(); }
  /// True if input i is given: trailing inputs may be absent, others empty.
  bool has(int i) const { return i < node_.input_size() && !node_.input(i).empty(); }
  bool is_integers(int i) const;
  /// A float tensor. Integers that are numbers are turned into a constant.
  NetworkValue value(int i) const;
  /// Integers known now.
  Integers integers(int i) const;
  /// Integers that must be numbers.
  std::vector<std::int64_t> numbers(int i) const;
  /// Elements of a float constant; nothing if the input is no constant.
  const std::vector<float>* constant(int i) const;
  const std::vector<float>& needed_constant(int i, std::string_view what) const;

  double real(std::string_view name, double otherwise) const;
  std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  std::optional<std::vector<std::int64_t>> list(std::string_view name) const;
  const schema::AttributeProto* attribute(std::string_view name) const;

  /// An axis of a tensor of this rank, counted from the end if negative.
  int axis(std::int64_t axis, std::size_t rank) const;

  /// Sets the first output.
  void result(Imported value) const;
  NetworkValue apply(OperatorKind kind, const std::vector<NetworkValue>& inputs) const;
  /// A new constant of the network.
  NetworkValue make_constant(std::string_view suffix, Shape shape, std::vector<float> elements) const;

  /// Remembers that `shaped` is `source` with another shape, and finds it again.
  void remember_reshape(NetworkValue shaped, NetworkValue source) const;
  std::optional<NetworkValue> reshaped_from(NetworkValue shaped) const;

  template <class... T>
  [[noreturn]] void fail(fmt::format_string<T...> format, T&&... args) const {
    fail_with(fmt::format(format, std::forward<T>(args)...));
  }
  [[noreturn]] void fail_with(const std::string& message) const;

 private:
  Importer& importer_;
  const schema::NodeProto& node_;
  std::string name_;
};

/// How to import an operator.
struct OperatorRow {
  std::string_view op_type;
  int since;  ///< first opset with this meaning
  void (*import)(const NodeReader& node);
};

// One table a family, one file each
std::span<const OperatorRow> contraction_rows();
std::span<const OperatorRow> elementwise_rows();
std::span<const OperatorRow> normalisation_rows();
std::span<const OperatorRow> image_rows();
std::span<const OperatorRow> shape_rows();
std::span<const OperatorRow> integer_rows();

/// The row for an operator, or null.
const OperatorRow* find_row(std::string_view op_type);
/// All operators, for messages and docs.
std::vector<std::string_view> supported_operators();

/// Integer arithmetic on known elements (Add, Sub, Mul, Div); false if the inputs are not all integers.
bool import_integer_arithmetic(const NodeReader& node);

class Importer {
 public:
  Importer(const schema::ModelProto& model, const std::string& file, const OnnxLimits& limits);
  Network run();

 private:
  friend class NodeReader;
  void check_names() const;
  void check_opsets(const schema::ModelProto& model);
  void read_initializers();
  void read_inputs();
  void read_nodes();
  void read_outputs();
  void define(const std::string& name, Imported value);
  const Imported& find(const std::string& name, const std::string& reader);
  Imported import_tensor(const schema::TensorProto& tensor, const std::string& name);
  [[noreturn]] void fail(const std::string& message) const { throw UserError(file_ + ": " + message); }

  const schema::GraphProto& graph_;
  std::string file_;
  OnnxLimits limits_;
  std::int64_t opset_ = 0;
  std::uint64_t elements_ = 0;
  NetworkBuilder builder_;
  std::map<std::string, Imported> values_;
  std::map<std::string, const schema::TensorProto*> initializers_;  // not yet read
  std::map<TensorId, std::shared_ptr<const std::vector<float>>> constants_;
  std::map<TensorId, NetworkValue> reshaped_;
  std::set<TensorId> tensor_names_;  // inputs, constants and what has the name of a node's output
};

// tensor_data.cpp

/// Elements in row-major order. Throws UserError starting with `what` for a dtype that is no float (or no integer), a
/// count that does not fit the shape, or external data.
std::vector<float> float_elements(const schema::TensorProto& tensor, const std::string& what);
std::vector<std::int64_t> integer_elements(const schema::TensorProto& tensor, const std::string& what);
bool is_float_tensor(const schema::TensorProto& tensor);
bool is_integer_tensor(const schema::TensorProto& tensor);
/// Number of elements. Throws UserError for a negative extent, or a count above `limit`.
std::uint64_t checked_count(const schema::TensorProto& tensor, std::uint64_t limit, const std::string& what);
std::string data_type_name(int data_type);

}  // namespace coda::network::onnx_import
