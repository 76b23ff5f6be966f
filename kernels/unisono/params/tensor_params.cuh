// Parameters of the kernels of tensor/, which know tensors of any rank and element type. Plain structs, the same to the
// host's compiler.
#pragma once
#include "unisono/params/caller_tensor.cuh"
#include "unisono/params/params.cuh"

namespace unisono {

// An index space in row-major order: axes[0] is the outermost. It has at least one axis; indices are numbered from 0.
constexpr int kTensorAxes = 8;
struct IndexSpace {
  u32 axes, count;  // count: of all indices, below 2^31
  u32 extents[kTensorAxes];
  Divisor by[kTensorAxes];
};

// A tensor as an index space walks over it. Strides count elements, or the words that are moved.
struct StridedView {
  void* memory;
  i64 strides[kTensorAxes];
};

// The first fault that a kernel met in a run; all zero: none.
enum TensorFault : u32 { kNoFault, kIndexOutside, kDivisionByZero };
struct TensorStatus {
  u32 launch;  // which told it, counted from 1
  u32 fault;   // TensorFault
  i64 index, extent;
};
// Where a launch tells its faults, and as which. Of null memory nothing is told.
struct FaultReport {
  TensorStatus* status;
  u32 launch;
  u32 unused;
};

// An elementwise computation. The innermost axis of the space counts chunks of elements, one per thread; the last may
// be shorter.
struct MapHead {
  IndexSpace space;
  FaultReport faults;
  u32 length;  // elements of the innermost axis
  u32 unused;
};
struct MapTensor {
  StridedView view;
  i64 step;  // from element to element of a chunk
};
template <int kTensors>
struct MapParams {
  MapHead head;
  MapTensor tensors[kTensors];
};

// A chain of operators, whose text knows extents and strides: threads that have elements, and the tensors.
template <int kTensors>
struct ChainParams {
  u32 threads, unused;
  void* tensors[kTensors];
};

// to[i] = from[i]. An axis with a table reads at table[place] instead of place, or `fill` where that is negative.
struct MoveParams {
  IndexSpace space;
  StridedView from, to;
  const int* tables[kTensorAxes];  // null: places as they are
  u64 fill;                        // eight bytes of equal elements
};

// The change between a tensor of the caller's and one of the network's: the space has the axes of the former's strides.
struct CallerParams {
  const CallerTensor* caller;
  IndexSpace space;
  StridedView own;
};

// Where the axis `down` is contiguous in `to`, and another, `across`, in `from`: a CTA moves tiles of both. The space
// has the other axes, then tiles down, then tiles across, along which strides are 0.
constexpr int kTransposedSide = 64;
struct TransposeParams {
  IndexSpace tiles;
  StridedView from, to;
  i64 from_step, to_step;  // in `from` down, in `to` across
  u32 down, across;        // elements
};

// The same elements, counted row-major in two shapes.
struct ReorderParams {
  IndexSpace from_space, to_space;
  StridedView from, to;
};

// A part of matrices, zero elsewhere.
struct TriangleParams {
  IndexSpace space;
  StridedView from, to;
  i64 diagonal;
  int row_axis, column_axis;  // of the space
  int upper, unused;
};

// to[i] = i, as i64.
struct RangeParams {
  i64* to;
  i64 stride;
  u64 count;
};

// Axes of a tensor whose places are named by a tuple of indices, which lie `step` elements apart.
struct NamedAxes {
  u32 count;
  u32 wide;  // indices are i64, else i32
  i64 step;
  i64 extents[kTensorAxes], strides[kTensorAxes];
  i64 slots[kTensorAxes];  // strides that number the places; scatters only
};

struct GatherParams {
  IndexSpace space;  // of `to`
  StridedView from, indices, to;
  NamedAxes named;  // of `from`
  FaultReport faults;
};

// Updates that replace elements. Of those for one place the last wins: `numbers` counts updates in their order, and
// slots.memory has for each place one more than the largest number that wants it.
struct ScatterParams {
  IndexSpace space;  // of what claims places, or of all updates
  StridedView indices, updates, to, slots, numbers;
  NamedAxes named;  // of `to`
  FaultReport faults;
};
struct ClearParams {
  u32* memory;
  u64 count;
};

// Updates that are joined with elements, in their order: `owners` threads share a line, and each takes the steps for
// its own places, one by one.
struct ScatterLinesParams {
  IndexSpace lines, steps;
  StridedView indices, updates, to;                         // by lines
  i64 index_steps[kTensorAxes], update_steps[kTensorAxes];  // strides by steps
  NamedAxes named;
  FaultReport faults;
  u32 owners, unused;
};

// Elements that become one result. With several parts, each makes a state in `partials`, (results, parts).
struct ReduceParams {
  IndexSpace results, elements;
  StridedView from, to;              // by results
  i64 element_strides[kTensorAxes];  // of `from`
  u32 parts, part_length;            // elements of a part; the last may have fewer
  void* partials;
  double count;  // of elements
};

// Running sums along lines of a tensor.
struct ScanParams {
  IndexSpace lines;
  StridedView from, to;
  i64 from_step, to_step;
  u32 length;
  int exclusive, reverse, unused;
};

// Places of the most extreme elements of lines, in their order.
struct TopParams {
  IndexSpace lines;
  StridedView from, to;
  i64 from_step, to_step;
  u32 length, kept;  // elements of a line; results
  int smallest, unused;
};

// Sums of products: matrices of a batch. Along columns `a` does not move, along rows `b` does not.
struct ProductParams {
  IndexSpace space;  // of `to`
  StridedView a, b, to;
  i64 a_step, b_step;  // along the depth
  u32 depth, unused;
};

// A step of a recurrent layer. States lie in scratch memory, (directions, rows, hidden), as numbers.
struct GateParams {
  int kind, unused;
  double alpha, beta;
};
struct RecurrenceParams {
  StridedView x, weights, extra, lengths, h, c, to;  // of null memory: not given
  void *before, *after;                              // the state
  void *second, *masked;                             // an LSTM's cell, or a GRU's z; what its second product reads
  GateParams functions[6];
  double clip;
  u32 directions, rows, hidden, steps, step;
  int last, reverse, input_forget;
};

// Pooling over windows. Some axes of the space are those of a window, along which `from` and `places` do not move. With
// words of several elements, the innermost axis counts these.
struct WindowAxis {
  int taps, stride, dilation, before, after, extent;  // extent: of `from`
  int of, unused;                                     // the axis of the space; below 0: it has one output
  i64 step, place_step;                               // of `from`, and of its elements' numbers
};
struct WindowParams {
  IndexSpace space;  // of `to`
  StridedView from, to, places;
  WindowAxis window[kTensorAxes];
  int count_pad, unused;
};

// Sums of weighted elements: along some axes output i is made of `taps` from i * taps on. One whose place is below 0
// makes the output `outside`. Weights are of the type that the sums are.
struct ResampleAxis {
  const int* places;
  const void* weights;
  i64 step;  // of `from`, which does not move along the axis otherwise
  int taps, of;
};
struct ResampleParams {
  IndexSpace space;  // of `to`
  StridedView from, to;
  ResampleAxis axis[kTensorAxes];
  float outside;
  int unused;
};

// Images, or volumes, at the places that a grid names.
constexpr int kGridAxes = 3;
struct GridParams {
  IndexSpace space;            // of `to`
  StridedView from, grid, to;  // `from` and `grid`: by image and channel, by image and place
  i64 grid_step, steps[kGridAxes];
  int extents[kGridAxes];  // of `from`
  int axes, nearest, cubic, reflection, zeros, align_corners, unused;
};

// Convolutions of volumes, and their transposes: an output has 1 << lane_bits threads, up to 32.
struct VolumeAxis {
  int taps, stride, dilation, before, extent, of;  // extent: of `from`; of: the axis of the space, below 0: none
  i64 step, tap_step;                              // of `from`, of the filter
};
struct VolumeParams {
  IndexSpace space;  // of `to`
  StridedView from, to;
  const void *filter, *bias;  // bias: dense; may be null
  i64 from_channel, filter_channel, filter_output;
  i64 from_group, filter_group;  // from one group's first channel, or filter, to the next one's
  VolumeAxis axis[3];
  int channel_axis;  // of the space: the output channels; below 0: there is one
  u32 group_channels, group_outputs;
  int transposed;
  u32 lane_bits, unused;
};

}  // namespace unisono
