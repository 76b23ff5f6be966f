#pragma once
/// What ONNX's operators take: schemas.txt, which scripts/make_onnx_schemas.py writes.
///
/// The file has a line `opset N`, the newest one, and a line for each version of an operator:
///
///   Name since input… > output… / attribute… / constraint…
///
/// A parameter is `name:type`, with `?` after the name if it is optional, with `*N` if it is repeated at least N times
/// with elements of one type, with `~N` if these may differ. Its type is the name of a constraint, or `#` and a set.
/// A constraint is `name=set`, where bit i of the hexadecimal set stands for TensorProto's data type i (bit 0 for what
/// is no dense tensor). An attribute is `name:kind` with kinds i, f, s, t, g and these with `*` for lists; `!` if it
/// must be given.

#include <cstdint>
#include <string_view>
#include <vector>

namespace unisono::network::onnx_import {

struct ParameterSchema {
  enum class Count { one, optional, repeated };
  std::string_view name;
  Count count = Count::one;
  int least = 0;            ///< how often a repeated one must be given
  bool one_type = true;     ///< whether all of a repeated one have the same element type
  std::string_view type;    ///< name of a constraint; empty if it has a set of its own
  std::uint64_t types = 0;  ///< one bit for each data type
};

struct AttributeSchema {
  std::string_view name;
  int type = 0;  ///< AttributeProto's
  bool required = false;
};

struct OperatorSchema {
  std::string_view name;
  int since = 0;
  std::vector<ParameterSchema> inputs, outputs;
  std::vector<AttributeSchema> attributes;
};

/// The operator as the opset has it, or null.
const OperatorSchema* find_schema(std::string_view op_type, std::int64_t opset);

/// The newest opset that the table knows.
int newest_opset();

/// The word for AttributeProto's type, as ONNX writes it ("INTS").
std::string_view attribute_type_name(int type);

}  // namespace unisono::network::onnx_import
