#pragma once
/// Where the arguments of launches lie: first as a location in one of several spaces, once there is memory as an
/// address.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "network/cuda/uses.hpp"
#include "network/storage.hpp"
#include "runtime/cuda/backend.hpp"
#include "unisono/tensor.hpp"

namespace unisono::network::gpu {

/// Elements in device memory that never change. Packed and copied when they are first needed, shared by all plans.
class Constant {
 public:
  /// `make` gives so many bytes.
  Constant(std::size_t bytes, std::function<std::vector<std::byte>()> make)
      : make_(std::move(make)), planned_bytes_(bytes) {}
  void load(int device_index);
  void* data() const { return memory_->data(); }
  /// Bytes of device memory; 0 before load().
  std::size_t bytes() const { return memory_ ? memory_->bytes() : 0; }
  std::size_t planned_bytes() const { return planned_bytes_; }

 private:
  std::function<std::vector<std::byte>()> make_;
  std::once_flag once_;
  std::unique_ptr<cuda::DeviceBuffer> memory_;
  std::size_t planned_bytes_;
};

/// Where an argument lies, before there is memory.
struct Location {
  /// arena: tensors; scratch: what lives as long as the launches of one region; kept: what one region's launches leave
  /// to another's, beside tensors; callers: the table of the caller's tensors; given: an input of the caller's, which
  /// is read where it lies, or an output, which is written there.
  enum class Space : std::uint8_t { arena, scratch, kept, callers, given, constant } space{};
  std::size_t offset = 0;  ///< bytes
  std::shared_ptr<Constant> constant = {};
  std::size_t position = 0;  ///< given: which input, or behind all inputs which output
};

/// The memory of one execution.
struct Bases {
  std::byte *arena = nullptr, *scratch = nullptr, *kept = nullptr, *callers = nullptr;
  std::byte* workspace = nullptr;  ///< that of the step that is bound: Step::workspace_bytes()
  std::vector<void*> given = {};   ///< by position; null: it is not read or written where it lies
};

void* address(const Location& at, const Bases& bases);

/// Where it begins among the bytes of its space.
std::size_t place_of(const Location& at);

/// The bytes of a tensor of so many rows of `width` bytes, `pitch` bytes apart.
Interval interval(const Location& at, std::int64_t rows, std::int64_t width, std::int64_t pitch);

/// A tensor in memory: rows of pixels `pitch` elements apart.
struct PitchedTensor {
  Location at;
  std::int64_t pitch = 0;
  DType type{};
};

/// The bytes of a tensor of these sizes; where rows begin at octets of columns, they end at such.
Interval all_of(const PitchedTensor& tensor, const Sizes& sizes);

/// An argument of an executable.
struct Argument {
  std::string name;
  Location at;
  DType type{};
  Sizes shape, strides = {};

  TensorView view(const Bases& bases) const { return {address(at, bases), type, shape, strides}; }
  double bytes() const { return static_cast<double>(element_count(shape)) * static_cast<double>(size_of(type)); }
  Interval memory() const;
  /// Whether its rows do not follow one another: a slice of a wider tensor.
  bool is_apart() const { return !strides.empty(); }
};

/// Strides of a tensor whose pixels lie `pitch` elements apart; empty if they lie together.
Sizes pitched(const Sizes& shape, std::int64_t pitch);

/// Whether the strides of a CallerTensor are those of a tensor's own axes: it has more than four, and is of another
/// type than the floats that plain kernels know, which take such tensors as rows.
bool has_own_axes(std::size_t rank, DType type);

/// The table of the caller's tensors, and of those of host steps behind them, as memory. Any of them may be read where
/// any is, for all that is known; each is written by itself.
Interval callers_tensors(std::size_t count);
Interval callers_tensor(std::size_t position);

}  // namespace unisono::network::gpu
