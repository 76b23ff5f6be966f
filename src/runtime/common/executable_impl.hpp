#pragma once
/// What stands behind an Executable and a Launch.

#include <memory>
#include <string>

#include "unisono/executable.hpp"

namespace unisono {

class LaunchImpl {
 public:
  virtual ~LaunchImpl() = default;
  virtual void enqueue(Stream stream) const = 0;
};

class ExecutableImpl {
 public:
  virtual ~ExecutableImpl() = default;
  virtual void run(const Arguments& arguments) const = 0;
  virtual std::string describe() const = 0;
  /// Of backends with streams; the others say that they have none.
  virtual void enqueue(const Arguments& arguments, Stream stream) const;
  virtual std::shared_ptr<const LaunchImpl> bind(const Arguments& arguments) const;
};

}  // namespace unisono
