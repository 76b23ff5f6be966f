#pragma once
/// The peer of products: cuBLASLt with the epilogue that it has, if it has the case's.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bench/data.hpp"
#include "bench/vendor.hpp"

namespace unisono::bench {

/// What cuBLASLt may compute in the same launch.
enum class ProductEpilogue { none, bias_gelu };

/// The epilogue of cuBLASLt that does what the case asks; none too for one that it lacks.
ProductEpilogue epilogue_of(const Case& c);

class Cublaslt {
 public:
  /// Loads libcublasLt (from `folder`, if one is given, else as the linker finds it). Throws UserError that says why
  /// there is none: not found, or not known when this program was built.
  explicit Cublaslt(const std::filesystem::path& folder);
  ~Cublaslt();

  /// "13.1.0"
  std::string version() const;

  /// The algorithms that its heuristic proposes, in its order. `sets` must have the operand "bias" for bias_gelu.
  /// Throws UserError with the status if it has none.
  std::vector<Engine> engines(const Gemm& product, ProductEpilogue epilogue,
                              const std::vector<std::unique_ptr<Data>>& sets);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace unisono::bench
