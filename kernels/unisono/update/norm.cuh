// The norm of all gradients: squares are added up in float64, in an order that the number of CTAs does not change. A
// CTA has a bucket of parts; the one that needs the norm adds the buckets.
#pragma once
#include "unisono/params/update_params.cuh"
#include "unisono/tensor/team.cuh"

namespace unisono::update {

using tensor::join_team;
using tensor::kTeamThreads;

struct FoldSquares {
  struct State {
    double own, update;
  };
  static UNISONO_DEVICE void join(State& a, const State& b) { a.own += b.own, a.update += b.update; }
};

// Four neighbours. Arrays are padded, so there always are four.
struct Four {
  float of[4];
};
UNISONO_DEVICE Four load_four(const float* p) {
  const float4 x = *reinterpret_cast<const float4*>(p);
  return {{x.x, x.y, x.z, x.w}};
}
UNISONO_DEVICE void store_four(float* p, const Four& x) {
  *reinterpret_cast<float4*>(p) = {x.of[0], x.of[1], x.of[2], x.of[3]};
}

// Calls visit(place, how many of the four are the part's) for what this thread has of a part.
template <class Visit>
UNISONO_DEVICE void for_fours(const UpdatePart& part, const Visit& visit) {
  for (u32 i = 4 * threadIdx.x; i < part.count; i += 4 * kTeamThreads)
    visit(part.first + i, part.count - i < 4 ? int(part.count - i) : 4);
}

// The gradient that an update is made from: the mean over its steps, if there are several.
UNISONO_DEVICE float mean_gradient(float sum, float gradient, const UpdateNumbers& n) {
  return (sum + gradient) / n.accumulated;
}

UNISONO_DEVICE float factor_of_gradients(const UpdateParams& p) { return p.scale ? inverse_of(*p.scale) : 1.f; }

// From the host's memory, which all CTAs of an update would read one after another.
UNISONO_DEVICE void fetch_step(const UpdateParams& p) {
  for (u32 i = threadIdx.x; i < p.told_words; i += kTeamThreads)
    reinterpret_cast<u32*>(p.step)[i] = static_cast<const volatile u32*>(p.told)[i];
}

UNISONO_DEVICE void square_gradients(const UpdateParams& p) {
  if (blockIdx.x == 0) fetch_step(p);
  const float factor = factor_of_gradients(p);
  for (u32 bucket = blockIdx.x; bucket < p.buckets; bucket += gridDim.x) {
    FoldSquares::State sum{};
    const u32 end = u32(u64(bucket + 1) * p.part_count / p.buckets);
    for (u32 part = u32(u64(bucket) * p.part_count / p.buckets); part < end; ++part)
      for_fours(p.parts[part], [&](u64 at, int count) {
        const Four gradients = load_four(p.gradients + at),
                   sums = p.accumulated ? load_four(p.accumulated + at) : Four{};
        for (int k = 0; k < count; ++k) {
          const float g = gradients.of[k] * factor, mean = p.accumulated ? mean_gradient(sums.of[k], g, p.numbers) : g;
          sum.own += double(g) * g, sum.update += double(mean) * mean;
        }
      });
    join_team<kTeamThreads, FoldSquares>(sum);
    if (threadIdx.x == 0) p.sums[2 * bucket] = sum.own, p.sums[2 * bucket + 1] = sum.update;
  }
}

// What a step comes to, the same in all threads of all CTAs.
struct Outcome {
  double own_norm, norm;
  u32 outcome;   // UpdateOutcome
  float factor;  // of the gradients that an update is made from
};

UNISONO_DEVICE bool is_finite(double x) { return x - x == 0; }

UNISONO_DEVICE u32 outcome_of_numbers(const UpdateParams& p, bool is_finite, bool is_update) {
  if (p.status != nullptr && p.status->launch != 0) return kFailed;
  if (p.scale == nullptr) return is_finite ? kMoved : kFailed;
  if (!is_skipped(*p.scale, is_finite, is_update)) return kMoved;
  return backed_off(*p.scale, p.scaling) < kLeastScale ? kFailed : kSkipped;
}

UNISONO_DEVICE Outcome outcome_of(const UpdateParams& p) {
  FoldSquares::State sum{};
  for (u32 i = threadIdx.x; i < p.buckets; i += kTeamThreads) sum.own += p.sums[2 * i], sum.update += p.sums[2 * i + 1];
  join_team<kTeamThreads, FoldSquares>(sum);
  __shared__ Outcome shared;
  if (threadIdx.x == 0) {
    Outcome o{sqrt(sum.own), sqrt(sum.update), kMoved, 1.f};
    const bool is_update = p.step->is_update != 0, checks_update = is_update && p.scale != nullptr;
    const bool all_finite = is_finite(*p.loss) && is_finite(o.own_norm) && (!checks_update || is_finite(o.norm));
    o.outcome = outcome_of_numbers(p, all_finite, is_update);
    if (*static_cast<const volatile u32*>(p.failed) != 0) o.outcome = kVoid;
    if (p.numbers.clip > 0 && o.norm > p.numbers.clip) o.factor = float(p.numbers.clip / o.norm);
    shared = o;
  }
  __syncthreads();
  return shared;
}

}  // namespace unisono::update
