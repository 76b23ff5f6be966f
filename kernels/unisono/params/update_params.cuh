// Parameters of the kernels of update/, which move the parameters of a training. Plain structs, the same to the host's
// compiler.
#pragma once
#include "unisono/params/tensor_params.cuh"

namespace unisono {

// Values, gradients, states and averages of all parameters are arrays of the same layout, the one that kernels read and
// write (channels last). Each tensor begins at a multiple of kUpdatePad elements; the gaps between tensors are unused.
constexpr u32 kUpdatePad = 128, kUpdatePart = 4096;
// Partial sums of the norm. Neighbouring parts share a bucket; the numbers of parts in two buckets differ by at most
// one.
constexpr u32 kUpdateBuckets = 1024;

struct UpdateTensor {
  u64 first;     // its place in the arrays
  u16* rounded;  // where kernels read it in 16 bits; null: nowhere
  u32 group;     // of UpdateParams::rates
  u32 is_f16;    // these, instead of bf16
};
struct UpdatePart {
  u64 first;     // a multiple of 4
  u32 count;     // at most kUpdatePart
  u32 tensor;    // unused by parts of statistics
  float factor;  // of statistics: multiplies the batch's
  u32 unused;
};

// Told by the host for each step. If a step in flight may be skipped, the host does not know yet whether this update
// has the number `update` or the next one, so it gives the values for both.
constexpr u32 kUpdateChoices = 2;
struct UpdateStep {
  float root[kUpdateChoices];  // adamw: the square root of 1 - beta2^update
  u64 update;                  // from 1
  u32 is_update;               // otherwise gradients are only added up
  u32 slot;                    // of UpdateParams::results
};
// adamw: what decay leaves of a value, and the rate over 1 - beta1^update. sgd: the decay, and the rate.
struct UpdateRates {
  float decay, rate;
};

// Loss scaling: gradients come multiplied by `scale`.
struct UpdateScale {
  float scale;
  float factors[2];   // whose product it is: what the network reads
  u32 good;           // updates in a row since it changed
  u32 is_spoilt;      // a gradient of the update that is being accumulated was not finite
  u32 unused;         // no bytes without a value
  u64 made, skipped;  // updates
};
struct UpdateScaling {
  double growth, backoff;
  u32 interval, unused;
};

constexpr float kLeastScale = 1.f / 16384;
// What gradients are multiplied by, as torch.amp.GradScaler has it
constexpr float inverse_of(const UpdateScale& s) { return float(1. / s.scale); }
// Whether a step moves nothing. `is_finite`: the loss and all gradients, also those that an update is made from
constexpr bool is_skipped(const UpdateScale& s, bool is_finite, bool is_update) {
  return !is_finite || (is_update && s.is_spoilt != 0);
}
// The first is a power of two, so that the product is exact, and neither is far from the root
constexpr UpdateScale with_scale(UpdateScale s, float scale) {
  float root = 1;
  while (4 * root * root <= scale) root *= 2;
  while (root * root > scale) root /= 2;
  s.scale = scale, s.factors[0] = root, s.factors[1] = scale / root;
  return s;
}
constexpr float backed_off(const UpdateScale& s, const UpdateScaling& rule) { return float(s.scale * rule.backoff); }
constexpr UpdateScale after_step(UpdateScale s, const UpdateScaling& rule, bool skipped, bool is_update) {
  if (!is_update) {
    if (skipped) s.is_spoilt = 1;
    return s;
  }
  if (skipped) {
    s.good = 0, s.is_spoilt = 0, ++s.skipped;
    return with_scale(s, backed_off(s, rule));
  }
  ++s.made;
  if (++s.good < rule.interval) return s;
  s.good = 0;
  const float grown = float(s.scale * rule.growth);
  return grown - grown == 0 ? with_scale(s, grown) : s;
}

// The outcome of a step, for the host. kFailed: the loss or a gradient is not finite, or a kernel recorded a fault.
// kVoid: an earlier step failed. Both leave everything unchanged. kSkipped: with loss scaling, the loss or a gradient
// is not finite; only the scale changes.
enum UpdateOutcome : u32 { kMoved = 1, kFailed, kVoid, kSkipped };
struct UpdateResult {
  double own_norm;  // of the step's gradients
  double norm;      // of those that the update is made from, before clipping
  float loss;
  u32 outcome;        // UpdateOutcome
  UpdateScale scale;  // after the step
};

// The numbers of an optimiser, as float where the CPU has it so.
struct UpdateNumbers {
  float beta1_rest, beta2, beta2_rest, eps;  // adamw
  float momentum;                            // sgd
  u32 nesterov;
  float average, average_rest;
  float accumulated;  // steps of an update
  float statistics;   // a step's part in running statistics
  double clip;        // the largest norm; 0: any
};

struct UpdateParams {
  float* values;
  const float* gradients;
  float *first, *second, *average, *accumulated;  // null: the optimiser has none
  float* statistics;                              // those of batch normalisations, in arrays like the others
  const float* batch_statistics;
  const UpdateTensor* tensors;
  const UpdatePart *parts, *statistic_parts;
  const u32* told;           // in the host's memory: the step, then the rates
  UpdateStep* step;          // these in the GPU's memory; the first CTA of the norm copies them
  const UpdateRates* rates;  // kUpdateChoices a group
  const float* loss;
  const TensorStatus* status;  // of the launches that made the gradients; null: they record no faults
  u32* failed;                 // nonzero once a step has failed
  double* sums;                // by bucket: squares of the step's gradients, and of the update's
  UpdateResult* results;
  const UpdateScale* scale;  // null: there is no loss scaling
  UpdateScale* next_scale;   // which the next step begins with
  UpdateNumbers numbers;
  UpdateScaling scaling;
  u32 part_count, statistic_part_count, buckets, told_words;
};

}  // namespace unisono
