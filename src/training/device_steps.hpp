#pragma once
/// Steps of a training on a GPU. Parameters, states, gradients and running statistics stay in its memory; forward,
/// backward, update and metrics are one graph. Inputs of the next step are copied while a step runs.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "network/executable_impl.hpp"
#include "training/device_optimiser.hpp"
#include "unisono/training.hpp"

namespace unisono::training {

/// The options with all parameters and the loss's scale among the inputs that kernels read in place.
NetworkOptions with_weights(NetworkOptions options, const GradientNetwork& gradients);

class DeviceSteps {
 public:
  using Views = std::map<std::string, ConstTensorView>;

  /// `parameters` and `statistics` (mean and variance of each BatchStatistics) stay the host's copies, which upload()
  /// and download() use. Compiles. Throws as compile() does.
  DeviceSteps(const GradientNetwork& gradients, const NetworkOptions& network, const TrainerOptions& options,
              std::vector<LearntParameter>& parameters, const std::vector<Statistic>& statistics);

  /// Begins a step; at most one other is in flight. Inputs in the host's memory have been read when this returns.
  /// Throws UserError as NetworkExecutable::run, and nothing is begun then. DeviceStep::slot is not read.
  void begin(const Views& inputs, DeviceStep step);
  std::size_t in_flight() const { return begun_; }
  /// Launches of a step, once there was one.
  std::size_t launches() const { return lanes_[0].launch->launches() + DeviceOptimiser::update_launches; }
  /// Waits for the step that was begun first of those in flight.
  UpdateResult finish();
  /// After a step failed: forgets what is in flight, so that steps move parameters again. Throws UserError, in the name
  /// of the operator, if the data were at fault.
  void recover();

  /// Times of the network's steps, without an update. Nothing is in flight.
  std::vector<StepTime> profile(const Views& inputs);

  /// Between the host's copies and the GPU, but for the loss's scale. Nothing is in flight.
  void upload() { optimiser_.upload(stream_.get()); }
  void download() { optimiser_.download(); }
  void set_scale(const UpdateScale& scale) { optimiser_.set_scale(scale); }
  ConstTensorView values(std::size_t parameter, bool averaged) const;
  const float* statistic(std::size_t i) const { return optimiser_.statistic(i); }

 private:
  static constexpr std::size_t lanes = DeviceOptimiser::slots;

  /// An input that is no parameter, and where the steps of a lane have it.
  struct Given {
    std::string name;
    const NetworkTensor* tensor = nullptr;
    std::vector<std::int64_t> shape;
    std::optional<ConstTensorView> from;  ///< as the caller gave it last
    ConstTensorView view;                 ///< as that was found to be right
    DType type = DType::f32;              ///< that the launches expect
    std::size_t slot = 0, bytes = 0, offset = 0;
  };
  /// What every other step has for itself. The launches share one workspace.
  struct Lane {
    std::unique_ptr<cuda::PinnedMemory> staging;
    std::unique_ptr<cuda::DeviceBuffer> memory;  ///< holds inputs that the host has
    std::unique_ptr<cuda::Event> ready, done;
    std::shared_ptr<NetworkLaunchImpl> launch;
    std::vector<const void*> places;  ///< where the launch reads each input
  };

  std::vector<std::optional<DirectOrder>> direct_orders() const;
  std::vector<DeviceOrder> device_orders() const;
  std::vector<std::int64_t> strides_of(std::size_t parameter) const;
  /// Fills in `view` of all that is given.
  void check(const Views& inputs);
  void bind();
  void place();
  ConstTensorView parameter_view(std::size_t i) const;
  void add_own_inputs(Views& views) const;
  std::map<std::string, TensorView> outputs() const;
  void give_inputs(Lane& lane);
  void give(const Given& given, const void* place, Lane& lane) const;

  const GradientNetwork& gradients_;
  bool scales_loss_;
  int device_index_;
  std::shared_ptr<NetworkImpl> network_;
  std::vector<LearntParameter>& parameters_;
  std::vector<std::size_t> statistic_counts_;
  std::vector<std::optional<DirectOrder>> orders_;  // by parameter: how kernels read it in place
  std::vector<DeviceOrder> device_orders_;
  cuda::OwnStream stream_, copy_stream_;
  DeviceOptimiser optimiser_;
  std::vector<Given> given_;
  std::array<Lane, lanes> lanes_;
  std::size_t begun_ = 0;      // steps in flight, in the lanes before next_lane_
  std::size_t next_lane_ = 0;  // which the next step takes
};

}  // namespace unisono::training
