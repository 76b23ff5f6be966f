#pragma once
/// Which earlier launches have touched the bytes that a launch touches.

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "network/cuda/uses.hpp"
#include "network/interval_index.hpp"

namespace unisono::network::gpu {

/// Follows the launches in their order and remembers who read and wrote each byte last. What a later launch has written
/// over is forgotten: whoever meets it meets that launch, which waits for the earlier one.
class Hazards {
 public:
  explicit Hazards(std::span<const Uses> launches);
  ~Hazards();

  /// Launches that the next launch has to wait for, each perhaps several times: with what these wait for themselves
  /// they are all that touch its bytes, of which one writes. Then that launch's own bytes are remembered.
  void next(const Uses& launch, std::vector<std::size_t>& found);

 private:
  struct Space;
  std::map<std::uint8_t, std::unique_ptr<Space>> spaces_;
  std::size_t launch_ = 0;
};

}  // namespace unisono::network::gpu
