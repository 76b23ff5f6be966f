#pragma once
/// Compiling one contraction with its epilogue graph, and running it.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coda/contraction.hpp"
#include "coda/graph.hpp"
#include "coda/tensor.hpp"

namespace coda {

enum class Device : std::uint8_t { cpu, cuda };

struct CompileOptions {
  Device device = Device::cpu;
  int threads = 0;  ///< CPU threads; 0: one a core
  /// Storage dtypes of operands that the graph does not declare (by name). Absent: f32, and i32 for the label of
  /// one_hot.
  std::map<std::string, DType> storage = {};
  /// The right operand or filter, if it never changes: packed once at compile time; Arguments::b is then ignored.
  std::optional<ConstTensorView> constant_b = {};
  /// Called with the name of each pass and the graph after it.
  std::function<void(const std::string& pass, const Graph& before, const Graph& after)> on_pass = {};
};

/// What one execution reads and writes. All memory belongs to the caller.
struct Arguments {
  ConstTensorView a;                                     ///< left operand or image
  ConstTensorView b;                                     ///< right operand or filter
  std::map<std::string, ConstTensorView> operands = {};  ///< tensors and scalars by pointer
  std::map<std::string, double> scalars = {};            ///< scalars by value
  std::map<std::string, TensorView> outputs = {};        ///< by the name of the store
};

class ExecutableImpl;

/// A compiled kernel. Immutable and safe to run from several threads at once.
class Executable {
 public:
  explicit Executable(std::shared_ptr<const ExecutableImpl> impl) : impl_(std::move(impl)) {}
  /// Runs to completion. Throws UserError if an argument is missing, unknown, or has another shape or dtype.
  void run(const Arguments& arguments) const;
  /// Which path was taken and why, in a few lines.
  std::string describe() const;

 private:
  std::shared_ptr<const ExecutableImpl> impl_;
};

/// Compiles. Throws UserError for illegal input and Unsupported (with reasons) where no kernel serves.
Executable compile(const Contraction& contraction, const Graph& graph, const CompileOptions& options = {});

}  // namespace coda
