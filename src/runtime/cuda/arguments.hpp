#pragma once
/// The caller's arguments, checked and resolved for a launch. Needs no driver: whether memory is the GPU's is checked
/// apart (memory_check.hpp).

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/codegen.hpp"
#include "families/interface/plan.hpp"
#include "plan/epilogue.hpp"
#include "runtime/cuda/slots.hpp"
#include "runtime/cuda/tensor_checks.hpp"
#include "unisono/executable.hpp"

namespace unisono::cuda {

/// What the arguments are checked against.
struct Signature {
  Contraction contraction;
  std::vector<std::string> operands;                      ///< names in the graph as it was written
  std::vector<std::string> pointers;                      ///< that its functions have captured
  std::map<std::string, std::size_t> pointer_alignments;  ///< in bytes, by the types that they are captured with
  std::map<std::string, double> defaults;                 ///< values of operands, by name
  std::vector<Store> stores;                              ///< stores of the graph
  std::vector<Axes> store_axes;
  std::optional<std::size_t> main_store, side_store;  ///< that go to ConvParams::output and side
  plan::Resampled resampled;                          ///< what is made of the main store
  std::string moments;                                ///< its moments' name; empty: none are stored
  std::vector<std::int64_t> moments_shape;            ///< as the plan has them
  std::vector<codegen::Field> fields;
  bool reads_b = true;  ///< false: constant_filter was given
};

Signature signature(const Contraction& contraction, const Graph& source, const plan::Epilogue& epilogue,
                    const codegen::Kernel& kernel, bool reads_b);
/// With what follows from the plan.
Signature signature(const Contraction& contraction, const Graph& source, const plan::Epilogue& epilogue,
                    const families::Plan& plan, const codegen::Kernel& kernel, bool reads_b);

/// A pointer and what it is for, to be checked against the driver.
struct NamedPointer {
  const void* data = nullptr;
  std::size_t bytes = 0;  ///< from there on that a kernel may touch, gaps between rows included
  std::string what;       ///< "operand bias[n]"
};

struct BoundArguments {
  Address a, b;
  Address b1;                           ///< the second one of a dual product or convolution
  std::int64_t b_pitch = 0;             ///< elements from row to row of either B (n, k) of a dual product; 0: dense
  std::int64_t step_a = 0, step_b = 0;  ///< elements from one product's matrix to the next; 0: dense
  Address output, side;
  std::int64_t a_pitch = 0, output_pitch = 0;  ///< elements from row to row, where they do not lie together; else 0
  Address upsampled, pooled;
  std::int64_t upsampled_pitch = 0, pooled_pitch = 0;  ///< as output_pitch
  families::Fields fields;                             ///< by Signature::fields, as the kernel reads them
  Address moments;
  std::vector<Slot> slots;
  std::vector<NamedPointer> pointers;
};

/// Throws UserError for names that are missing, unknown (with a suggestion) or given twice; for shapes, dtypes and
/// strides that are wrong; for null and misaligned pointers; for outputs that share memory with anything else.
BoundArguments bind_arguments(const Signature& signature, const Arguments& arguments);

/// What a family fills a parameter from, by the filters that are taken: the caller's, or constant ones. Takes the
/// fields out of `bound`.
families::Tensors tensors(BoundArguments& bound, const Address& filter, const Address& filter1);

}  // namespace unisono::cuda
