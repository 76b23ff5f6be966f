#pragma once
/// The fuser's result: a network cut into regions, each run as one step.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/refusal.hpp"
#include "unisono/builder.hpp"
#include "unisono/graph.hpp"
#include "unisono/network.hpp"

namespace unisono::network {

using plan::because;
using plan::Refusal;

/// A tensor that an epilogue graph reads, by the operand's name. Its shape broadcasts over that of the values.
struct RegionOperand {
  std::string name;
  TensorId tensor;
  Axes axes;
  /// It is an operator's bias, scale or shift instead: of rank 1, one element a column whatever the values' rank.
  bool per_column = false;
};

/// A tensor that an epilogue graph writes, by the store's name.
struct RegionOutput {
  std::string name;
  TensorId tensor;
};

/// A max-pool of 2x2 pixels, or an upsampling that repeats each pixel 2x2 times, of an output of a contraction, which
/// the contraction's kernel may make as it stores that. If it cannot, it follows by itself.
struct ResampledStore {
  std::size_t op{};  ///< its index
  TensorId from{}, to{};
  bool pooled = false;  ///< else upsampled
};

/// A sum, mean or extremum of an output of a contraction, over everything or over each image's pixels, and what is
/// computed of it, which the contraction's kernel may compute beside that. If it cannot, their own regions are
/// launched.
struct ReducedStore {
  ReduceDomain domain;
  std::vector<std::size_t> operators;  ///< their indices: the reduction, then what is computed of its one number
  std::vector<std::size_t> regions;    ///< theirs
  TensorId from{}, to{};
  bool only = false;  ///< nothing else reads `from`
  Graph graph;        ///< the region's with the reduction stored, and without `from` if it is `only` for this
  std::string name;   ///< that store has
};

/// Two layers of one pixel an image, of what a pool makes: the gate of a squeeze-and-excitation block. The launch of
/// the second may compute the first, and the pool, if that is no other's work.
struct SmallLayers {
  std::size_t first{};              ///< the region of the first layer
  std::optional<std::size_t> pool;  ///< its region
  TensorId from{}, pooled{};        ///< what the pool reads, and makes
};

struct Region {
  RegionReport::Kind kind{};
  std::vector<std::size_t> operators;  ///< indices, in order; the contraction comes first
  /// Contraction: another product of the same matrix, with weights of the same shape, whose sums are acc1 of the graph.
  std::optional<std::size_t> second;
  std::optional<TensorId> source;  ///< epilogue: the tensor that stands for acc, if the graph uses it
  Graph graph;                     ///< contraction, epilogue
  std::vector<RegionOperand> operands;
  std::vector<RegionOutput> outputs;
  std::vector<ResampledStore> resampled;  ///< contraction: of one of the outputs; their own regions are then free
  /// The output of which only an upsampling in `resampled` is read: it needs no memory.
  std::optional<TensorId> only_upsampled;
  std::optional<ReducedStore> reduced;  ///< contraction without such stores: of one of the outputs
  std::optional<SmallLayers> layers;    ///< contraction: it is the second of them
  /// Why another region's kernel does not compute it; single: a pool or an upsampling
  std::optional<plan::Refusal> unfused;
  /// single: its operators, the last of which makes its only output, are one launch, moves and reductions among them
  bool chain = false;
  std::string note;
};

/// Where a tensor lives, if not in memory of its own.
struct Placement {
  TensorId base;            ///< the tensor whose memory it shares
  std::int64_t column = 0;  ///< first element: of a slice its column (channel), of a range of rows where these begin
  bool slice = false;       ///< a slice of base's columns; else dense, a view with another shape or a range of rows
};

/// How a backend lays out tensors.
struct MemoryStyle {
  /// Bytes of an f32 tensor's elements where kernels have these in a type of their own, its *element*; 0: they lie in
  /// memory as f32. See FusedNetwork::own_type.
  std::size_t element_bytes = 0;
  DType element = DType::bf16;       ///< that type, if there is one
  std::int64_t column_multiple = 1;  ///< pixels of such tensors lie a multiple of so many elements apart
  /// Whether contractions with several outputs may write one into a slice of a concatenation, and read slices as
  /// operands of their epilogues. The image and the only output may be slices in any case.
  bool slices_beside = true;
  bool in_place = true;           ///< an elementwise region may write over what it reads
  bool repeats = true;            ///< operands may have strides of 0, for symbols that turn out to be 1
  bool resampled_stores = false;  ///< contractions may store what is pooled or upsampled by 2 (Region::resampled)
  bool reductions = false;        ///< and sums of it (Region::reduced)
  bool small_layers = false;      ///< two layers of a pooled image may be one step (Region::layers)
  /// Operators on elements of any type (operators::Map) may be one region, with elementwise ones beside them;
  /// contractions take in elementwise operators on inputs that they alone read.
  bool maps = false;
  /// Operators on elements, moves and reductions along lines may be one region (Region::chain).
  bool chains = false;
  /// Convolutions may take the image before it is upsampled by 2 (operators::UpsampledConv2d).
  bool upsamples = false;
  /// Convolutions of volumes are ones of images: operators::StackedConv3d.
  bool volumes = false;
  /// Ranges of a tensor's columns may be read where they lie: by contractions as their image and as operands [b,n], and
  /// by whatever is no contraction. Then products of one input may be stacked, too.
  bool column_ranges = false;
  /// Two products of one matrix that a gated unit joins may be one region (Region::second).
  bool dual_products = false;
  /// Products with a softmax between are one operator, operators::Attention, if their heads are at most so wide.
  std::int64_t widest_head = 0;
  /// What gradients() writes for a normalisation over groups of at most so many channels is operators::NormGradient.
  std::int64_t norm_gradients = 0;
  /// An input of at most so many channels, of which the backend loads a pixel as slowly as one of many, reaches the
  /// only convolution that reads it with the filter taps of an image row as channels.
  std::int64_t im2col_channels = 0;
  /// Tensors of at most so many bytes, and a 64th of all, share memory with no other, so that launches may run beside
  /// each other.
  std::size_t kept_bytes = 0;

