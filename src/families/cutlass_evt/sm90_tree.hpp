#pragma once
/// A tree of visitors as the text of CUTLASS's for sm_90a: its type, and the nested initialisers of its Arguments.

#include <string>

#include "families/cutlass_evt/topology.hpp"

namespace unisono::families::cutlass_evt {

/// "fusion::Sm90EVT<…>", in lines that begin with `indent`, the first one without.
std::string sm90_type(const Visitors& visitors, const Tree& tree, const std::string& indent);

/// "{ {…}, {…} }", over `p`, the kernel's parameter, m, n and the functions of the text around it.
std::string sm90_arguments(const Visitors& visitors, const Tree& tree, const std::string& indent);

/// Where a result [m,n] lies: its address, and the initialisers of its strides.
std::string result_address(Place place, const std::string& element, std::size_t field);
std::string result_stride(Place place);

/// What a visitor is and reads, for people: "RowBroadcast bias".
std::string label_of(const Visitor& visitor);

/// The definitions of functors that are ours, each once.
std::string functor_definitions(const Visitors& visitors);

}  // namespace unisono::families::cutlass_evt
