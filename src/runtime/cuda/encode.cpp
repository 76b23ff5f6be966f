#include "runtime/cuda/encode.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstddef>
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
TensorMap encoded(const MapShape& m, const void* base, DType element, const char* what) {
  const auto type = m.element_bytes == 4    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                    : element == DType::f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                            : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const auto rank = static_cast<cuuint32_t>(m.rank);
  CUtensorMap map{};  // by itself: newer toolkits align it to 128 bytes, which a kernel's parameter need not be
  const auto extents = std::to_array<cuuint64_t>({m.extents[0], m.extents[1], m.extents[2], m.extents[3]});
  const auto strides = std::to_array<cuuint64_t>({m.strides[0], m.strides[1], m.strides[2]});
  void* const address = const_cast<void*>(base);
  const CUresult result =
      m.im2col
          ? driver().cuTensorMapEncodeIm2col(&map, type, rank, address, extents.data(), strides.data(), m.lower.data(),
                                             m.upper.data(), m.channels, m.pixels, m.steps.data(),
                                             CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle(m.swizzle_bytes),
                                             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
          : driver().cuTensorMapEncodeTiled(&map, type, rank, address, extents.data(), strides.data(), m.box.data(),
                                            m.steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle(m.swizzle_bytes),
                                            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  TensorMap bytes{};
  std::memcpy(&bytes, &map, sizeof bytes);
  if (result == CUDA_SUCCESS) return bytes;
  check(result, fmt::format("describing {} to TMA ({} of extents {}, strides {}, box {}{})", what,
                            m.im2col ? "im2col" : "tiled", m.extents, m.strides, m.box,
                            m.im2col ? fmt::format(", corners {} to {}, {} channels of {} pixels", m.lower, m.upper,
                                                   m.channels, m.pixels)
                                     : ""));
  return bytes;
}

/// Parameters as they are filled, and where each slot's address went.
class Filling {
 public:
  Filling(Parameters& parameters, std::vector<Site>& sites) : p_(parameters), sites_(sites) {}
  /// What is loaded or stored without a tensor map, in a map's place: a struct that begins with the address.
  template <class T>
  void put(TensorMap& to, const T& what, const Address& base);

 protected:
  void note(const TensorMap& in, std::size_t offset, std::size_t slot, std::size_t ahead, Site::Kind kind);

  Parameters& p_;
  std::vector<Site>& sites_;
};

void Filling::note(const TensorMap& in, std::size_t offset, std::size_t slot, std::size_t ahead, Site::Kind kind) {
  if (slot == no_slot) return;
  const auto place = reinterpret_cast<const std::byte*>(&in) - reinterpret_cast<const std::byte*>(&p_);
  sites_.push_back({slot, static_cast<std::size_t>(place) + offset, ahead, kind});
}

template <class T>
void Filling::put(TensorMap& to, const T& what, const Address& base) {
  static_assert(sizeof what <= sizeof to && std::is_trivially_copyable_v<T> && offsetof(T, memory) == 0);
  static_assert(std::has_unique_object_representations_v<T>, "padding is never written");
  std::memcpy(&to, &what, sizeof what);
  note(to, 0, base.slot, 0, Site::Kind::word);
}

class Encoder : Filling {
 public:
  Encoder(Parameters& parameters, const plan::ConvTask& task, const plan::ConvPlan& plan, const Addresses& at,
          std::vector<Site>& sites)
      : Filling(parameters, sites), task_(task), plan_(plan), at_(at) {}
  void run();

 private:
  void map(TensorMap& to, const MapShape& shape, const Address& base, const char* what, std::uint64_t ahead = 0);
  TensorMap& further(std::size_t i) { return reinterpret_cast<TensorMap&>(p_.fields[i * fields_of_map]); }

  void check_pitches() const;
  void operands();
  void outputs();
  void phases(TensorMap& first, std::size_t place, const MapShape& whole, const Address& base, const char* what);
  void phase(TensorMap& to, int which, const MapShape& whole, const Address& base, const char* what);
  void resampled(const MapShape& output);
  void head();

  const plan::ConvTask& task_;
  const plan::ConvPlan& plan_;
  const Addresses& at_;
};

void Encoder::map(TensorMap& to, const MapShape& shape, const Address& base, const char* what, std::uint64_t ahead) {
  const TensorMap made = encoded(shape, static_cast<const std::byte*>(base.data) + ahead, plan_.config.element, what);
  std::memcpy(&to, &made, sizeof to);
  note(to, 0, base.slot, ahead, Site::Kind::tensor_map);
}

// One of the four phases of an output
void Encoder::phase(TensorMap& to, int which, const MapShape& whole, const Address& base, const char* what) {
  map(to, with_phase(whole, which), base, what, phase_offset(whole, which));
}

// An output by its phases: the first in its place, the others behind ConvParams
void Encoder::phases(TensorMap& first, std::size_t place, const MapShape& whole, const Address& base,
                     const char* what) {
  for (int i = 0; i < 4; ++i)
    phase(i == 0 ? first : further(place + static_cast<std::size_t>(i) - 1), i, whole, base, what);
}

// The four phases of the enlarged tensor; with nothing else to write the first is the output itself
void Encoder::resampled(const MapShape& output) {
  const plan::Resampling& r = plan_.config.resampling;
  std::size_t next = 0;
  for (int i = 0; r.enlarged && i < 4; ++i)
    phase(r.only && i == 0 ? p_.conv.output : further(next++), i, doubled(output, at_.enlarged_pitch), at_.enlarged,
          "the enlarged output");
  if (!r.pooled) return;
  put(further(next),
      PooledOutput{const_cast<void*>(at_.pooled.data),
                   at_.pooled_pitch == 0 ? output.extents[0] : static_cast<std::uint64_t>(at_.pooled_pitch)},
      at_.pooled);
}

// Behind all other maps: where the result lies, the filter, the fields of the head's visitor
void Encoder::head() {
  const plan::ConvConfig& c = plan_.config;
  if (!c.head.any()) return;
  TensorMap& to = further(static_cast<std::size_t>(c.further_maps() - 1));
  const std::size_t behind = sizeof at_.head;
  if (behind + at_.head_fields.size_bytes() > sizeof to)
    throw InternalError(fmt::format("a head with {} operands, which do not fit behind it", at_.head_fields.size()));
  put(to, at_.head, at_.head_memory);
  note(to, offsetof(HeadOutput, filter), at_.head_filter.slot, 0, Site::Kind::word);
  std::memcpy(to.bytes + behind, at_.head_fields.data(), at_.head_fields.size_bytes());
  for (std::size_t i = 0; i < at_.head_field_slots.size(); ++i)
    note(to, behind + i * sizeof(std::uint64_t), at_.head_field_slots[i], 0, Site::Kind::word);
}

bool unfolds_lines_only(const plan::ConvConfig& c) { return c.unfold && !c.unfold->by_pixels(); }
bool stores_plainly(const plan::ConvConfig& c) { return c.stores != plan::Stores::tma; }

void Encoder::check_pitches() const {
  const plan::ConvConfig& c = plan_.config;
  const bool image = (c.gather || unfolds_lines_only(c)) && at_.activation_pitch != 0,
             output = stores_plainly(c) && at_.output_pitch != 0;
  if (!image && !output) return;
  throw Unsupported(fmt::format("the {} was given pixels {} elements apart, and {}: make a dense copy",
                                output ? "output" : "image", output ? at_.output_pitch : at_.activation_pitch,
                                unfolds_lines_only(c)
                                    ? "this kernel, which unfolds whole lines, takes dense tensors"
                                    : "this kernel, which goes without TMA there, takes dense tensors"));
}

void Encoder::operands() {
  MapShapes shapes = map_shapes(task_, plan_);
  const plan::ConvConfig& c = plan_.config;
  const bool whole_lines = c.unfold && c.unfold->by_lines() && at_.activation_pitch == 0;
  if (c.unfold) shapes.activation = window_shape(task_.conv, c, whole_lines);
  const auto apart = [](MapShape& m, std::int64_t step) {  // images, and products' filters, are the last extent
    if (step != 0) m.strides[static_cast<std::size_t>(m.rank) - 2] = static_cast<std::uint64_t>(step) * m.element_bytes;
  };
  apart(shapes.activation, at_.step_a), apart(shapes.filter, at_.step_b);
  TensorMap &image = p_.conv.activation, &filter = p_.conv.filter;
  if (c.gather)
    put(image, gathered_image(task_, at_.activation, at_.step_a), at_.activation);
  else
    map(image, with_pitch(shapes.activation, at_.activation_pitch), at_.activation, "the image");
  if (c.unfold)
    put(filter, UnfoldedFilter{at_.filter, whole_lines, 0}, at_.filter);
  else if (c.gather && c.gather->filters)
    put(filter, gathered_filter(task_, at_.filter, at_.step_b), at_.filter);
  else
    map(filter, shapes.filter, at_.filter, "the filter");
}

void Encoder::outputs() {
  const MapShape dense = map_shapes(task_, plan_).output, output = with_pitch(dense, at_.output_pitch);
  if (plan_.config.phases) {
    if (at_.output.data != nullptr) phases(p_.conv.output, 0, output, at_.output, "the output");
    if (at_.side.data != nullptr) phases(p_.conv.side, 3, dense, at_.side, "the second output");
    return;
  }
  if (at_.output.data != nullptr) map(p_.conv.output, output, at_.output, "the output");
  if (at_.side.data != nullptr) map(p_.conv.side, dense, at_.side, "the second output");
  resampled(dense);
  for (std::size_t i = 0; i < at_.fetched.size(); ++i)
    map(further(static_cast<std::size_t>(plan_.config.resampling.maps()) + i), dense, at_.fetched[i],
        "an operand [m,n]");
  head();
}

void Encoder::run() {
  check_pitches();
  operands();
  if (!stores_plainly(plan_.config)) return outputs();
  put(p_.conv.output, PlainOutput{const_cast<void*>(at_.output.data)}, at_.output);
  put(p_.conv.side, PlainOutput{const_cast<void*>(at_.side.data)}, at_.side);
}

}  // namespace

void encode_maps(Parameters& parameters, const plan::ConvTask& task, const plan::ConvPlan& plan, const Addresses& at,
                 std::vector<Site>& sites) {
  Encoder(parameters, task, plan, at, sites).run();
}

void place_depthwise(Parameters& parameters, const plan::ConvTask& task, const plan::DepthwisePlan& plan,
                     const Addresses& at, std::vector<Site>& sites) {
  Filling filling(parameters, sites);
  ConvParams& params = parameters.conv;
  const auto pitch = static_cast<std::uint64_t>(at.output_pitch == 0 ? task.conv.k : at.output_pitch);
  filling.put(params.activation, depthwise_image(task, plan, at.activation, at.activation_pitch), at.activation);
  filling.put(params.filter, DepthwiseFilter{at.filter}, at.filter);
  filling.put(params.output, PitchedOutput{const_cast<void*>(at.output.data), pitch}, at.output);
}

void move_site(Parameters& parameters, const Site& site, std::uint64_t bits) {
  std::memcpy(reinterpret_cast<std::byte*>(&parameters) + site.offset, &bits, sizeof bits);
}

void move_site(Parameters& parameters, const Site& site, const void* data) {
  const void* const to = static_cast<const std::byte*>(data) + site.ahead;
  if (site.kind == Site::Kind::word) return move_site(parameters, site, reinterpret_cast<std::uintptr_t>(to));
  std::byte* const place = reinterpret_cast<std::byte*>(&parameters) + site.offset;
  CUtensorMap map{};  // by itself, as where it is encoded
  std::memcpy(&map, place, sizeof map);
  check(driver().cuTensorMapReplaceAddress(&map, const_cast<void*>(to)), "moving a tensor map to another address");
  std::memcpy(place, &map, sizeof map);
}

}  // namespace unisono::cuda
