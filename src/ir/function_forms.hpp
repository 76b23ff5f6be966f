#pragma once
/// Vector forms of user functions: overloads in their CUDA text that take 2, 4 or 8 neighbouring channels at once.
///
///     __device__ float gain(float x, int n, const float* table);      // one element: every function has it
///     __device__ float4 gain(float4 x, int n, const float* table);    // four; n is the first one's
///
/// Inputs of f32, and what is returned, are float2, float4 or unisono::float8 (kernels/unisono/epilogue/vectors.cuh);
/// integers are those of the first element; captured scalars and pointers are as in the scalar form.

#include <cstddef>
#include <string_view>

#include "unisono/graph.hpp"

namespace unisono::ir {

/// Widths that a set of forms has, as a sum: 2, 4 and 8; 0: the scalar form alone.
using VectorForms = int;
inline constexpr int widest_form = 8;

constexpr bool has_form(VectorForms forms, int width) { return (forms & width) != 0; }
/// The widest of at most `most` elements; 1 if there is none.
constexpr int widest_of(VectorForms forms, int most) {
  for (int width = widest_form; width > 1; width /= 2)
    if (width <= most && has_form(forms, width)) return width;
  return 1;
}

/// Throws UserError, with the place in cuda_source, for an overload that takes a vector and is no form of the function:
/// another number of parameters, vectors of different widths or of none that forms have, another result, or the same
/// width as another form. A function that has vector forms and no scalar one is refused as well.
VectorForms vector_forms(const UserFunction& function);

/// "float4"
std::string_view vector_type(int width);

/// The forms that a call may use: none unless its axes are [m,n], or where an integer varies from channel to channel
/// and is not index(n), since a form takes that of the first.
VectorForms call_forms(const Graph& graph, ValueId call);
/// Those of all calls of the graph together.
VectorForms all_call_forms(const Graph& graph);

/// Bytes that an address of such a type is a multiple of, 1 unless it points to vectors: 16 for "const float4*".
std::size_t alignment_of_pointer(std::string_view type);

}  // namespace unisono::ir
