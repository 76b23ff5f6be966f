#pragma once
/// A network's constants in the forms that kernels read.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "network/cuda/memory.hpp"
#include "network/operand_view.hpp"
#include "network/steps.hpp"
#include "unisono/contraction.hpp"
#include "unisono/network.hpp"

namespace unisono::network::gpu {

/// Makes each form of a constant once, however many plans ask for it. Not safe for several threads at once.
class DeviceConstants {
 public:
  /// `data` are the constants in the network's own order of memory; both must outlive this.
  DeviceConstants(const Network& network, const Constants& data, DType element)
      : network_(network), data_(data), element_(element) {}

  /// The rows and columns of an operand, f32, each row padded with zeros to `padded` columns: packed_elements().
  Location operand(TensorId id, const OperandView& view, const Axes& axes, std::int64_t padded);
  /// Rows of `columns` 16-bit elements, padded with zeros to `padded`.
  Location rows(TensorId id, std::int64_t columns, std::int64_t padded);
  /// The elements as they are, of any dtype, densely in the network's own order of memory.
  Location typed(TensorId id);
  /// The elements in the order of the tensor's axes, f32.
  Location in_order(TensorId id);
  /// The filter of a convolution or product of the tensor cores: (k, taps, c), of which the tensor has (filters, taps,
  /// channels) and the rest is zero. A product's constant is (channels, filters) unless `transposed`.
  Location packed_filter(TensorId id, const Conv2d& padded, std::int64_t filters, std::int64_t channels, bool product,
                         bool transposed);
  /// The filter of a transposed convolution of the tensor cores: (c, r, s, k), of which the tensor has (channels, r, s,
  /// filters) and the rest is zero. `sums`: the tensor is the filter (filters, r - 1, s - 1, channels) of the
  /// convolution that it computes of the upsampled image; up to four of its taps are added in float64 and rounded once.
  Location transposed_filter(TensorId id, const ConvTranspose2d& padded, std::int64_t filters, std::int64_t channels,
                             bool sums);
  /// The columns of a matrix of so many rows, densely, in 16 bits.
  Location turned(TensorId id, std::int64_t rows);
  /// Numbers that are no tensor of the network.
  Location table(const std::vector<int>& numbers);
  Location table(const std::vector<std::int64_t>& numbers);

  /// Device memory of those that are loaded.
  std::size_t bytes() const;
  /// The same of all that were asked for, once they are loaded.
  std::size_t planned_bytes() const;

 private:
  Location made(const std::string& form, std::size_t bytes, std::function<std::vector<std::byte>()> make);
  const float* floats(TensorId id) const;

  const Network& network_;
  const Constants& data_;
  DType element_;
  std::map<std::string, std::shared_ptr<Constant>> made_;
};

}  // namespace unisono::network::gpu
