#pragma once
/// One of those that a case is timed with.

namespace unisono::bench {

/// What takes turns on the GPU.
class Contender {
 public:
  virtual ~Contender() = default;
  /// Runs once. Returns µs of an execution, between events.
  virtual double time() = 0;
};

}  // namespace unisono::bench
