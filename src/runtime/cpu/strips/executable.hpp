#pragma once
/// Running a program: strips to workers, stages in order.

#include <memory>

#include "coda/executable.hpp"
#include "runtime/cpu/strips/accumulator.hpp"

namespace coda {

/// What an Executable stands for.
class ExecutableImpl {
 public:
  virtual ~ExecutableImpl() = default;
  virtual void run(const Arguments& arguments) const = 0;
  virtual std::string describe() const = 0;
};

namespace cpu {

/// Compiles `graph`, which has been through the pipeline, behind a contraction; `written` is
/// the graph before. Throws Unsupported with reasons.
std::shared_ptr<const ExecutableImpl> make_executable(const Contraction& contraction, const Graph& graph,
                                                      const Graph& written, const CompileOptions& options);

}  // namespace cpu
}  // namespace coda
