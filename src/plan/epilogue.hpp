#pragma once
/// The shape of an epilogue as a kernel of kernels/coda sees it: what is computed before a normalisation, the
/// normalisation, what is computed after it, and what is stored where.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coda/contraction.hpp"
#include "coda/graph.hpp"

namespace coda::plan {

/// y = (input - mean)·factor + shift, mean and variance of `input` over the pixels of an image and a group of channels,
/// or over the channels of each pixel (per_pixel). The values factor and shift have axes no finer than [b,n] and may
/// read mean, variance and operands; per pixel they have axes [m] or [] and read mean, variance and scalars. Absent: 1
/// and 0.
struct Normalisation {
  ValueId input{};              ///< [m,n]
  std::optional<ValueId> mean;  ///< the reduction nodes in the graph
  std::optional<ValueId> variance;
  std::optional<ValueId> factor, shift;
  ValueId result{};                 ///< y
  std::int64_t group_channels = 0;  ///< channels of a group; per pixel all of them
  bool per_pixel = false;           ///< mean and variance have axes [m]; nothing but y reads them, and x is not kept
};

struct Output {
  std::size_t store{};  ///< index into Graph::stores
  enum class Place : std::uint8_t {
    before,
    after,
    statistics
  } place{};  ///< computed ahead of the normalisation, behind it, or per group
};

/// The result of analysing an optimised graph.
struct Epilogue {
  Graph graph;  ///< after passes::run_pipeline
  std::optional<Normalisation> norm;
  std::vector<Output> outputs;  ///< [m,n] stores: at most two, the main one (written last) first; then those per group
  std::vector<ValueId> uniforms;                       ///< values without axes, in topological order
  std::vector<ValueId> columns_before, columns_after;  ///< column values ([n], [b], [b,n]) that elements read
  std::vector<ValueId> tensors_before, tensors_after;  ///< operands [m,n] that elements read
  bool uses_raw = false;                               ///< `after` reads the normalisation's input itself

  bool side_before() const;  ///< the second [m,n] store is computed ahead of the normalisation
  bool side_after() const;
  bool per_image() const;  ///< what a tile computes depends on its image: tiles must not straddle images
};

/// Throws Unsupported with the value at fault, its text and the reason, if no kernel of kernels/coda serves the graph.
Epilogue analyse(const Graph& optimised, const Extents& extents);

}  // namespace coda::plan
