#pragma once
/// What a kernel of this family is compiled for.

#include <cstdint>
#include <string>
#include <string_view>

#include "unisono/dtype.hpp"

namespace unisono::families::cutlass_evt {

/// What a kernel is compiled for. sm80 is portable code (compute_80), which later architectures run too.
enum class Arch : std::uint8_t { sm90a, sm80, sm100a, sm120 };
/// warp_specialized: one consumer warpgroup and one tile a CTA, as CUTLASS's convolutions are.
enum class Schedule : std::uint8_t { cooperative, pingpong, warp_specialized };
enum class Raster : std::uint8_t { heuristic, rows, columns };  ///< tiles that follow one another: of rows, of columns

struct Config {
  Arch arch = Arch::sm90a;
  bool convolution = false;  ///< NHWC images, KRSC filters; else a product
  bool transposed = false;   ///< such a convolution's transpose: CUTLASS's dgrad
  bool gradient = false;     ///< such a convolution's filters' gradient, by A = dY and B = X: CUTLASS's wgrad
  bool grouped = false;      ///< products of rows in groups, with a B each: CUTLASS's ptr-array kernel
  int products = 1;          ///< 2: of one A and two B, with an accumulator each
  DType a = DType::bf16, b = DType::bf16;     ///< in memory: bf16, f16, or tf32 for f32
  bool columns_a = false, columns_b = false;  ///< A is (k, m); B is (k, n)
  int tile_m = 128, tile_n = 128, tile_k = 64;
  int cluster_m = 1, cluster_n = 1;  ///< CTAs
  Schedule schedule = Schedule::cooperative;
  int stages = 0;  ///< 0: as many as fit
  Raster raster = Raster::heuristic;
  int swizzle = 1;                   ///< tiles across that are run through together, at most
  int subtile_m = 0, subtile_n = 0;  ///< the epilogue's; 0: CUTLASS's choice
  bool atomic = false;               ///< reductions by atomic operations are allowed

  bool operator==(const Config&) const = default;
};

std::string_view to_string(Arch arch);  ///< "sm90a"
/// Whether its kernels are those of CUTLASS 2.x, with the visitors of cutlass/epilogue/threadblock/fusion.
constexpr bool is_2x(Arch arch) { return arch == Arch::sm80 || arch == Arch::sm120; }
/// How far its kernels are tested: "compiled, never run", or on what they ran.
std::string_view tested(Arch arch);
/// What nvcc makes of it: "sm_90a"; "compute_80".
std::string_view code_of(Arch arch);

std::string_view to_string(Schedule schedule);
std::string_view to_string(Raster raster);

}  // namespace unisono::families::cutlass_evt
