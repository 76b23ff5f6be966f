#pragma once
/// What stands behind an Executable.

#include <string>

#include "coda/executable.hpp"

namespace coda {

class ExecutableImpl {
 public:
  virtual ~ExecutableImpl() = default;
  virtual void run(const Arguments& arguments) const = 0;
  virtual std::string describe() const = 0;
};

}  // namespace coda
