#include "runtime/cuda/encode.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstring>
#include <type_traits>

#include "runtime/cuda/driver.hpp"
#include "runtime/cuda/parameters.hpp"
#include "runtime/cuda/tensor_maps.hpp"
#include "unisono/error.hpp"

namespace unisono::cuda {

namespace {

static_assert(sizeof(CUtensorMap) == sizeof(TensorMap));

CUtensorMapSwizzle swizzle(int row_bytes) {
  return row_bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
         : row_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
         : row_bytes == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                           : CU_TENSOR_MAP_SWIZZLE_NONE;
}

// The bytes are never interpreted but for the filling of what lies outside, which is zero in any type. f32 stays as it
// is: the tensor cores cut it off.
void encode(TensorMap& map, const MapShape& m, const void* base, DType element, const char* what) {
  const auto type = m.element_bytes == 4    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                    : element == DType::f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                            : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const auto rank = static_cast<cuuint32_t>(m.rank);
  CUtensorMap encoded{};  // by itself: newer toolkits align it to 128 bytes, which a kernel's parameter need not be
  const auto extents = std::to_array<cuuint64_t>({m.extents[0], m.extents[1], m.extents[2], m.extents[3]});
  const auto strides = std::to_array<cuuint64_t>({m.strides[0], m.strides[1], m.strides[2]});
  void* const address = const_cast<void*>(base);
  const CUresult result =
      m.im2col
          ? driver().cuTensorMapEncodeIm2col(&encoded, type, rank, address, extents.data(), strides.data(),
                                             m.lower.data(), m.upper.data(), m.channels, m.pixels, m.steps.data(),
                                             CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle(m.swizzle_bytes),
                                             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
          : driver().cuTensorMapEncodeTiled(&encoded, type, rank, address, extents.data(), strides.data(), m.box.data(),
                                            m.steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle(m.swizzle_bytes),
                                            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS) return static_cast<void>(std::memcpy(&map, &encoded, sizeof map));
  check(result, fmt::format("describing {} to the copy engine ({} of extents {}, strides {}, box {}{})", what,
                            m.im2col ? "im2col" : "tiled", m.extents, m.strides, m.box,
                            m.im2col ? fmt::format(", corners {} to {}, {} channels of {} pixels", m.lower, m.upper,
                                                   m.channels, m.pixels)
                                     : ""));
}

// Puts what is loaded or stored without a map in the map's place
template <class T>
void put(TensorMap& map, const T& what) {
  static_assert(sizeof what <= sizeof map && std::is_trivially_copyable_v<T>);
  std::memcpy(&map, &what, sizeof what);
}

// The map of one of four phases
TensorMap phase_map(const MapShape& whole, int phase, const void* base, DType element, const char* what) {
  TensorMap map{};
  encode(map, with_phase(whole, phase), static_cast<const std::byte*>(base) + phase_offset(whole, phase), element,
         what);
  return map;
}

// An output by its phases: the first in its place, the others behind ConvParams
void encode_phases(TensorMap& first, Parameters& p, std::size_t place, const MapShape& whole, const void* base,
                   DType element, const char* what) {
  first = phase_map(whole, 0, base, element, what);
  for (int phase = 1; phase < 4; ++phase)
    p.set_further(place + static_cast<std::size_t>(phase) - 1, phase_map(whole, phase, base, element, what));
}

// The four phases of the enlarged tensor; with nothing else to write the first is the output itself
void encode_resampled(Parameters& p, const plan::ConvPlan& plan, const MapShape& output, const Addresses& at) {
  const plan::Resampling& r = plan.config.resampling;
  std::size_t next = 0;
  for (int phase = 0; r.enlarged && phase < 4; ++phase) {
    const TensorMap map =
        phase_map(doubled(output, at.enlarged_pitch), phase, at.enlarged, plan.config.element, "the enlarged output");
    if (r.only && phase == 0)
      p.conv.output = map;
    else
      p.set_further(next++, map);
  }
  if (!r.pooled) return;
  TensorMap pooled{};
  put(pooled, PooledOutput{const_cast<void*>(at.pooled),
                           at.pooled_pitch == 0 ? output.extents[0] : static_cast<std::uint64_t>(at.pooled_pitch)});
  p.set_further(next, pooled);
}

// Behind all other maps: where the result lies, the filter, the fields of the head's visitor
void encode_head(Parameters& p, const plan::ConvPlan& plan, const Addresses& at) {
  const plan::ConvConfig& c = plan.config;
  if (!c.head.any()) return;
  TensorMap map{};
  if (sizeof at.head + at.head_fields.size_bytes() > sizeof map)
    throw InternalError(fmt::format("a head with {} operands, which do not fit behind it", at.head_fields.size()));
  put(map, at.head);
  std::memcpy(map.bytes + sizeof at.head, at.head_fields.data(), at.head_fields.size_bytes());
  p.set_further(static_cast<std::size_t>(c.further_maps() - 1), map);
}

}  // namespace

void encode_maps(Parameters& parameters, const plan::ConvTask& task, const plan::ConvPlan& plan, const Addresses& at) {
  ConvParams& params = parameters.conv;
  if (plan.config.depthwise) {
    put(params.activation, depthwise_image(task, plan, at.activation, at.activation_pitch));
    put(params.filter, DepthwiseFilter{at.filter});
    put(params.output, PitchedOutput{const_cast<void*>(at.output),
                                     static_cast<std::uint64_t>(at.output_pitch == 0 ? task.conv.k : at.output_pitch)});
    return;
  }
  MapShapes shapes = map_shapes(task, plan);
  const auto& unfold = plan.config.unfold;
  const bool lines_only = unfold && !unfold->by_pixels(),
             whole_lines = unfold && unfold->by_lines() && at.activation_pitch == 0;
  if (unfold) shapes.activation = window_shape(task.conv, plan.config, whole_lines);
  const auto apart = [](MapShape& m, std::int64_t step) {  // images, and products' filters, are the last extent
    if (step != 0) m.strides[static_cast<std::size_t>(m.rank) - 2] = static_cast<std::uint64_t>(step) * m.element_bytes;
  };
  apart(shapes.activation, at.step_a), apart(shapes.filter, at.step_b);
  const DType element = plan.config.element;
  const bool plain_stores = plan.config.stores != plan::Stores::copy_engine;
  if (((plan.config.gather || lines_only) && at.activation_pitch != 0) || (plain_stores && at.output_pitch != 0))
    throw Unsupported(fmt::format("the {} was given pixels {} elements apart, and {}: make a dense copy",
                                  plain_stores && at.output_pitch != 0 ? "output" : "image",
                                  plain_stores && at.output_pitch != 0 ? at.output_pitch : at.activation_pitch,
                                  lines_only
                                      ? "this kernel, which unfolds whole lines, takes dense tensors"
                                      : "this kernel, which goes without the copy engine there, takes dense tensors"));
  if (plan.config.gather)
    put(params.activation, gathered_image(task, at.activation, at.step_a));
  else
    encode(params.activation, with_pitch(shapes.activation, at.activation_pitch), at.activation, element, "the image");
  if (unfold)
    put(params.filter, UnfoldedFilter{at.filter, whole_lines});
  else if (plan.config.gather && plan.config.gather->filters)
    put(params.filter, gathered_filter(task, at.filter, at.step_b));
  else
    encode(params.filter, shapes.filter, at.filter, element, "the filter");
  if (plain_stores) {
    put(params.output, PlainOutput{const_cast<void*>(at.output)});
    put(params.side, PlainOutput{const_cast<void*>(at.side)});
    return;
  }
  const MapShape output = with_pitch(shapes.output, at.output_pitch);
  if (plan.config.phases) {
    if (at.output != nullptr) encode_phases(params.output, parameters, 0, output, at.output, element, "the output");
    if (at.side != nullptr)
      encode_phases(params.side, parameters, 3, shapes.output, at.side, element, "the second output");
    return;
  }
  if (at.output != nullptr) encode(params.output, output, at.output, element, "the output");
  if (at.side != nullptr) encode(params.side, shapes.output, at.side, element, "the second output");
  encode_resampled(parameters, plan, shapes.output, at);
  for (std::size_t i = 0; i < at.fetched.size(); ++i) {
    TensorMap map{};
    encode(map, shapes.output, at.fetched[i], element, "an operand [m,n]");
    parameters.set_further(static_cast<std::size_t>(plan.config.resampling.maps()) + i, map);
  }
  encode_head(parameters, plan, at);
}

}  // namespace unisono::cuda
