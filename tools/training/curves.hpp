#pragma once
/// The picture of a training: losses by step.

#include <string>
#include <vector>

#include "media/image.hpp"
#include "training/log.hpp"

namespace unisono::training {

/// The training's loss as a line and validation as a line with dots, over a logarithmic axis where all are positive.
media::Image draw_curves(const std::vector<LogLine>& lines, const std::string& title);

}  // namespace unisono::training
