#pragma once
/// Pieces of text that the visitor is made of.

#include <string>
#include <string_view>

#include "coda/dtype.hpp"

namespace coda::codegen {

/// The tag of an element type in memory: "Bf16", "F16", "float", "int", "bool".
std::string_view element_name(DType t);

/// A static device function inside the visitor.
std::string function(const std::string& head, const std::string& body);

/// A struct inside the visitor, of members with a line each.
std::string structure(const std::string& name, const std::string& members);

}  // namespace coda::codegen
