#pragma once
/// The network once more, with parameters as inputs.

#include <map>
#include <string>
#include <vector>

#include "unisono/gradients.hpp"

namespace unisono::autodiff {

/// A network in a builder.
struct Forward {
  std::vector<NetworkValue> tensors;        ///< in the builder, by the network's tensor
  std::vector<BatchStatistics> statistics;  ///< mean_output and variance_output are outputs already
};

/// Writes the network into the builder: inputs with options.extents for their symbols, `parameters` as inputs of these
/// names, and batch normalisations by the statistics of the batch if options.batch_statistics. Throws UserError where
/// an extent is not known.
Forward write_forward(NetworkBuilder& net, const Network& network, const std::map<TensorId, std::string>& parameters,
                      const GradientOptions& options);

}  // namespace unisono::autodiff
