#pragma once
/// The launches of a network as they are written down, and the scratch memory between them.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "network/cuda/decide/region_plan.hpp"
#include "network/cuda/emit/host_places.hpp"
#include "network/cuda/input.hpp"
#include "network/cuda/step.hpp"

namespace unisono::network::gpu {

/// Moments of a tensor, and where its kernel stores them.
struct StoredMoments {
  TensorMoments moments;
  Location at;
};

/// Where a launch records what is wrong with its data, and under which number.
struct Faults {
  Location status;
  std::uint32_t number = 0;
};

class LaunchList {
 public:
  explicit LaunchList(const PlanningInput& in)
      : plain_source(codegen::plain_source(in.element)), places(in.net().inputs.size() + in.net().outputs.size()) {}

  void add(std::unique_ptr<Step> step, std::size_t region) {
    sequence_.steps.push_back(std::move(step));
    sequence_.region.push_back(region);
  }
  Step& last() { return *sequence_.steps.back(); }

  /// A host step behind all launches so far. A segment begins.
  void add(HostStep step);

  /// Memory until the region's last launch.
  Location scratch(std::size_t bytes);
  void free_scratch() { scratch_used_ = 0; }
  /// Memory until the network's last launch.
  Location kept(std::size_t bytes);
  /// The run's TensorStatus, for the launch that is added next, which may record faults of this operator.
  Faults faults_of(const std::string& where);

  /// All of them, with their order.
  LaunchSequence finish(const plan::Device& device);

  const std::string plain_source;             ///< where the kernels of plain/plain.cuh are
  std::map<TensorId, StoredMoments> moments;  ///< what kernels so far store
  /// By the gradient of a normalisation's input: what images add to those of its scale and shift.
  std::map<TensorId, Location> norm_vectors;
  HostPlaces places;  ///< where the tensors of host steps lie

 private:
  LaunchSequence sequence_;
  std::size_t scratch_used_ = 0;
};

}  // namespace unisono::network::gpu
