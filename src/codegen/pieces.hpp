#pragma once
/// Pieces of text that the visitor is made of.

#include <string>
#include <string_view>
#include <vector>

#include "unisono/dtype.hpp"
#include "unisono/graph.hpp"
#include "unisono/params/element_codes.cuh"

namespace unisono::codegen {

/// The tag of an element type in memory: "Bf16", "F16", "float", "int", "bool". Throws InternalError for a type that no
/// visitor reads or writes.
std::string_view element_name(DType t);

/// By which kernels know a type that they are told at run time; none: they do not take it.
ElementCode element_code(DType t);

/// "i == 0 ? a : i == 1 ? b : c", or `none` of nothing.
std::string chosen(const std::vector<std::string>& of, std::string_view none);

/// How a reduction joins two values: "Fold::kSum".
std::string_view fold_name(Op op);

/// What a reduction joins, of one element x.
std::string term(Op op, const std::string& x);

/// The lines of a function that its template argument `variable` chooses at `i`.
std::string branch(std::string_view variable, std::size_t i, const std::string& lines);

/// A static device function inside the visitor.
std::string function(const std::string& head, const std::string& body);

/// Lines of a member of such a struct.
std::string indented(const std::string& lines);

/// A struct inside the visitor, of members with a line each.
std::string structure(const std::string& name, const std::string& members);

}  // namespace unisono::codegen
