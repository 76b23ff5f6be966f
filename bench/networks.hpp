#pragma once
/// The networks of the suites network and diffusion, with random weights; bench/peers/torch_network.py has the same.

#include <map>
#include <string>
#include <vector>

#include "unisono/network.hpp"

namespace unisono::bench {

/// A heatmap U-Net: two Conv3x3 (no bias), GroupNorm, Mish a level; on the way up nearest upsampling, a 1x1
/// convolution, the skip ahead of it in a concatenation; a 1x1 convolution to `classes` heatmaps. Input "image" (batch,
/// inputs, size, size), output "heatmaps".
Network baseline_unet(std::int64_t inputs = 8, const std::vector<std::int64_t>& widths = {64, 128, 256, 512, 1024},
                      std::int64_t classes = 17);

/// Residual blocks as in a diffusion U-Net: two a level on the way down and one on the way up, after a concatenation
/// with the skip; GroupNorm(32) and SiLU ahead of each convolution, a time embedding added between, a 1x1 convolution
/// as shortcut where channels change; strided convolutions down, upsampling and a convolution up. Inputs "x" (batch,
/// widths[0], size, size) and "time" (batch, 4·widths[0]), output "y" of the shape of x.
Network diffusion_stack(const std::vector<std::int64_t>& widths = {320, 640, 1280});

/// A line of a case file: NAME NETWORK KEY=VALUE…, network unet or diffusion, keys batch and size.
struct NetworkCase {
  std::string name, network;
  std::map<std::string, std::int64_t> values;

  Network make() const;
  /// The inputs' shapes, (N,C,H,W).
  std::map<std::string, std::vector<std::int64_t>> shapes() const;
};

/// Cases of a file's text; lines that begin with # are notes. Throws UserError with the line.
std::vector<NetworkCase> parse_network_cases(const std::string& text, const std::string& file);

}  // namespace unisono::bench
