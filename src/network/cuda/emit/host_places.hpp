#pragma once
/// Where the tensors of host steps lie.

#include <array>
#include <cstddef>
#include <map>
#include <vector>

#include "network/cuda/host_step.hpp"

namespace unisono::network::gpu {

/// Steps are written down in their order.
class HostPlaces {
 public:
  /// `rows`: of the table of the caller's tensors, ahead of those of host steps.
  explicit HostPlaces(std::size_t rows) : rows_(rows) {}

  /// Where a tensor lies on the host, for all steps that have it.
  std::size_t offset(TensorId id, std::size_t bytes);
  /// Where kernels and the next step hand a tensor over.
  Staged staged(std::size_t bytes);
  /// The next step is written down.
  void next();
  /// Completes the offsets of Staged, once all steps are there.
  void finish(std::vector<HostStep>& steps) const;

  std::size_t host_bytes() const { return host_bytes_; }
  std::size_t staging_bytes() const { return halves_[0] + halves_[1]; }

 private:
  std::map<TensorId, std::size_t> offsets_;
  std::size_t host_bytes_ = 0, rows_;
  std::size_t step_ = 0, staged_ = 0;  // bytes of the next step
  // Staging memory, of which steps take one half in turn: a segment reads what the step ahead of it has made, and
  // writes what the one behind it reads
  std::array<std::size_t, 2> halves_{};
};

}  // namespace unisono::network::gpu
