#pragma once
/// Inputs that kernels read where the caller has them: those of NetworkOptions::weights that lie as kernels read them;
/// and outputs that they write there.

#include <set>
#include <string>
#include <vector>

#include "network/cuda/run/workspace.hpp"
#include "network/regions.hpp"

namespace unisono::network::gpu {

/// Throws UserError for names of NetworkOptions::weights that no input has.
void check_weights(const Network& network, const NetworkOptions& options);

/// Whether an input of these sizes may be read so.
bool may_be_direct(const FusedNetwork& fused, std::size_t input, const Sizes& sizes, const NetworkOptions& options);

/// By input: the same of all.
std::vector<bool> may_be_direct(const FusedNetwork& fused, const std::vector<Sizes>& inputs,
                                const NetworkOptions& options);

/// By input: whether this one is, as far as inputs say.
std::vector<bool> direct_inputs(const FusedNetwork& fused, const CallerViews& inputs, const NetworkOptions& options);

/// The type in which kernels read an input.
DType type_of_input(const FusedNetwork& fused, std::size_t input, const NetworkOptions& options);

/// By output: whether it is one of these, is f32 and lies as kernels write it, apart from all inputs. `views`: of
/// inputs and outputs.
std::vector<bool> direct_outputs(const FusedNetwork& fused, const CallerViews& views,
                                 const std::set<std::string>& names, int device_index);

/// The same without those whose memory is an output's, too. `views`: of inputs and outputs.
std::vector<bool> without_written(std::vector<bool> direct, const CallerViews& views);

}  // namespace unisono::network::gpu
