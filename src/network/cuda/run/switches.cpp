#include "network/cuda/run/switches.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "support/environment.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {

namespace {

bool is_on(std::string_view variable, const std::string& given, bool otherwise) {
  if (given.empty()) return otherwise;
  if (given == "on" || given == "off") return given == "on";
  throw UserError(fmt::format("{} is '{}'; expected on or off", variable, given));
}

}  // namespace

bool with_filters_ahead() { return is_on("UNISONO_FILTERS_AHEAD", support::filters_ahead_wanted(), true); }

AttentionKernels attention_kernels(AttentionKernels asked) {
  if (asked != AttentionKernels::automatic) return asked;
  const std::string given = support::attention_wanted();
  if (given.empty() || given == "auto") return AttentionKernels::automatic;
  if (given == "own") return AttentionKernels::own;
  if (given == "cudnn") return AttentionKernels::cudnn;
  throw UserError(fmt::format("UNISONO_ATTENTION is '{}'; expected own, cudnn or auto", given));
}

}  // namespace unisono::network::gpu
