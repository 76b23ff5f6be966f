#include "network/cuda/memory.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/pieces.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {

namespace {

constexpr std::uint8_t space_of_callers = 1 + static_cast<std::uint8_t>(Location::Space::constant);

}  // namespace

void Constant::load(int device_index) {
  std::call_once(once_, [&] {
    const std::vector<std::byte> bytes = make_();
    if (bytes.size() != planned_bytes_)
      throw InternalError(fmt::format("a constant of {} bytes was planned with {}", bytes.size(), planned_bytes_));
    memory_ = std::make_unique<cuda::DeviceBuffer>(device_index, bytes.data(), bytes.size());
    make_ = {};
  });
}

void* address(const Location& at, const Bases& bases) {
  switch (at.space) {
    case Location::Space::arena: return bases.arena + at.offset;
    case Location::Space::scratch: return bases.scratch + at.offset;
    case Location::Space::kept: return bases.kept + at.offset;
    case Location::Space::callers: return bases.callers + at.offset;
    case Location::Space::given: return static_cast<std::byte*>(bases.given.at(at.position)) + at.offset;
    case Location::Space::constant: return static_cast<std::byte*>(at.constant->data()) + at.offset;
  }
  throw InternalError("an argument lies nowhere");
}

// The caller's tensors lie in a space as if one began a long way behind another
std::size_t place_of(const Location& at) {
  constexpr int far = 44;
  return at.space == Location::Space::given ? at.offset + (at.position << far) : at.offset;
}

Interval interval(const Location& at, std::int64_t rows, std::int64_t width, std::int64_t pitch) {
  Interval x{.space = static_cast<std::uint8_t>(at.space), .begin = place_of(at)};
  const bool dense = pitch == width || rows == 1;
  x.width = static_cast<std::size_t>(dense ? rows * width : width);
  x.rows = static_cast<std::size_t>(dense ? 1 : rows);
  x.pitch = static_cast<std::size_t>(dense ? 0 : pitch);
  return x;
}

Interval all_of(const PitchedTensor& tensor, const Sizes& sizes) {
  const std::int64_t columns = column_count(sizes), size = static_cast<std::int64_t>(size_of(tensor.type));
  const std::int64_t width = tensor.pitch % 8 == 0 ? std::min(tensor.pitch, (columns + 7) / 8 * 8) : columns;
  return interval(tensor.at, element_count(sizes) / std::max<std::int64_t>(columns, 1), width * size,
                  tensor.pitch * size);
}

Interval Argument::memory() const {
  const std::int64_t columns = shape.empty() ? 1 : shape.back(), rows = element_count(shape) / columns;
  const std::int64_t pitch = strides.empty() ? columns : strides[strides.size() - 2];
  const auto size = static_cast<std::int64_t>(size_of(type));
  return interval(at, rows, columns * size, pitch * size);
}

Sizes pitched(const Sizes& shape, std::int64_t pitch) {
  if (shape.back() == pitch) return {};
  Sizes strides(shape.size(), 1);
  for (std::size_t i = shape.size() - 1; i-- > 0;) {
    strides[i] = pitch;
    pitch *= shape[i];
  }
  return strides;
}

bool has_own_axes(std::size_t rank, DType type) { return rank > 4 && codegen::element_code(type) == ElementCode::none; }

Interval callers_tensors(std::size_t count) { return {.space = space_of_callers, .begin = 0, .width = count}; }

Interval callers_tensor(std::size_t position) { return {.space = space_of_callers, .begin = position, .width = 1}; }

}  // namespace unisono::network::gpu
