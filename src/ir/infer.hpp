#pragma once
/// Types of nodes: the dtype and axes of a result from those of the inputs.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "unisono/graph.hpp"

namespace unisono::ir {

/// Common dtype of two values in arithmetic: equal dtypes stay; f64 wins; bool and i32 give way to floats; two
/// different short floats meet in f32.
DType promote(DType x, DType y);

/// False for the fp8 types, which are reserved: nothing computes in them or stores them yet.
bool is_supported(DType t);

struct Inferred {
  DType dtype;
  Axes axes;
};

/// A type, or why there is none: "clamp takes 1 input and was given 2".
using InferredOrReason = std::variant<Inferred, std::string>;

/// Infers a non-leaf node's type, after checking arity, attributes and the dtypes of the inputs. A constant takes the
/// dtype of what it meets. `requested` is the dtype of a cast.
InferredOrReason try_infer(Op op, std::span<const Node* const> inputs, const Attributes& attr,
                           std::optional<DType> requested);
/// The same for whoever has no answer but the type: throws UserError if there is none.
Inferred infer(Op op, std::span<const Node* const> inputs, const Attributes& attr, std::optional<DType> requested);

/// "mish takes 1 input and was given 2".
std::string wrong_arity(std::string_view name, int takes, std::size_t given);

}  // namespace unisono::ir
