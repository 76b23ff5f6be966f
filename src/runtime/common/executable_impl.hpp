#pragma once
/// What stands behind an Executable and a Launch.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "unisono/executable.hpp"

namespace unisono {

class LaunchImpl {
 public:
  virtual ~LaunchImpl() = default;
  virtual void enqueue(Stream stream) const = 0;
  /// For launches that a caller makes; those of a network's plain kernels have no slots and no workspace.
  virtual std::size_t slot(std::string_view name) const;
  virtual void rebind(std::size_t slot, const void* data);
  virtual void rebind(std::size_t slot, double value);
  virtual void use(const WorkspaceMemory& workspace);
  virtual std::size_t workspace_bytes() const { return 0; }
};

class ExecutableImpl {
 public:
  virtual ~ExecutableImpl() = default;
  virtual void run(const Arguments& arguments) const = 0;
  virtual std::string describe() const = 0;
  /// Implemented by backends with streams; the others throw.
  virtual void enqueue(const Arguments& arguments, Stream stream) const;
  virtual std::shared_ptr<LaunchImpl> bind(const Arguments& arguments, const WorkspaceMemory& workspace) const;
  virtual void check_arguments(const Arguments&) const {}
  virtual std::size_t workspace_bytes() const { return 0; }
};

}  // namespace unisono
