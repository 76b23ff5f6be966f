#include "training/loss_scale.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/error.hpp"

namespace unisono::training {

namespace {

void expect_scaling(const char* name, double x, bool holds, const char* expected) {
  if (!holds) throw UserError(fmt::format("loss_scaling: {} is {}; expected {}", name, x, expected));
}

}  // namespace

bool is_loss_scale(const std::string& input) {
  return std::ranges::find(loss_scale_inputs, input) != loss_scale_inputs.end();
}

void check(const LossScaling& s) {
  const double most = 0x1p100;  // far from where f32 ends
  expect_scaling("initial", s.initial, s.initial >= kLeastScale && s.initial <= most, "a number from 2^-14 to 2^100");
  expect_scaling("growth", s.growth, s.growth > 1 && s.growth <= most, "a number above 1, up to 2^100");
  expect_scaling("backoff", s.backoff, s.backoff > 0 && s.backoff < 1, "a number between 0 and 1");
  expect_scaling("interval", s.interval, s.interval >= 1, "an integer of at least 1");
}

UpdateScaling rule_of(const LossScaling& s) {
  return {.growth = s.growth, .backoff = s.backoff, .interval = static_cast<u32>(s.interval), .unused = 0};
}

UpdateScale first_scale(const LossScaling& s) { return scale_of({.scale = s.initial}, 0); }

UpdateScale scale_of(const LossScaleState& s, std::int64_t updates) {
  const UpdateScale counts{.scale = 0,
                           .factors = {},
                           .good = static_cast<u32>(s.good),
                           .is_spoilt = s.spoilt ? 1u : 0u,
                           .unused = 0,
                           .made = static_cast<u64>(updates),
                           .skipped = static_cast<u64>(s.skipped)};
  return with_scale(counts, static_cast<float>(s.scale));
}

LossScaleState state_of(const UpdateScale& s) {
  return {
      .scale = s.scale, .good = s.good, .skipped = static_cast<std::int64_t>(s.skipped), .spoilt = s.is_spoilt != 0};
}

}  // namespace unisono::training
