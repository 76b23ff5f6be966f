#pragma once
/// Kernels that multiply batches of matrices which lie anyhow in tensors of bf16 or f16 in device memory, by matrix
/// instructions of one warp (mma.sync): from sm_80 on. Pure: the same arguments give the same text.

#include <cstdint>
#include <optional>
#include <string>

#include "plan/device.hpp"
#include "plan/refusal.hpp"
#include "unisono/dtype.hpp"  // first: its enumerators have the names of the types below
#include "unisono/params/product_params.cuh"

namespace unisono::products {

/// A kernel's text, and how it is launched with the parameters that it was made for.
struct Kernel {
  std::string source, entry;
  std::uint32_t ctas = 1, threads = 128;
  std::uint32_t shared_bytes = 0;
  std::string how;  ///< for people: which tiles it has
};

/// Why no kernel of this folder runs on the device.
std::optional<plan::Refusal> refuse_device(const plan::Device& device);

/// Whether eight neighbours of every line lie together, at multiples of 16 bytes. `first`: bytes from such a multiple
/// to the first element; `line`, `step`: elements from line to line and along a line.
bool lies_together(const BatchedMatrix& m, std::int64_t first, std::int64_t line, std::int64_t step);

/// Batches in a space. Throws UserError for more than 32 bits count.
std::uint32_t count(const BatchSpace& space);

/// The kernel's text around a call of its one function. `bounds`: threads of a CTA, and CTAs of an SM.
std::string source_of(const std::string& header, const std::string& entry, const std::string& parameters,
                      const std::string& call, const std::string& bounds = "128");

}  // namespace unisono::products
