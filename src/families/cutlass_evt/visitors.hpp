#pragma once
/// An epilogue graph as CUTLASS sees it: visitors that read fragments of one another. Knows no architecture.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/codegen.hpp"
#include "families/cutlass_evt/functors.hpp"

namespace unisono::families::cutlass_evt {

/// CUTLASS's visitors, without the names that each architecture gives them.
enum class VisitorKind : std::uint8_t {
  accumulator,       ///< AccFetch
  accumulator1,      ///< the second one's, of a dual product
  source,            ///< SrcFetch: the operand [m,n] that the collective loads as C
  scalar,            ///< ScalarBroadcast: [] or [b], one or the product of several
  row,               ///< RowBroadcast: [n] or [b,n]
  column,            ///< ColBroadcast: [m]
  aux_load,          ///< AuxLoad: [m,n]
  aux_store,         ///< AuxStore: [m,n]; passes its input on
  compute,           ///< Compute, of elements
  scalar_reduction,  ///< ScalarReduction: to [] or [b]; passes its input on, as the next two do
  row_reduction,     ///< RowReduction: over rows, to [n] or [b,n]
  column_reduction,  ///< ColReduction: over columns, to [m]
};

/// What a scalar's broadcast reads: a number that is known, a field of the parameter, or one over the number of values
/// that a mean is of.
struct Scalar {
  enum class Kind : std::uint8_t { constant, value, pointer, inverse_rows, inverse_columns, inverse_all } kind{};
  double constant = 0;
  std::size_t field = 0;   ///< value, pointer: index into Visitors::fields
  bool per_batch = false;  ///< pointer: one for each matrix of the batch. inverse_…: the count is of one matrix
};

/// Where a result's address is in the kernel's parameter.
enum class Place : std::uint8_t { field, main, side };

struct Visitor {
  VisitorKind kind{};
  std::string name;             ///< the graph's value's, for comments
  DType element = DType::f32;   ///< what it gives; loads, stores and reductions: in memory
  std::vector<int> inputs;      ///< visitors whose fragments it reads; each stands ahead of it
  std::vector<int> after = {};  ///< visitors that give it nothing, and have to be visited all the same
  bool per_batch = false;       ///< vectors, matrices and reductions: another address for each matrix of the batch
  std::optional<Functor> functor = {};  ///< compute
  std::vector<Scalar> scalars = {};     ///< scalar
  std::size_t field = 0;                ///< where its address is, index into Visitors::fields
  Place place = Place::field;           ///< aux_store: what else than a field its address is
  Op reduction = Op::sum;               ///< sum, reduce_max or reduce_min
};

struct Visitors {
  std::vector<Visitor> list;           ///< the last one gives D
  std::vector<codegen::Field> fields;  ///< what they read of the kernel's parameter, in order
  std::size_t store = 0;               ///< D's, index into Graph::stores
  Place store_place = Place::field;
  std::size_t store_field = 0;
  DType element_d = DType::f32;
  std::optional<std::size_t> source_field = {};  ///< C's address
  DType element_c = DType::f32;
  bool is_dual = false;    ///< two accumulators: `accumulator` is the first one's fetch
  bool is_atomic = false;  ///< sums in the order in which CTAs arrive: not the same bits each time
};

/// A grouped product's tables of what its kernel reads of each group: addresses, strides and sizes, then addresses of
/// operands [m], by their fields.
inline constexpr std::size_t first_vector_table = 9;
inline std::size_t tables_of(const Visitors& v) { return first_vector_table + v.fields.size(); }

/// The C++ type of an element in memory: "cutlass::bfloat16_t".
std::string element_name(DType t);

}  // namespace unisono::families::cutlass_evt
