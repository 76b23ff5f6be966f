#pragma once
/// The importer's state, and the tables of operators.

#include <fmt/format.h>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "network/onnx/islands.hpp"
#include "network/onnx/node.hpp"
#include "network/onnx/partial.hpp"
#include "unisono/onnx.hpp"

namespace unisono::network::onnx_import {

namespace schema = ::unisono::onnx;

/// Where the files of external data may lie; empty: nowhere.
struct ModelFolders {
  std::string given;  ///< the folder of the model's path
  std::string real;   ///< that of the file to which the path leads, if it is a symbolic link; else the same
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
std::span<const OperatorRow> map_rows();
std::span<const OperatorRow> activation_rows();
std::span<const OperatorRow> reduction_rows();
std::span<const OperatorRow> pool_rows();
std::span<const OperatorRow> movement_rows();
std::span<const OperatorRow> layer_norm_rows();
std::span<const OperatorRow> index_rows();
std::span<const OperatorRow> sequence_rows();
std::span<const OperatorRow> einsum_rows();
std::span<const OperatorRow> function_rows();
std::span<const OperatorRow> local_norm_rows();
std::span<const OperatorRow> crop_rows();
std::span<const OperatorRow> attention_rows();
std::span<const OperatorRow> affine_grid_rows();
std::span<const OperatorRow> tensor_sequence_rows();
std::span<const OperatorRow> recurrence_rows();

/// An operator of the domain `unisono`, of one result.
struct OwnOperator {
  OperatorRow row;
  int inputs;
  std::string_view attributes;  ///< their names, with spaces between
};

/// Null if there is none of that name.
const OwnOperator* find_own(std::string_view op_type);
/// Whether a node has what the operator needs, before its row is read. Throws UserError.
void check_own(NodeReader& node, const OwnOperator& own);

/// The row for an operator, or null.
const OperatorRow* find_row(std::string_view op_type);
/// All operators, for messages and docs: those with a row, and those that are imported by their bodies.
std::vector<std::string_view> supported_operators();
/// Why an operator is refused for what it is (Loop, QuantizeLinear, …); empty for others.
std::string_view refusal_of(std::string_view op_type);
/// Throws UserError unless all names of a file are text.
void check_names(const schema::ModelProto& model, const std::string& file);

/// The network without tensors that no operator uses: constants that were numbers only, or have been computed with.
Network without_unused(Network network);

/// Integer arithmetic on known elements (Add, Sub, Mul, Div); false if the inputs are not all integers, or need a run.
bool import_integer_arithmetic(const NodeReader& node);
/// Concat of known integers; false likewise.
bool import_integer_concat(const NodeReader& node);
/// Gather and Slice of known integers; false likewise.
bool import_integer_gather(const NodeReader& node);
bool import_integer_slice(const NodeReader& node);
/// Reshape of known integers to a vector or scalar; false likewise.
bool import_integer_reshape(const NodeReader& node);
/// Equal and Where (with a constant condition) of integers, if symbols take part; false if that is left to the run.
bool import_integer_equal(const NodeReader& node);
bool import_integer_where(const NodeReader& node);

/// Axes that are a list attribute in older opsets and an input since; each from 0 on, none twice.
std::optional<std::vector<int>> read_axes(const NodeReader& node, int input, std::size_t rank);

/// Whether reshape_to() takes an x of this shape to `shape`: at most one of its extents is neither a number nor one of
/// x, or there is a tensor that has it.
bool can_reshape(const NodeReader& node, const Shape& x, const Shape& shape);

/// Reshape of x to a shape of numbers and symbols; back to the shape that it was reshaped from it is that tensor again.
NetworkValue reshape_to(const NodeReader& node, NetworkValue x, const Shape& shape);
/// x with the shape of another tensor.
NetworkValue reshape_like(const NodeReader& node, NetworkValue x, NetworkValue like);
/// 0, 1, 2, … (i64) in a shape of this many elements: a constant, or as long as a tensor is that has the extent.
NetworkValue counted(const NodeReader& node, const Dim& extent, const Shape& shape);
/// The tensors of a sequence side by side along an axis, or along a new one. Known integers stay known.
Sequence::Element joined(const NodeReader& node, const Sequence& s, std::int64_t axis, bool stacked);
/// a (…,M,K) times b (…,K,N): a region of its own if b is one matrix, else batches.
NetworkValue matrix_product(const NodeReader& node, NetworkValue a, NetworkValue b);
/// The permutation of x.
NetworkValue transposed(const NodeReader& node, NetworkValue x, std::vector<int> order);

/// Memory that the constants of a network may take. What the file stores and what is computed from that while reading
/// are counted apart, as a file of a few bytes can ask for any amount of the second.
class ConstantBudget {
 public:
  explicit ConstantBudget(const OnnxLimits& limits);
  /// Throws UserError starting with `what` if there are too many.
  void take_stored(std::uint64_t elements, std::uint64_t bytes, const std::string& what);
  void take_computed(std::uint64_t elements, std::uint64_t bytes, const std::string& what);
  void check_computed(std::uint64_t bytes, const std::string& what) const;
  /// Most elements of a stored constant of this many bytes each.
  std::uint64_t most_elements(std::size_t element_bytes) const;

