#pragma once
/// What ONNX's operators are made of that it defines as functions of others: function_bodies.txt, which
/// scripts/make_onnx_schemas.py writes.
///
/// A function has a line, and a line after it for each of its nodes, which begins with a space:
///
///   Name since opset input… > output… / attribute…
///    Operator input… > output… / attribute…
///
/// `since` is the opset that defined the operator, `opset` that of the nodes. An input `-` is left out. An attribute is
/// `name:kind=value` with the kinds of operator_schema.hpp, or `name:kind@attribute` for what the call gives; lists
/// have commas. A tensor is `type[extents]elements` with TensorProto's type. A function's attribute has its default
/// value, or only a name. Functions with branches or loops are not in the table.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "onnx.pb.h"

namespace unisono::network::onnx_import {

struct OperatorSchema;

/// The body of an operator that this schema describes, for a model of this opset: the newest that is no newer than the
/// model, else the oldest. Null if ONNX does not define it by one.
const ::unisono::onnx::FunctionProto* find_body(const OperatorSchema& schema, std::int64_t opset);

/// The names of all operators that have one.
std::vector<std::string_view> operators_with_bodies();

}  // namespace unisono::network::onnx_import
