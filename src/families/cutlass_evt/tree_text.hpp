#pragma once
/// A tree of visitors as text: its type, and its arguments, nested as the type is. What each visitor is called, and how
/// it is initialised, differs between versions of CUTLASS: a Dialect says it.

#include <string>
#include <string_view>

#include "families/cutlass_evt/topology.hpp"
#include "families/cutlass_evt/visitors.hpp"

namespace unisono::families::cutlass_evt {

class Dialect {
 public:
  virtual ~Dialect() = default;
  /// What stands ahead of EVT and TopologicalVisitor: "fusion::Sm90".
  virtual std::string_view scope() const = 0;
  /// The type of a visitor by itself.
  virtual std::string type_of(const Visitor& visitor) const = 0;
  /// The initialisers of its Arguments.
  virtual std::string initialisers(const Visitor& visitor) const = 0;
};

/// The type of a tree, as lines after the first indented by more than `indent`.
std::string tree_type(const Dialect& dialect, const Visitors& visitors, const Tree& tree, const std::string& indent);

/// Initialisers of the type's Arguments, in which `p` is the kernel's parameter, and m and n are extents.
std::string tree_arguments(const Dialect& dialect, const Visitors& visitors, const Tree& tree,
                           const std::string& indent);

/// The text of functors that are ours, each once.
std::string functor_definitions(const Visitors& visitors);

/// What a visitor is, for comments: "RowBroadcast bias".
std::string label_of(const Visitor& visitor);

/// A result's address, and its stride from row to row and matrix to matrix.
std::string result_address(Place place, const std::string& element, std::size_t field);
std::string result_stride(Place place);

/// The stride of a vector's visitor: over rows, columns and matrices.
std::string vector_stride(const Visitor& visitor);

/// One factor of a ScalarBroadcast: its value where it has no pointer, and its pointer.
std::string scalar_value(const Scalar& scalar);
std::string scalar_pointer(const Scalar& scalar);

/// A number in an initialiser, which the host evaluates.
std::string number_of(double value);
/// What a reduction begins with.
std::string identity_of(Op reduction);

}  // namespace unisono::families::cutlass_evt
