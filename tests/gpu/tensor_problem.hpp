#pragma once
/// Tensors of any layout for the tests of tensor kernels: their data on the host and on the GPU, and comparisons with
/// what the CPU's operators make of the same.

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "runtime/cpu/ops/tensor.hpp"
#include "tensors/launch.hpp"
#include "tensors/strided.hpp"

namespace unisono::gpu {

using tensors::ElementType;
using tensors::Extents;
using tensors::stored;
using tensors::StridedTensor;

/// A tensor in memory of its own, with gaps between its elements.
struct LaidTensor {
  StridedTensor at;
  std::vector<std::byte> memory;

  /// As the CPU's operators see it where its type in memory is the network's.
  cpu::Strided view();
  /// Its bytes in row-major order.
  std::vector<std::byte> dense() const;
};

/// Where an element lies in memory, by its number in row-major order: bytes.
std::size_t place_of(const LaidTensor& t, std::int64_t number);

/// Row-major, without gaps.
LaidTensor dense_tensor(ElementType type, const Extents& shape);
/// The axes in a random order in memory, with gaps, from an offset on.
LaidTensor random_layout(ElementType type, const Extents& shape, std::mt19937_64& random);
/// As a network on a GPU has them: channels (axis 1) innermost, pixels a multiple of 8 elements apart, aligned.
LaidTensor channels_last(ElementType type, const Extents& shape);

/// The index of an element by its number in row-major order, and the other way.
Extents index_of(std::int64_t number, const Extents& shape);
std::int64_t number_of(const Extents& index, const Extents& shape);

/// An element by its number in row-major order: as a number, and by its bits.
void set_element(LaidTensor& t, std::int64_t number, double value);
void set_bits(LaidTensor& t, std::int64_t number, std::uint64_t bits);
std::uint64_t bits_of(const LaidTensor& t, std::int64_t number);
/// The number that an element of a floating type is.
double real_of(const LaidTensor& t, std::int64_t number);

/// Fills with values of which many are special: the ends of the type and their neighbours, 0, ±1, NaN, infinities,
/// ties.
void fill_with_edges(LaidTensor& t, std::mt19937_64& random, bool with_zero = true);
/// Fills with small numbers: integers in [low, high], and floats between.
void fill_between(LaidTensor& t, std::mt19937_64& random, double low, double high);

/// The same elements in the network's type (of f32 in 16 bits: f32), dense: what the CPU's operators take.
LaidTensor as_valued(const LaidTensor& t);

/// What the launches leave in the tensors, which keep their bytes elsewhere. Checks that nothing else was written, that
/// parameters name no address twice, and that a second run leaves the same bits. `fault`: what the status said, by
/// text_of.
void run_on_gpu(const tensors::Launches& launches, const std::vector<LaidTensor*>& tensors,
                std::string* fault = nullptr);

/// Empty if every element of `got` is that of `expected`, of the same shape and of got's network type: rounded to got's
/// type in memory, within `units` units of its roundoff (or bit for bit, NaN being NaN). Else what differs first.
std::string difference(const LaidTensor& got, const LaidTensor& expected, double units = 0);

}  // namespace unisono::gpu
