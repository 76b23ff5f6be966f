#pragma once
/// What is tested: a convolution or a product, an epilogue, options, and the seed of its data.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "families/registry.hpp"
#include "families/sm90_conv/conv.hpp"
#include "families/sm90_depthwise/depthwise.hpp"
#include "lower/lower.hpp"
#include "plan/epilogue.hpp"
#include "plan/resampling.hpp"
#include "unisono/executable.hpp"
#include "unisono/graph.hpp"

namespace unisono::gpu {

struct Case {
  std::string name;
  Conv2d conv;       ///< of a product: as the kernels compute it
  std::string text;  ///< of the epilogue
  CompileOptions options;
  std::map<std::string, double> scalars = {};
  std::uint64_t seed = 1;
  std::optional<Gemm> product = {};
  double offset = 0, deviation = 1;  ///< of the accumulator plus the operand `bias`, if there is one

  std::optional<ConvTranspose2d> transposed = {};  ///< then `conv` has no extents
  std::optional<Conv3d> volume = {};               ///< then `conv` has its planes one below the other
  std::optional<FilterGradient2d> gradient = {};   ///< then `conv` is the convolution whose filter's it is

  /// Elements more than a dense tensor has between the matrices of a batch, the pixels of the image (rows of A), the
  /// rows of the result that is written last.
  struct Gaps {
    std::int64_t matrices = 0, image = 0, output = 0;
  };
  Gaps gaps = {};
  /// An expression and its axes, "m" or "mn": a function sees it that is called for its effect. Empty: none does.
  std::string witnessed = {}, witness_axes = {};
  /// Moments of every so many channels of the only store, or of a divisor, are stored beside it; 0: none.
  std::int64_t moments = 0;
  /// What is stored of the main store beside it, which graph_of() adds.
  plan::Resampled resampled = {};
  /// Random delays at every point of the statistics exchange.
  bool delays = false;
  /// No launch writes the filter, which may be loaded before the launches ahead have ended.
  bool filters_ahead = false;