 private:
  void take_elements(std::uint64_t elements, const std::string& what);

  std::uint64_t element_limit_, stored_limit_, computed_limit_;
  std::uint64_t elements_ = 0, stored_ = 0, computed_ = 0;
};

class Importer {
 public:
  /// `folders`: where external data may lie; none: nowhere.
  Importer(const schema::ModelProto& model, const std::string& file, const ModelFolders& folders,
           const OnnxOptions& options);
  Network run();
  /// As run(), without the nodes that cannot be imported (partial.hpp). Nothing if no others are left.
  std::optional<PartialNetwork> run_partly(const std::map<std::string, std::vector<std::int64_t>>& shapes);

 private:
  friend class NodeReader;
  /// What names mean: in the graph, or in a function that is being inlined.
  struct Scope {
    std::map<std::string, Imported> values;
    std::map<std::string, const schema::TensorProto*> initializers;  // not yet read
    std::map<std::string, int> types;  // TensorProto's, where the network's own does not say (16-bit floats)
    std::set<std::string> absent;      // inputs of a function that its call leaves out
    std::map<std::string, std::string>
        unknown;                 // made by nodes that were left out, and of no known shape: its full name
    std::set<std::string> read;  // by a node, or as a function's output; only where nodes are left out
    const schema::FunctionProto* function = nullptr;
    std::map<std::string, const schema::AttributeProto*> attributes;  // that the function's call gives
    std::int64_t opset = 0;
    std::string prefix;                          // ahead of the names of nodes and tensors
    std::vector<std::string>* branch = nullptr;  // names that a branch of an If or a step of a Loop has defined
  };

  void check_opsets(const schema::ModelProto& model);
  void index_functions(const schema::ModelProto& model);
  void read_initializers(const schema::GraphProto& graph);
  void read_inputs();
  void read_nodes(const google::protobuf::RepeatedPtrField<schema::NodeProto>& nodes);
  void read_node(const schema::NodeProto& proto, int place);
  void read_or_leave(const schema::NodeProto& proto, int place);
  void note_reads(const google::protobuf::RepeatedPtrField<schema::NodeProto>& nodes);
  void leave_out(const NodeReader& node, const std::string& reason);
  /// Makes a result of a node that is left out an input of the network; false if that is not possible or not needed.
  bool becomes_input(const std::string& name);
  bool is_left_out(const std::string& output) const;
  void add_wanted_outputs();
  void read_row(const NodeReader& node, const OperatorRow& row);
  /// Why an operator is refused in the node or in a branch of it; empty: in none.
  std::string refusal_within(const schema::NodeProto& proto) const;
  /// Why no node of this operator is imported, whatever its inputs; empty: some are.
  std::string operator_refusal(const schema::NodeProto& proto) const;
  const schema::FunctionProto* function_of(const schema::NodeProto& node) const;
  /// The other operators of the model that are refused, to be said after the first; empty if there are none.
  std::string others_refused(const schema::NodeProto& first) const;
  /// What a name stands for, and TensorProto's type.
  struct Result {
    Imported value;
    int type = 0;
  };
  Result result_of(const std::string& name, const NodeReader& reader);
  void define_result(const NodeReader& node, int output, const Result& result);
  std::vector<Result> read_body(const NodeReader& node, const schema::GraphProto& body, const std::string& step,
                                const std::vector<Result>& inputs);
  void forget_initializers(const schema::GraphProto& body);
  void inline_branch(const NodeReader& node);
  void unroll_loop(const NodeReader& node);
  void count_node();
  std::vector<Sequence> unroll_steps(const NodeReader& node, const schema::GraphProto& body, std::vector<Result>& state,
                                     std::size_t stacked);
  Sequence::Element row_of(const NodeReader& node, const Result& result);
  void inline_function(const NodeReader& node, const schema::FunctionProto& function);
  Scope called_scope(const NodeReader& node, const schema::FunctionProto& function);
  void forget(const std::vector<std::string>& names);
  const schema::AttributeProto* resolved(const schema::AttributeProto& attribute, const NodeReader& node) const;
  void read_outputs();
  Network finished() const;
  void add_output(NetworkValue v, int type, const std::string& name);
  void define(const std::string& name, Imported value, int type = 0);
  void read_input(const schema::ValueInfoProto& input, const std::set<std::string>& symbols);
  bool is_default(const std::string& name) const;
  void bind_constant(const std::string& name, const Shape& shape, int type, const ConstTensorView& view);
  int type_of(const std::string& name) const;
  NetworkValue materialised(const Integers& integers, const std::string& name, const std::string& reader);
  NetworkValue extent_at_run_time(const Dim& d, const std::string& reader);
  bool remember(const Dim& result, MapOp op, const Dim& x, const Dim& y);
  const Imported& find(const std::string& name, const std::string& reader);
  NetworkValue import_tensor(const schema::TensorProto& tensor, const std::string& name);
  [[noreturn]] void fail(const std::string& message) const { throw UserError(file_ + ": " + message); }

