#pragma once
/// The vector machine: one function per instruction, built once per instruction set and chosen at run time.
///
/// Values stand in registers: runs of lanes in memory that stays in L1. A lane is a float for the
/// dtypes f32, tf32, f16, bf16 (rounded to their dtype by an instruction of its own) and bool (0 or 1), and a double
/// for f64 and i32 (which a double holds exactly).

#include <cstddef>
#include <cstdint>

namespace unisono::cpu {

/// Instructions that work lane by lane. All have a form for float lanes, and those up to last_common one for double
/// lanes.
enum class Code : std::uint8_t {
  copy,
// One for each elementwise operation, under its name; attributes are immediates 0 and 1
#define UNISONO_ELEMENTWISE(NAME, ...) NAME,
#include "ir/operations.inc"
  round_i32,   ///< toward zero, saturating; NaN becomes 0
  round_bool,  ///< x != 0
  last_common = round_bool,
  // float lanes only
  round_bf16,
  round_f16,
  round_tf32,
  sub_fma,   ///< (a - b)·c + d, rounded after the subtraction and at the end: what a normalisation does to an element
  sub_mul,   ///< (a - b)·c
  add_relu,  ///< relu(a + b), rounded after the addition: what a residual does to an element
};
/// Functions of one value that VectorUnit::normalise may end with; copy: none.
inline constexpr Code normalise_ends[] = {Code::copy, Code::relu, Code::sigmoid,   Code::silu,
                                          Code::mish, Code::gelu, Code::gelu_tanh, Code::hardswish};
inline constexpr int code_count = static_cast<int>(Code::add_relu) + 1;

/// Operands of one lane-wise instruction. A source whose step is 0 is a scalar: one vector's worth of equal lanes.
struct LaneArgs {
  void* result = nullptr;
  const void* source[5] = {};
  std::ptrdiff_t step[5] = {};  ///< 1, or 0 for a scalar
  std::size_t lanes = 0;
  double immediate[2] = {};
};

/// How many lanes a scalar register holds, of either type.
inline constexpr std::size_t scalar_lanes = 16;

/// Statistics that reductions collect.
enum class Collect : std::uint8_t { sum, sum_squares, moments, largest, smallest };

/// Reduces a block of rows·cols floats over its rows, `period` lanes at a time (a multiple of cols): lane i of the
/// result collects the lanes i, i + period, i + 2·period, … of the block and merges them into first[i] and second[i].
///   sum, sum_squares:   first += Σ
///   moments:            (first, second) = (mean, Σ(x - mean)²) of `collected` + new elements (Chan, Golub, LeVeque
///   1983) largest, smallest:  first = max or min; NaN wins
struct AccumulateArgs {
  const float* block = nullptr;
  std::size_t period = 0;
  std::size_t repeats = 0;    ///< whole periods in the block
  std::size_t lanes = 0;      ///< lanes of a period to reduce; fewer than the period in the block's tail
  std::size_t collected = 0;  ///< elements per lane that first and second stand for already
  float* first = nullptr;
  float* second = nullptr;
};

/// Reduces each run of `width` floats of `rows` runs to one.
struct RowArgs {
  const float* source = nullptr;
  std::size_t rows = 0;
  std::size_t width = 0;
  float* result = nullptr;
};

/// Result of a reduction of a row, after its runs are collected.
enum class RowResult : std::uint8_t { sum, mean, sum_squares, variance, largest, smallest };
inline constexpr int row_result_count = 6;

/// A window of rows·cols pixels whose channels are contiguous.
struct WindowArgs {
  const float* first = nullptr;  ///< channel 0 of its first pixel
  std::size_t rows = 0, cols = 0;
  std::ptrdiff_t row_pitch = 0, col_pitch = 0;  ///< floats from pixel to pixel of the window
  std::size_t channels = 0;
  double divisor = 1;  ///< the mean is the sum divided by this
  float* result = nullptr;
};

/// Columns of the matrices that VectorUnit::row_product takes.
inline constexpr std::size_t row_product_columns = 64;

/// The machine for one instruction set.
struct VectorUnit {
  const char* name;
  int float_lanes;  ///< floats in one vector
  void (*float_lane[code_count])(const LaneArgs&);
  void (*double_lane[code_count])(const LaneArgs&);
  /// end((a [+ e] - b)·c + d), each operation rounded as by itself: by Code of the end, null but for normalise_ends; e
  /// may be null
  void (*normalise[code_count])(const LaneArgs&);
  void (*accumulate[5])(const AccumulateArgs&);           ///< by Collect
  void (*reduce_rows[row_result_count])(const RowArgs&);  ///< by RowResult
  void (*widen)(const LaneArgs&);                         ///< float lanes to double lanes
  void (*narrow)(const LaneArgs&);                        ///< double lanes to float lanes, rounded
  void (*load_bf16)(const std::uint16_t*, float*, std::size_t);
  void (*store_bf16)(const float*, std::uint16_t*, std::size_t);
  void (*load_f16)(const std::uint16_t*, float*, std::size_t);
  void (*store_f16)(const float*, std::uint16_t*, std::size_t);
  /// to[i·to_pitch + j] = from[i·from_pitch + j] for i < rows, j < cols
  void (*copy_rows)(const float* from, std::ptrdiff_t from_pitch, float* to, std::ptrdiff_t to_pitch, std::size_t rows,
                    std::size_t cols);
  /// to[j·to_pitch + i] = from[i·from_pitch + j] for i < rows, j < cols
  void (*transpose)(const float* from, std::ptrdiff_t from_pitch, float* to, std::ptrdiff_t to_pitch, std::size_t rows,
                    std::size_t cols);
  /// The same for results that are not read again soon and would drive out of the caches what is: whole lines go
  /// straight to memory, if all rows of the result begin alike on them. Other threads may read them after the function
  /// below.
  void (*transpose_past_caches)(const float* from, std::ptrdiff_t from_pitch, float* to, std::ptrdiff_t to_pitch,
                                std::size_t rows, std::size_t cols);
  void (*finish_stores_past_caches)();
  void (*window_largest)(const WindowArgs&);  ///< by channel; NaN wins; of no pixels -∞
  void (*window_mean)(const WindowArgs&);     ///< by channel; summed in f64
  /// sums[j] = Σ_i a[i]·b[i·row_product_columns + j] for i < terms, summed in f64
  void (*row_product)(const float* a, const float* b, std::size_t terms, double* sums);
};

/// The widest unit that this processor runs. `limit` ("avx2", "generic") asks for a narrower one, for tests; a name
/// that is unknown or that the processor cannot run is an InternalError.
const VectorUnit& vector_unit(const char* limit = nullptr);

/// Error of the elementary functions on any unit, in units of u·|result| (one rounding is 1): what the reference's
/// error model must grant. docs/cpu-backend.md has the figure of each.
inline constexpr double function_ulps = 4;

}  // namespace unisono::cpu