  Contraction contraction() const { return product ? Contraction(*product) : as_computed(); }
  /// For a product, the convolution that computes it.
  Contraction as_computed() const {
    return gradient     ? Contraction(*gradient)
           : volume     ? Contraction(*volume)
           : transposed ? Contraction(*transposed)
                        : Contraction(conv);
  }
  std::string describe() const;  ///< for messages: everything that is needed to run it again
};

/// The store of judged_graph_of() that holds what was seen.
inline constexpr const char* witness_name = "witnessed";

/// What epilogues of cases may call: warp(x, y) and fold(x).
std::vector<UserFunction> test_functions();

/// The case's epilogue.
Graph graph_of(const Case& c);
/// The same for the reference: what is seen is stored as `witness_name`.
Graph judged_graph_of(const Case& c);

/// The GPU's, or an H200's where there is none: what cases are drawn and planned for.
const plan::Device& planning_device();

/// True if the device serves the case; the reason otherwise.
bool is_served(const Case& c, std::string* reason = nullptr);

/// A text with its placeholders {T} and {G}: the dtype of the stores, the groups of a normalisation.
std::string filled(std::string text, DType type, std::int64_t groups = 1);

// ---- The cases of each test

std::vector<Case> random_cases(std::uint64_t seed, int families, int shapes);
std::vector<Case> block_cases();
std::vector<Case> operation_cases();
std::vector<Case> operand_cases();
std::vector<Case> pixel_cases();
/// Products in every layout, one or several.
std::vector<Case> product_cases(std::uint64_t seed);
/// What TMA cannot load or store: odd channels, groups, channels first, far strides, transposed ones.
std::vector<Case> gathered_cases(std::uint64_t seed);
/// Depthwise convolutions by the kernel without matrix instructions.
std::vector<Case> depthwise_cases(std::uint64_t seed);
std::vector<Case> small_depthwise_cases();
/// Every kind of contraction and operand type by family `plain`; a few of them.
std::vector<Case> plain_cases(std::uint64_t seed);
std::vector<Case> small_plain_cases();
/// What is stored pooled and upsampled as well, in every mode; `resampled_case`: one of them.
std::vector<Case> resampled_cases(std::uint64_t seed);
std::vector<Case> small_resampled_cases();
Case resampled_case(const Conv2d& conv, std::string text, std::string plan, plan::Resampled resampled);
/// Operands [m,n] that TMA brings, beside others, by every kind of plan.
std::vector<Case> fetched_cases(std::uint64_t seed);
std::vector<Case> small_fetched_cases();
/// Steps of 128 elements of k, by every way of loading that has them; a few small ones.
std::vector<Case> deep_cases(std::uint64_t seed);
std::vector<Case> filters_ahead_cases();
std::vector<Case> small_deep_cases();
/// Dual products and convolutions: two right operands of one A, two filters of one image.
std::vector<Case> dual_cases(std::uint64_t seed);
std::vector<Case> small_dual_cases();
/// Operands that lack coordinates of rows or are strided, strided stores, defaults of vectors, rounding of stores.
std::vector<Case> placed_cases(std::uint64_t seed);
std::vector<Case> small_placed_cases();
/// One store, plain or by parity phases, with its mean and M2.
std::vector<Case> moment_cases(std::uint64_t seed);
std::vector<Case> small_moment_cases();
/// Rows that are normalised over more channels than a tile has, by one exchange.
std::vector<Case> row_cases(std::uint64_t seed);
std::vector<Case> small_row_cases();
/// Kernels whose filters stay in shared memory.
std::vector<Case> stationary_cases(std::uint64_t seed);
std::vector<Case> small_stationary_cases();
/// What only a second pass over an image's tiles serves: stores of f32, more than two, values of rows.
std::vector<Case> second_pass_cases(std::uint64_t seed);
std::vector<Case> small_second_pass_cases();
/// Convolutions of groups, of which a tile has several.
std::vector<Case> group_cases(std::uint64_t seed);
std::vector<Case> small_group_cases();
/// Images of few channels, by im2col in shared memory, with epilogues of every mode.
std::vector<Case> im2col_smem_cases(std::uint64_t seed);
std::vector<Case> small_im2col_smem_cases();
/// Channels first: what is converted, or multiplied as planes, and stored in planes; a few small ones.
std::vector<Case> planes_cases(std::uint64_t seed);
std::vector<Case> small_planes_cases();
/// Transposed convolutions by the phases of their output, with every kind of epilogue.
std::vector<Case> phase_cases(std::uint64_t seed);
std::vector<Case> small_phase_cases();
/// Convolutions of volumes, by halo tiles where these serve, in every mode; a few small ones.
std::vector<Case> volume_cases(std::uint64_t seed);
std::vector<Case> small_volume_cases();
/// Those of stride 1, gradients of convolutions' inputs, likewise; a few small ones.
std::vector<Case> flipped_cases(std::uint64_t seed);
std::vector<Case> small_flipped_cases();
std::vector<Case> offset_cases();
std::vector<Case> batch_cases();
/// Values of rows, coordinates, results of every type, reductions that are read or stored.
std::vector<Case> general_cases();
std::vector<Case> general_offset_cases();
std::vector<Case> wide_cases();
std::vector<Case> general_plain_cases();
/// Reductions over groups of a row's channels; those over rows that elements read again; a few small ones of both.
std::vector<Case> grouped_cases();
std::vector<Case> returned_cases();
std::vector<Case> small_returned_cases();
/// f32 operands.
std::vector<Case> tf32_cases();
std::vector<Case> delay_cases(std::uint64_t seed);
std::vector<Case> endurance_cases(std::uint64_t seed);
/// Problems that are run by many plans.
std::vector<Case> plan_cases();
/// The configuration of a plan of sm90_conv; of another family's plan one without any of its features.
families::sm90_conv::ConvConfig conv_config(const families::Plan& plan);
/// Some fifty of the legal plans: every tile, cluster, order, way of loading, mode and depth that there is, at least
/// twice.
std::vector<families::PlanPointer> sample_of_plans(const lower::Problem& problem);
/// Small ones for compute-sanitizer, one of each mode and way of loading.
std::vector<Case> sanitizer_cases();

/// What --precompile compiles: every case of every test.
std::vector<Case> all_cases(std::uint64_t seed);

}  // namespace unisono::gpu