  const schema::GraphProto& graph_;
  std::string file_;
  ModelFolders folders_;
  int node_limit_;
  ConstantBudget budget_;
  std::map<std::string, ConstTensorView> given_constants_;
  std::set<std::string> given_inputs_;
  std::set<std::string> made_of_parameters_;
  std::map<std::string, const schema::FunctionProto*> functions_;  // by domain, name and overload
  NetworkBuilder builder_;
  Scope scope_;
  int nodes_ = 0, depth_ = 0;  // read so far; functions and branches around this node
  struct Arithmetic {
    MapOp op;
    Dim x, y;
    int depth;
  };
  std::map<std::string, Arithmetic> arithmetic_;     // by the symbol that it made
  std::map<std::string, NetworkValue> at_run_time_;  // symbols as tensors of one i64
  std::map<TensorId, NetworkValue> reshaped_;
  std::map<TensorId, Integers> cast_;  // tensors whose elements follow from extents
  std::set<TensorId> tensor_names_;    // inputs, constants and what has the name of a node's output
  std::set<const schema::TensorProto*> tensors_read_;
  std::set<TensorId> stored_;  // constants of the file that nothing has been computed from
  Islands islands_;
  // Whether a node that cannot be imported is left out: in the graph and its functions, not within branches and loops
  bool leaves_out_ = false;
  struct Wanted {
    Imported value;
    int type;
    std::string name;
  };
  /// What run_partly() keeps.
  struct Partial {
    std::map<std::string, std::vector<std::int64_t>> shapes;
    std::map<std::string, const schema::ValueInfoProto*> declared;  // tensors of the graph
    std::set<std::string> symbols, inputs;                          // inputs: results that became some
    std::vector<LeftOut> left_out;
    std::vector<Wanted> wanted;  // what the nodes read that were left out
  };
  std::optional<Partial> partial_;
};

// tensor_data.cpp

/// A tensor's elements as they lie in memory of its dtype, row-major; float16 and bfloat16 as f32. Throws UserError
/// starting with `what` for a type that networks do not have, a count that does not fit the shape, or external data
/// that are not there.
struct TensorData {
  DType dtype = DType::f32;
  std::vector<std::byte> elements;
};
TensorData tensor_data(const schema::TensorProto& tensor, const ModelFolders& folders, const std::string& what);
/// Number of elements. Throws UserError for a negative extent, or a count above `limit`.
std::uint64_t checked_count(const schema::TensorProto& tensor, std::uint64_t limit, const std::string& what);
std::string data_type_name(int data_type);
/// The dtype of a TensorProto's data type; of float16 and bfloat16 those types. Nothing for what networks do not have.
std::optional<DType> dtype_of(int data_type);
int data_type_of(DType dtype);
bool is_short_float(int data_type);  ///< float16, bfloat16
/// Bytes of the file of external data that a tensor names. docs/networks.md says which files may be named.
std::vector<std::byte> external_data(const schema::TensorProto& tensor, const ModelFolders& folders, std::size_t bytes,
                                     const std::string& what);

}  // namespace unisono::network::onnx_import
