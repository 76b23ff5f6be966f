// Parameters of the kernels of update/, which move the parameters of a training. Plain structs, the same to the host's
// compiler.
#pragma once
#include "unisono/params/tensor_params.cuh"

namespace unisono {

// Values, gradients, states and averages of all parameters lie in arrays with the same order, that in which kernels
// read and write them (channels last): a tensor begins at a multiple of kUpdatePad elements, and what is between two
// tensors is nobody's.
constexpr u32 kUpdatePad = 128, kUpdatePart = 4096;
// Partial sums of the norm: a bucket has as many neighbouring parts as the others, give or take one.
constexpr u32 kUpdateBuckets = 1024;

struct UpdateTensor {
  u64 first;     // its place in the arrays
  u16* rounded;  // where kernels read it in bf16; null: nowhere
  u32 group;     // of UpdateParams::rates
  u32 unused;
};
struct UpdatePart {
  u64 first;     // a multiple of 4
  u32 count;     // at most kUpdatePart
  u32 tensor;    // of statistics: none
  float factor;  // of statistics: of the batch's
  u32 unused;
};

// What the host says of a step.
struct UpdateStep {
  float root;     // adamw: the square root of 1 - beta2^update
  u32 is_first;   // of all updates
  u32 is_update;  // otherwise gradients are only added up
  u32 slot;       // of UpdateParams::results
};
// adamw: what decay leaves of a value, and the rate over 1 - beta1^update. sgd: the decay, and the rate.
struct UpdateRates {
  float decay, rate;
};

// What the host is told. kFailed: the loss or a gradient is not finite, or a kernel recorded a fault. kVoid: a step
// ahead has failed. Either leaves everything as it was.
enum UpdateOutcome : u32 { kMoved = 1, kFailed, kVoid };
struct UpdateResult {
  double own_norm;  // of the step's gradients
  double norm;      // of those that the update is made from, before clipping
  float loss;
  u32 outcome;  // UpdateOutcome
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
  const UpdateStep* step;
  const UpdateRates* rates;
  const float* loss;
  const TensorStatus* status;  // of the launches that made the gradients; null: they record no faults
  u32* failed;                 // a step ahead has
  double* sums;                // by bucket: squares of the step's gradients, and of the update's
  UpdateResult* results;
  UpdateNumbers numbers;
  u32 part_count, statistic_part_count, buckets, unused;
};

}  // namespace unisono
