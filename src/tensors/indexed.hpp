#pragma once
/// Elements and slices that indices name. An index outside its axis is recorded as a fault (fault.hpp); what it names
/// is read as zero, and an update for it is left out.

#include "plan/expected.hpp"
#include "tensors/launch.hpp"
#include "tensors/strided.hpp"
#include "unisono/network/index_operators.hpp"

namespace unisono::tensors {

/// See operators::Gather, GatherElements and GatherND. Tensors are 0: x, 1: indices, 2: to, which has x's type in
/// memory.
plan::Expected<Launches> gather(int axis, const StridedTensor& x, const StridedTensor& indices,
                                const StridedTensor& to);
plan::Expected<Launches> gather_elements(int axis, const StridedTensor& x, const StridedTensor& indices,
                                         const StridedTensor& to);
plan::Expected<Launches> gather_nd(int batch, const StridedTensor& x, const StridedTensor& indices,
                                   const StridedTensor& to);

/// What a scatter reads and writes. Tensors are 0: x, 1: indices, 2: updates, 3: to; all but the indices have one type.
struct Scattered {
  StridedTensor x, indices, updates, to;
  bool in_place = false;  ///< `to` has the elements of x already
};

/// See operators::ScatterElements and ScatterND. Updates of one element are taken in their order.
plan::Expected<Launches> scatter_elements(const operators::ScatterElements& op, const Scattered& tensors);
plan::Expected<Launches> scatter_nd(const operators::ScatterND& op, const Scattered& tensors);

/// The text of all kernels that move what is indexed, and the name of one, for words of so many bytes (0: of none).
KernelText indexed_kernel(std::string_view name, std::size_t bytes);

}  // namespace unisono::tensors
