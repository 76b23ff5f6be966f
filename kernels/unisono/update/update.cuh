// All parameters of a training, and running statistics of batch normalisations, are moved by one launch, as
// src/training/optimiser.cpp does on the CPU.
#pragma once
#include "unisono/update/norm.cuh"

namespace unisono::update {

// The values of UpdateStep for the number that the update turns out to have.
struct UpdateChoice {
  u32 index;  // of kUpdateChoices
  float root;
  bool is_first;
};
UNISONO_DEVICE UpdateChoice choice_of(const UpdateParams& p, const UpdateStep& step) {
  const u32 index = p.scale == nullptr ? 0 : u32(p.scale->made + 1 - step.update);
  return {index, index == 0 ? step.root[0] : step.root[1], step.update + index == 1};
}

struct Adamw {
  // One element: its moments move, too.
  static UNISONO_DEVICE float moved(float value, float g, float& m, float& v, const UpdateParams& p,
                                    const UpdateChoice& step, const UpdateRates& rates) {
    const UpdateNumbers& n = p.numbers;
    m += n.beta1_rest * (g - m);
    v = v * n.beta2 + n.beta2_rest * g * g;
    return value * rates.decay - rates.rate * m / (sqrtf(v) / step.root + n.eps);
  }
};

struct Sgd {
  static UNISONO_DEVICE float moved(float value, float gradient, float& buffer, float&, const UpdateParams& p,
                                    const UpdateChoice& step, const UpdateRates& rates) {
    const UpdateNumbers& n = p.numbers;
    float g = gradient + rates.decay * value;
    if (p.first != nullptr) {
      buffer = step.is_first ? g : n.momentum * buffer + g;
      g = n.nesterov ? g + n.momentum * buffer : buffer;
    }
    return value - rates.rate * g;
  }
};

UNISONO_DEVICE Four load_if(const float* array, u64 at) { return array == nullptr ? Four{} : load_four(array + at); }
UNISONO_DEVICE void store_if(float* array, u64 at, const Four& x) {
  if (array != nullptr) store_four(array + at, x);
}

// Into the copy that kernels read, which is padded as the arrays are.
UNISONO_DEVICE void store_rounded(const UpdateTensor& t, u64 at, const Four& x) {
  *reinterpret_cast<uint2*>(t.rounded + (at - t.first)) =
      t.is_f16 ? uint2{F16::pack(x.of[0], x.of[1]), F16::pack(x.of[2], x.of[3])}
               : uint2{Bf16::pack(x.of[0], x.of[1]), Bf16::pack(x.of[2], x.of[3])};
}

// The gradients of a step that is not the last of its update are added up.
UNISONO_DEVICE void add_gradients(const UpdateParams& p, const UpdatePart& part) {
  const float factor = factor_of_gradients(p);
  for_fours(part, [&](u64 at, int) {
    Four sum = load_four(p.accumulated + at);
    const Four g = load_four(p.gradients + at);
    for (int k = 0; k < 4; ++k) sum.of[k] += g.of[k] * factor;
    store_four(p.accumulated + at, sum);
  });
}

// An update that is skipped leaves none of them.
UNISONO_DEVICE void drop_gradients(const UpdateParams& p, const UpdatePart& part) {
  for_fours(part, [&](u64 at, int) { store_if(p.accumulated, at, Four{}); });
}

template <class Kind>
UNISONO_DEVICE void move_part(const UpdateParams& p, const UpdatePart& part, const UpdateChoice& step, float factor) {
  const UpdateTensor& t = p.tensors[part.tensor];
  const UpdateRates rates = p.rates[kUpdateChoices * t.group + step.index];
  const float own_factor = factor_of_gradients(p);
  const UpdateNumbers& n = p.numbers;
  for_fours(part, [&](u64 at, int) {
    Four x = load_four(p.values + at), m = load_if(p.first, at), v = load_if(p.second, at),
         average = load_if(p.average, at);
    const Four g = load_four(p.gradients + at), sum = load_if(p.accumulated, at);
    for (int k = 0; k < 4; ++k) {
      const float own = g.of[k] * own_factor;
      const float gradient = p.accumulated != nullptr ? mean_gradient(sum.of[k], own, n) : own;
      x.of[k] = Kind::moved(x.of[k], gradient * factor, m.of[k], v.of[k], p, step, rates);
      average.of[k] = n.average * average.of[k] + n.average_rest * x.of[k];
    }
    if (t.rounded != nullptr) store_rounded(t, at, x);
    store_four(p.values + at, x);
    store_if(p.first, at, m), store_if(p.second, at, v), store_if(p.average, at, average);
    store_if(p.accumulated, at, Four{});
  });
}

UNISONO_DEVICE void move_statistics(const UpdateParams& p, const UpdatePart& part) {
  for_fours(part, [&](u64 at, int) {
    Four running = load_four(p.statistics + at);
    const Four batch = load_four(p.batch_statistics + at);
    for (int k = 0; k < 4; ++k) running.of[k] += p.numbers.statistics * (batch.of[k] * part.factor - running.of[k]);
    store_four(p.statistics + at, running);
  });
}

UNISONO_DEVICE void tell(const UpdateParams& p, const UpdateStep& step, const Outcome& o) {
  const bool is_done = o.outcome == kMoved || o.outcome == kSkipped;
  UpdateScale scale{};
  if (p.scale != nullptr) {
    scale = is_done ? after_step(*p.scale, p.scaling, o.outcome == kSkipped, step.is_update != 0) : *p.scale;
    *p.next_scale = scale;
  }
  p.results[step.slot] = {o.own_norm, step.is_update ? o.norm : 0., *p.loss, o.outcome, scale};
  if (!is_done) *p.failed = 1;
}

template <class Kind>
UNISONO_DEVICE void update(const UpdateParams& p) {
  const Outcome outcome = outcome_of(p);
  const UpdateStep step = *p.step;
  if (blockIdx.x == 0 && threadIdx.x == 0) tell(p, step, outcome);
  if (outcome.outcome == kSkipped && step.is_update)
    for (u32 i = blockIdx.x; i < p.part_count; i += gridDim.x) drop_gradients(p, p.parts[i]);
  if (outcome.outcome != kMoved) return;
  const UpdateChoice choice = choice_of(p, step);
  for (u32 i = blockIdx.x; i < p.part_count; i += gridDim.x) {
    if (step.is_update)
      move_part<Kind>(p, p.parts[i], choice, outcome.factor);
    else
      add_gradients(p, p.parts[i]);
  }
  for (u32 i = blockIdx.x; i < p.statistic_part_count; i += gridDim.x) move_statistics(p, p.statistic_parts[i]);
}

// Rounds all parameters to their 16-bit copies without moving them; launched after the host has written the parameters.
UNISONO_DEVICE void round_values(const UpdateParams& p) {
  for (u32 i = blockIdx.x; i < p.part_count; i += gridDim.x) {
    const UpdatePart& part = p.parts[i];
    const UpdateTensor& t = p.tensors[part.tensor];
    if (t.rounded == nullptr) continue;
    for_fours(part, [&](u64 at, int) { store_rounded(t, at, load_four(p.values + at)); });
  }
}

}  // namespace unisono::update
