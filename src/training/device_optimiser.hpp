#pragma once
/// An optimiser on a GPU: parameters with their states in its memory, and the launches that move them
/// (kernels/unisono/update/). As update() on the CPU, but for the order in which the norm is added up.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cuda/backend.hpp"
#include "runtime/cuda/plain.hpp"
#include "runtime/cuda/stream.hpp"
#include "training/loss_scale.hpp"
#include "training/optimiser.hpp"
#include "unisono/dtype.hpp"  // first: its enumerators have the names of the types below
#include "unisono/executable.hpp"
#include "unisono/params/update_params.cuh"

namespace unisono::training {

/// How a parameter of axes (filter, channel, tap) lies on the GPU: channels last.
struct DeviceOrder {
  std::size_t channels = 1, taps = 1;
  bool is_rounded = false;  ///< kernels read a copy in 16 bits
  bool is_f16 = false;      ///< these, instead of bf16
};

/// A running statistic, and the factor of the batch's.
struct Statistic {
  std::vector<float>* values = nullptr;
  float factor = 1;
};

/// What the host says of a step.
struct DeviceStep {
  double learning_rate = 0;
  /// That it makes, or is a part of, from 1. With loss scaling it may turn out to be the one behind it.
  std::int64_t update = 1;
  bool is_update = true;   ///< otherwise gradients are accumulated
  std::uint32_t slot = 0;  ///< where its result is written
};

class DeviceOptimiser {
 public:
  static constexpr std::uint32_t slots = 2;
  static constexpr std::size_t update_launches = 2;

  /// `parameters` and `statistics` stay the host's copies, which upload() and download() use. `orders`: by parameter.
  /// Compiles the kernels. Throws DeviceError, CompileError.
  DeviceOptimiser(int device_index, const Optimiser& o, const std::optional<LossScaling>& scaling,
                  double statistics_momentum, std::vector<LearntParameter>& parameters, std::vector<DeviceOrder> orders,
                  std::vector<Statistic> statistics);

  // In the GPU's memory
  float* values(std::size_t parameter) const { return floats(values_, firsts_[parameter]); }
  float* gradient(std::size_t parameter) const { return floats(gradients_, firsts_[parameter]); }
  float* average(std::size_t parameter) const { return floats(average_, firsts_[parameter]); }
  void* rounded(std::size_t parameter) const {
    return static_cast<std::uint16_t*>(rounded_->data()) + firsts_[parameter];
  }
  float* statistic(std::size_t i) const { return floats(statistics_, statistic_firsts_[i]); }
  float* batch_statistic(std::size_t i) const { return floats(batch_statistics_, statistic_firsts_[i]); }
  float* loss() const { return static_cast<float*>(loss_->data()); }
  const UpdateScale* loss_scale() const { return static_cast<const UpdateScale*>(scale_->data()); }

  /// Behind what writes gradients, statistics and loss. `status`: the TensorStatus of that, or null.
  /// Those of one slot.
  std::vector<Launch> launches(const void* status, std::uint32_t slot) const;
  /// For the launches of the step's slot, none of which is in flight.
  void prepare(const DeviceStep& step, Stream stream);
  /// What the launches said, once they have run.
  const UpdateResult& result(std::uint32_t slot) const;
  /// Steps may move parameters again after one that failed.
  void forget_failure(Stream stream);

  /// For the next step. Complete on return.
  void set_scale(const UpdateScale& scale);

  /// All values and states but the loss's scale, between the host's and the GPU's memory. Nothing is in flight, and the
  /// copies are complete on return, but for those in 16 bits, which are made on the stream.
  void upload(Stream stream);
  void download();
  /// Values of a parameter in the order in which they lie on the GPU.
  std::vector<float> in_order(std::size_t parameter, const std::vector<float>& values) const;

 private:
  using Buffer = std::unique_ptr<cuda::DeviceBuffer>;
  static float* floats(const Buffer& buffer, std::uint64_t first) {
    return buffer == nullptr ? nullptr : static_cast<float*>(buffer->data()) + first;
  }
  void place();
  void place_statistics();
  void load_kernels();
  UpdateParams parameters_of_launch(const void* status, std::uint32_t slot) const;
  std::byte* told(std::uint32_t slot) const { return told_->data() + slot * step_->bytes(); }
  Launch launch(const std::string& entry, std::uint32_t ctas, const UpdateParams& p) const;
  /// The place on the GPU of an element of a parameter.
  std::size_t place_of(std::size_t parameter, std::size_t element) const;
  /// Calls f(array on the GPU, the same of each tensor on the host, places of these, whether these are parameters).
  template <class F>
  void for_arrays(const F& f);

  int device_index_;
  Optimiser options_;
  std::optional<LossScaling> scaling_;
  double statistics_momentum_;
  std::vector<LearntParameter>& parameters_;
  std::vector<DeviceOrder> orders_;
  std::vector<Statistic> running_;
  std::vector<std::uint64_t> firsts_, statistic_firsts_;
  struct Group {
    double weight_decay = 0, learning_rate = 1;
    bool operator==(const Group&) const = default;
  };
  std::uint32_t group_of(const LearntParameter& p);

  std::vector<Group> groups_;  // those of the parameters, each once
  std::uint32_t parts_ = 0, statistic_parts_ = 0;
  std::map<std::string, std::shared_ptr<const cuda::PlainKernel>> kernels_;  // by entry
  Buffer values_, gradients_, first_, second_, average_, accumulated_, rounded_, statistics_, batch_statistics_;
  Buffer tensors_table_, parts_table_, statistic_parts_table_, step_, sums_, loss_, failed_, scale_, next_scale_;
  std::optional<cuda::PinnedMemory> told_, results_;
};

}  // namespace unisono::training
