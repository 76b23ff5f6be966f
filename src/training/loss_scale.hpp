#pragma once
/// The scale of a loss, on the host.

#include <array>
#include <string>

#include "unisono/dtype.hpp"  // first: its enumerators have the names of the types below
#include "unisono/params/update_params.cuh"
#include "unisono/training.hpp"

namespace unisono::training {

/// GradientOptions::loss_scale, and the inputs that it adds, by UpdateScale::factors. No input of the caller's network
/// may have these names.
inline constexpr const char* loss_scale_name = "loss scale";
inline constexpr std::array<const char*, 2> loss_scale_inputs{"loss scale.loss", "loss scale.network"};
bool is_loss_scale(const std::string& input);

/// Throws UserError, which names the field, for one outside its range.
void check(const LossScaling& s);

UpdateScaling rule_of(const LossScaling& s);

/// What a training begins with, or goes on from after `updates`.
UpdateScale first_scale(const LossScaling& s);
UpdateScale scale_of(const LossScaleState& s, std::int64_t updates);
LossScaleState state_of(const UpdateScale& s);

}  // namespace unisono::training
