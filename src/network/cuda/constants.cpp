#include "network/cuda/constants.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "support/float_convert.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {

namespace {

std::uint16_t rounded(float x, DType element) {
  if (element == DType::bf16) return support::float_to_bf16(x);
  if (element == DType::f16) return support::float_to_f16(x);
  throw InternalError(fmt::format("constants in {}", to_string(element)));
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& numbers) {
  const auto* first = reinterpret_cast<const std::byte*>(numbers.data());
  return {first, first + numbers.size() * sizeof(T)};
}

constexpr std::size_t element_bytes = sizeof(std::uint16_t);  // of what a contraction reads

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

const float* DeviceConstants::floats(TensorId id) const {
  if (network_[id].dtype != DType::f32) throw InternalError(fmt::format("constant '{}' is not f32", network_[id].name));
  return static_cast<const float*>(data_[id].data.get());
}

Location DeviceConstants::made(const std::string& form, std::size_t bytes,
                               std::function<std::vector<std::byte>()> make) {
  auto& constant = made_[form];
  if (!constant) constant = std::make_shared<Constant>(bytes, std::move(make));
  return {Location::Space::constant, 0, constant};
}

Location DeviceConstants::operand(TensorId id, const OperandView& view, const Axes& axes, std::int64_t padded) {
  const float* x = floats(id);
  const std::string form = fmt::format("operand {} {} {} {}x{}x{} {} {} {}", id, to_string(axes), padded, view.images,
                                       view.rows, view.columns, view.image, view.row, view.column);
  const PitchedRows packed = packed_rows(view, axes, padded);
  return made(form, index(packed.rows * packed.pitch) * sizeof(float),
              [=] { return bytes_of(packed_elements(x, view, axes, padded)); });
}

Location DeviceConstants::rows(TensorId id, std::int64_t columns, std::int64_t padded) {
  const float* x = floats(id);
  const auto count = static_cast<std::int64_t>(data_[id].bytes / sizeof(float));
  const std::size_t padded_count =
      count == 0 ? 0 : index(count / columns * padded);  // of no columns there are no elements
  return made(fmt::format("rows {} {} {}", id, columns, padded), padded_count * element_bytes, [=, element = element_] {
    std::vector<std::uint16_t> y(padded_count);
    for (std::int64_t i = 0; i < count; ++i) y[index(i / columns * padded + i % columns)] = rounded(x[i], element);
    return bytes_of(y);
  });
}

Location DeviceConstants::typed(TensorId id) {
  return made(fmt::format("typed {}", id), data_[id].bytes, [data = data_[id]] {
    const auto* first = static_cast<const std::byte*>(data.data.get());
    return std::vector<std::byte>(first, first + data.bytes);
  });
}

Location DeviceConstants::in_order(TensorId id) {
  const std::shared_ptr<const std::vector<float>> x = network_[id].constant;
  return made(fmt::format("in order {}", id), x->size() * sizeof(float), [x] { return bytes_of(*x); });
}

Location DeviceConstants::packed_filter(TensorId id, const Conv2d& padded, std::int64_t filters, std::int64_t channels,
                                        bool product, bool transposed) {
  const float* x = floats(id);
  const std::int64_t taps = padded.r * padded.s, c = padded.c, k = padded.k;
  const std::string form = fmt::format("filter {} {} {} {} {} {}", id, k, taps, c, product, transposed);
  return made(form, index(k * taps * c) * element_bytes, [=, element = element_] {
    std::vector<std::uint16_t> y(index(k * taps * c));
    for (std::int64_t f = 0; f < filters; ++f)
      for (std::int64_t t = 0; t < taps; ++t)
        for (std::int64_t i = 0; i < channels; ++i) {
          const std::int64_t from = product && !transposed ? i * filters + f : (f * taps + t) * channels + i;
          y[index((f * taps + t) * c + i)] = rounded(x[from], element);
        }
    return bytes_of(y);
  });
}

Location DeviceConstants::transposed_filter(TensorId id, const ConvTranspose2d& padded, std::int64_t filters,
                                            std::int64_t channels, bool sums) {
  const float* x = floats(id);
  const std::int64_t taps_h = padded.r, taps_w = padded.s, c = padded.c, k = padded.k;
  // The weight of tap (r, s), channel i, filter f
  const auto value = [=](std::int64_t r, std::int64_t s, std::int64_t i, std::int64_t f) -> double {
    if (!sums) return x[((i * taps_h + r) * taps_w + s) * filters + f];
    double sum = 0;  // the taps of the filter, turned round, that see the same pixel of the small image
    for (const std::int64_t p : {taps_h - 2 - r, taps_h - 1 - r})
      for (const std::int64_t q : {taps_w - 2 - s, taps_w - 1 - s})
        if (p >= 0 && p < taps_h - 1 && q >= 0 && q < taps_w - 1)
          sum += x[((f * (taps_h - 1) + p) * (taps_w - 1) + q) * channels + i];
    return sum;
  };
  const std::string form = fmt::format("transposed {} {}x{} {} {} {}", id, taps_h, taps_w, c, k, sums);
  return made(form, index(c * taps_h * taps_w * k) * element_bytes, [=, element = element_] {
    std::vector<std::uint16_t> y(index(c * taps_h * taps_w * k));
    for (std::int64_t i = 0; i < channels; ++i)
      for (std::int64_t r = 0; r < taps_h; ++r)
        for (std::int64_t s = 0; s < taps_w; ++s)
          for (std::int64_t f = 0; f < filters; ++f)
            y[index(((i * taps_h + r) * taps_w + s) * k + f)] =
                rounded(static_cast<float>(support::round_to(value(r, s, i, f), element)), element);
    return bytes_of(y);
  });
}

Location DeviceConstants::turned(TensorId id, std::int64_t rows) {
  const float* x = floats(id);
  const std::int64_t columns = static_cast<std::int64_t>(data_[id].bytes / sizeof(float)) / rows;
  return made(fmt::format("turned {} {}", id, rows), index(rows * columns) * element_bytes, [=, element = element_] {
    std::vector<std::uint16_t> y(index(rows * columns));
    for (std::int64_t c = 0; c < columns; ++c)
      for (std::int64_t r = 0; r < rows; ++r) y[index(c * rows + r)] = rounded(x[r * columns + c], element);
    return bytes_of(y);
  });
}

Location DeviceConstants::table(const std::vector<int>& numbers) {
  return made(fmt::format("i32 {}", fmt::join(numbers, ",")), numbers.size() * sizeof(numbers[0]),
              [numbers] { return bytes_of(numbers); });
}
Location DeviceConstants::table(const std::vector<std::int64_t>& numbers) {
  return made(fmt::format("i64 {}", fmt::join(numbers, ",")), numbers.size() * sizeof(numbers[0]),
              [numbers] { return bytes_of(numbers); });
}

std::size_t DeviceConstants::bytes() const {
  std::size_t sum = 0;
  for (const auto& [form, constant] : made_) sum += constant->bytes();
  return sum;
}

std::size_t DeviceConstants::planned_bytes() const {
  std::size_t sum = 0;
  for (const auto& [form, constant] : made_) sum += constant->planned_bytes();
  return sum;
}

}  // namespace unisono::network::gpu
