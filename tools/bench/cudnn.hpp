#pragma once
/// The peer of bare convolutions and their gradients: cuDNN through its backend interface, without bias.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bench/data.hpp"
#include "bench/vendor.hpp"

namespace unisono::bench {

/// The convolution, or its gradient with respect to the image or the filter.
enum class Direction : std::uint8_t { forward, dgrad, wgrad };

class Cudnn {
 public:
  /// Loads libcudnn.so.9 (from `folder`, if one is given, else as the linker finds it). Throws UserError that says why
  /// there is none: not found, or not known when this program was built.
  explicit Cudnn(const std::filesystem::path& folder);
  ~Cudnn();

  /// "9.19.0"
  std::string version() const;

  /// The engines that cuDNN proposes for this convolution, or for a gradient of it, in its order.
  /// Throws UserError with cuDNN's error if it has none.
  std::vector<Engine> engines(const Conv2d& conv, Direction direction, const std::vector<std::unique_ptr<Data>>& sets);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace unisono::bench