  /// Elements from pixel to pixel of a dense tensor with so many columns.
  std::int64_t pitch(std::int64_t columns) const {
    return (columns + column_multiple - 1) / column_multiple * column_multiple;
  }
};

struct FusedNetwork {
  Network network;  ///< legalised: see legalise()
  std::vector<Region> regions;
  std::vector<std::optional<Placement>> placement;  ///< by tensor
  MemoryStyle style;
  std::vector<bool> own_type;  ///< by tensor: it lies in memory in its own dtype, else in MemoryStyle's element
  /// By tensor: it is derived only from integers, so it must be stored without rounding.
  std::vector<bool> exact;

  std::size_t element_bytes(TensorId id) const {
    return own_type[id] ? size_of(network[id].dtype) : style.element_bytes;
  }
  std::int64_t column_multiple(TensorId id) const { return own_type[id] ? 1 : style.column_multiple; }
  /// Elements from pixel to pixel of the tensor, dense, with so many columns.
  std::int64_t pitch(TensorId id, std::int64_t columns) const { return own_type[id] ? columns : style.pitch(columns); }
};

/// Rewrites that need no regions: drops dead operators and identities, reshapes and transposes constants, folds batch
/// normalisations with constant statistics into scale and shift, and expands operands that no axes describe. If
/// `upsamples`, upsamplings by 2 become part of the convolution that alone reads them, where it may run by phases.
Network legalise(const Network& network, bool upsamples = false);

/// Scatters by constant indices that are those of a box become concatenations.
Network with_assigned_ranges(const Network& network);

/// Operands that are repeated for one elementwise operator, which broadcasts by itself, are read as they are, and
/// gathers of one constant index become ranges.
Network broadcast_operands(const Network& network);

/// Two MatMuls with a softmax between become operators::Attention, which reads and writes through the reshapes,
/// permutes and ranges around, where heads are at most so wide. Not where q, k, v or the result is `kept`, by tensor,
/// in f32: the kernel has them in 16 bits.
Network with_attention(const Network& network, std::int64_t widest_head, const std::vector<bool>& kept = {});

/// Reshapes that part an image's channels and join its pixels, or the reverse, as reshapes of each pixel's channels
/// between permutes.
Network with_channels_apart(const Network& network);

/// What gradients() writes for normalisations over groups of at most so many channels becomes operators::NormGradient.
Network with_norm_gradients(const Network& network, std::int64_t most_channels);

/// A factor of each matrix of a batch multiplies the queries of attention instead of its scores.
Network with_factors_of_queries(const Network& network);

/// Merges a zero padding into that of the convolution after it.
Network with_own_padding(const Network& network);

/// Divisions by the root of a sum of squares over channels become RMS norms.
Network with_channel_norms(const Network& network);

/// Convolutions by constant filters without the taps that meet padding alone; with `volumes`, transposed ones of
/// volumes as convolutions whose channels become voxels.
Network simpler_convolutions(const Network& network, bool volumes);

/// Convolutions of volumes with constant filters become operators::StackedConv3d, and what follows them element by
/// element, normalisations and concatenations of channels among it, work on the same images.
Network stacked_volumes(const Network& network);

/// Returns the reason stacked_volumes() cannot rewrite this Conv3d.
std::optional<Refusal> refuse_stacking(const Network& network, const Operator& op);

/// Values between permutes from (N,C,H,W) to (N,H,W,C) and back become rows of matrices, which need no copies.
Network rows_of_pixels(const Network& network);

/// What became of products that read one input.
struct Stacked {
  std::optional<Network> network;  ///< with wide products and ranges of their columns; none: as it was
  /// By the output of a product: what a wide one is made of, or why another stands by itself.
  std::map<std::string, std::string> wide, alone;
};

/// Joins products of one input with constant weights and the same elementwise operators after them into one whose
/// columns are theirs side by side; what they made becomes a range of its columns. `regions`: what each would be fused
/// with.
Stacked stack_products(const Network& network, const std::vector<Region>& regions, const MemoryStyle& style);

/// Says so in the regions' notes; `regions` are those of `network`, which has the wide products.
void note_stacked(const Stacked& stacked, const Network& network, std::vector<Region>& regions);

/// Why a reader of the tensor needs it dense, with MemoryStyle::column_ranges.
std::optional<Refusal> needs_dense(const Network& network, const std::vector<Region>& regions, TensorId id);

/// Cuts a network into regions. With fuse == false every operator is a region of its own.
FusedNetwork fuse(const Network& network, bool fuse = true, const MemoryStyle& style = {});

/// Decides in which type each tensor lies in memory: FusedNetwork::own_type and FusedNetwork::exact.
void choose_memory_types(FusedNetwork& fused);

/// Decides which tensors need no memory of their own, and marks the regions that cost nothing.
void place(FusedNetwork& fused);

/// Gives pools and upsamplings by 2 to the contractions that make what they read: Region::resampled.
void fold_resampling(FusedNetwork& fused);

/// Gives reductions of what contractions make to these: Region::reduced. Types in memory are known.
void fold_reductions(FusedNetwork& fused);

/// Finds pairs of layers of pooled images: Region::layers. Tensors have their places already.
void find_small_layers(FusedNetwork& fused);

/// Completes a reduction of an output of the region: its graph and the store's name. Columns up to the next multiple of
/// `column_multiple`, which a kernel may compute beside the region's own, do not count. Whether the graph can say it.
bool write_reduced(const Network& network, const Region& region, ReducedStore& store, std::int64_t column_multiple);

/// Fills graph, operands and outputs of a region of kind contraction or epilogue. `stored` are the tensors to write.
void write_epilogue(const Network& network, Region& region, const std::vector<TensorId>& stored);

/// Whether the operator is a convolution that is not transposed, its image upsampled or not.
inline bool is_conv2d(const OperatorKind& kind) {
  return std::holds_alternative<operators::Conv2d>(kind) || std::holds_alternative<operators::UpsampledConv2d>(kind);
}

/// Whether the operator is a matrix product or convolution.
bool is_contraction(const OperatorKind& kind);

/// Whether the operator can be part of an epilogue.
bool is_pointwise(const OperatorKind& kind);

/// Whether 16 bits lack digits of such integers, as they do not of those of 8 bits, and of bool.
inline bool is_wide_integer(DType type) { return !is_float(type) && size_of(type) > 1; }

/// Whether the results are some of the first input's elements, or of all inputs'.
bool is_move(const OperatorKind& kind);

/// Whether a GPU's kernels of the operator read f32 tensors in one type of memory and write them in another.
bool converts(const OperatorKind& kind);

/// Whether kernels of the tensor cores compute the region: they read the element alone.
bool multiplies(const Network& network, const Region& region);

/// Whether the region can read and write f32 in a GPU's memory.
bool knows_f32(const Network& network, const Region& region);

/// Whether the operator adds the tensor to attention's scores, and reads it as it is.
bool is_mask_of(const Operator& reader, TensorId id);

/// The operation of epilogue graphs that a Map of f32 and bool is, if there is one: comparisons, logic, choices.
std::optional<Op> graph_operation(const OperatorKind& kind);

/// The inputs whose elements an operator reads; of the second input of expand, reshape_like and
/// resize, and of what shape reads, only the shape counts.
std::span<const TensorId> data_inputs(const Operator& op);

/// "conv2d (batch,3,64,64) -> 16, 3x3, pad 1" and the like.
std::string describe(const Network& network, const Operator& op);

/// For explain and the executable; `network_operators` counts those of the network before legalise().
FusionReport report(const FusedNetwork& fused, std::size_t network_operators);

}  // namespace unisono::network
