#pragma once
/// Where the accumulator comes from: a contraction by oneDNN, or a tensor that the caller gives.

#include <cstddef>
#include <memory>
#include <string>

#include "runtime/cpu/tiling.hpp"
#include "runtime/cpu/vector/unit.hpp"
#include "unisono/contraction.hpp"
#include "unisono/executable.hpp"

namespace unisono::cpu {

/// Computes the accumulators of strips. Immutable after construction; strips may be computed by several threads at
/// once.
class AccumulatorSource {
 public:
  virtual ~AccumulatorSource() = default;

  /// Bytes of scratch memory that a run needs, and bytes that each of its workers needs.
  virtual std::size_t run_scratch() const { return 0; }
  virtual std::size_t worker_scratch() const { return 0; }

  /// Throws UserError unless `a` and `b` of the arguments are as the contraction wants them.
  virtual void check(const Arguments& arguments) const = 0;

  /// Once per run, before any strip.
  virtual void prepare(const Arguments& arguments, std::byte* run_scratch) const = 0;

  /// acc[row][col], dense: rows of the strip, all columns. `bias` has one value a column and is added, if the source
  /// was made for one; else null.
  virtual void compute(const Arguments& arguments, const Strip& strip, const float* bias, float* acc,
                       const std::byte* run_scratch, std::byte* worker_scratch) const = 0;

  /// More than 1: the source computes not strips but these parts of the columns, for all rows, which are few. They may
  /// be computed by several threads at once; acc is that of the whole space.
  virtual std::int64_t column_parts() const { return 1; }
  virtual void compute_part(const Arguments&, std::int64_t /*part*/, const float* /*bias*/, float* /*acc*/,
                            const std::byte* /*run_scratch*/, std::byte* /*worker_scratch*/) const {}

  /// The accumulators of the whole space if they stand in memory, dense and in order of the epilogue's rows; else null.
  virtual const float* in_memory(const Arguments&) const { return nullptr; }

  /// Which primitive, which strips, which conversions.
  virtual std::string describe() const = 0;
};

/// oneDNN behind strips of `tiling`; `with_bias`: it adds a bias before it writes; `rounds`: it may round f32 operands
/// to bf16. Throws Unsupported with reasons.
std::unique_ptr<AccumulatorSource> contraction_source(const Contraction& contraction, bool with_bias,
                                                      const Tiling& tiling, const CompileOptions& options,
                                                      const VectorUnit& unit, bool rounds = false);

/// Arguments::image, float32, (images, height, width, cols), any pixel stride.
std::unique_ptr<AccumulatorSource> tensor_source(const Extents& extents, const VectorUnit& unit);

}  // namespace unisono::cpu
