#pragma once
/// What is decided for the regions of a network on a GPU before any launch is written down: plain data, which passes
/// (passes.hpp) fill in one after another, and which can be printed.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen/small_layers.hpp"
#include "lower/lower.hpp"
#include "network/cuda/input.hpp"
#include "network/cuda/tensor/launches.hpp"
#include "network/operand_view.hpp"
#include "runtime/cudnn/attention.hpp"

namespace unisono::network::gpu {

/// How a convolution of an image that is upsampled ahead of it is computed: by output-parity phases of the small image,
/// or of the large image, which a launch of its own makes. All others are computed as given.
enum class Form : std::uint8_t { given, phases, upsampled };

/// What a contraction's kernel makes of an output beside storing it: nothing, Region::resampled, Region::reduced.
enum class Beside : std::uint8_t { nothing, resampled, reduced };

/// Mean and M2 of a tensor that its kernel stores beside it: plan::moments_shape.
struct TensorMoments {
  TensorId tensor{};
  std::int64_t slots = 0, unit = 0, bytes = 0;
  bool upsampled = false;  ///< the kernel stores the tensor upsampled as well
};

/// A kernel of a family that serves a region, or its contraction. Arguments in scratch or kept memory have no
/// location yet.
struct FamilyKernel {
  lower::Lowered lowered = {};
  Form form = Form::given;
  std::optional<Conv2d> im2col = {};  ///< the convolution of the image whose filter taps are channels; see Im2colInputs
  Argument image = {}, filter = {};
  /// What makes the image with further channels of zeros; argument 1 has no location yet.
  std::optional<TensorLaunches> padding = {};
  /// What packs a filter that is no constant and does not lie as the kernel reads it; argument 1 has no location yet.
  std::optional<TensorLaunches> packing = {};
  std::optional<Argument> second = {};  ///< the other filter of Region::second, if the kernel multiplies both
  /// Else, at most one: the kernel of the first contraction, whose sums are in scratch; this one reads them as `sums`.
  std::vector<FamilyKernel> ahead = {};
  std::string sums = {};
  std::vector<Argument> operands = {}, outputs = {};
  std::optional<TensorMoments> moments = {};
  double flop = 0, bytes = 0;
  std::string how = {};  ///< Step::how
};

/// What the cost model predicts for the kernel, and the one ahead of it.
double predicted_us(const FamilyKernel& kernel);

/// How a contraction and its epilogue are computed: by one kernel; else the contraction by a kernel and the epilogue by
/// itself; else, with neither, the contraction by a plain kernel, one sum a thread.
struct ContractionPlan {
  std::optional<FamilyKernel> whole = {}, bare = {};
  std::optional<Refusal> not_whole = {}, not_bare = {};
};

/// A computed operand whose columns do not lie together: a launch ahead of the region's packs it.
struct GatheredOperand {
  std::size_t operand{};  ///< index into Region::operands
  OperandView view;
  PitchedRows packed;
};

/// A part of a tensor's channels, and the output of a contraction whose moments are its own.
struct SourcePart {
  TensorId tensor{}, measured{};
  std::int64_t first = 0, channels = 0;
  bool upsampled = false;  ///< each pixel of `measured` four times
};

/// Where the statistics come from that a region without a contraction normalises its source by.
struct StatisticsPlan {
  std::vector<SourcePart> parts = {};   ///< the source's, whose kernels store moments
  std::int64_t width = 0;               ///< channels of a group; the greatest common divisor of several
  std::optional<Refusal> refusal = {};  ///< why a pass over the source computes them instead
};

/// The kernels of a region with a contraction.
struct RegionKernels {
  std::optional<ContractionPlan> contraction = {};
  Beside beside = Beside::nothing;  ///< what contraction->whole makes beside its stores
  /// Why pooled or upsampled stores, or the reduction, are launches of their own.
  std::optional<Refusal> apart = {};
  std::optional<Refusal> no_moments = {};  ///< why none of them stores the moments that were wanted

  /// The moments that they store; null: none.
  const TensorMoments* moments() const {
    return contraction && contraction->whole && contraction->whole->moments ? &*contraction->whole->moments : nullptr;
  }
};

/// An operator, and why no kernel serves it.
struct Unserved {
  std::size_t op{};  ///< its index
  Refusal why;
};

/// The launch for Region::layers.
struct SmallLayersPlan {
  codegen::SmallLayersKernel kernel;
  bool pools = false;  ///< it reads SmallLayers::from
};

/// Attention by cuDNN, or why it is not.
struct AttentionPlan {
  std::shared_ptr<const cudnn::AttentionPlan> cudnn = {};
  std::optional<Refusal> not_cudnn = {};
};

struct RegionPlan : RegionKernels {
  std::optional<Unserved> host = {};           ///< why it runs on the host
  std::optional<TensorLaunches> tensors = {};  ///< an operator by itself, or elementwise ones
  std::optional<std::size_t> reduced_by = {};  ///< the region whose kernel computes it: Region::reduced
  std::optional<Refusal> not_reduced = {};     ///< why it does not, if it could
  std::optional<SmallLayersPlan> layers = {};
  std::optional<std::size_t> layers_by = {};    ///< the region whose launch computes it: Region::layers
  std::optional<Refusal> not_layers = {};       ///< why the layers are launches of their own
  std::optional<AttentionPlan> attention = {};  ///< none: cuDNN was not asked for
  std::vector<GatheredOperand> gathered = {};
  std::optional<StatisticsPlan> statistics = {};
};

/// Inputs that only one convolution reads, in the form of im2col along an image row: positions of the inputs.
using Im2colInputs = std::map<TensorId, std::size_t>;

/// Neighbouring regions that run on the host, as one network: a host step.
struct HostGroup {
  std::size_t first = 0, last = 0;          ///< its regions; between them are no launches
  std::vector<std::size_t> operators = {};  ///< those of its regions, and views and concatenations of what they make
  std::vector<TensorId> inputs = {};        ///< read here, and made elsewhere
  std::vector<TensorId> outputs = {};       ///< made here, and read elsewhere
  /// Those of them that kernels make, and read; all others come from the caller or another step, and go there.
  std::vector<TensorId> from_kernels = {}, to_kernels = {};
  std::vector<TensorId> shapes = {};  ///< made elsewhere; here only their extents are read
};

struct NetworkPlan {
  Im2colInputs im2col_inputs;
  std::vector<RegionPlan> regions;     ///< by region
  std::vector<HostGroup> host_groups;  ///< in the order of their regions
  std::set<TensorId> host_only;        ///< inputs that no kernel reads, and outputs that none makes
  /// Channels of which moments of a tensor are wanted together. All are stored, once it is decided which are merged.
  std::map<TensorId, std::int64_t> wanted_moments;
};

/// One line for each thing that is decided, region by region.
std::string to_string(const NetworkPlan& plan, const PlanningInput& in);

}  // namespace unisono::network::gpu
