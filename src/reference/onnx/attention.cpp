/// Attention and RotaryEmbedding as ONNX defines them.

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/onnx/definitions.hpp"

namespace unisono::float64 {
namespace {

// (batch, length, heads·width) as (batch, heads, length, width)
Tensor64 with_heads(const Tensor64& x, std::int64_t heads) {
  if (x.shape.size() == 4) return x;
  return permuted_axes(in_shape(x, {x.shape[0], x.shape[1], heads, x.shape[2] / heads}), {0, 2, 1, 3});
}

// The past ahead of what is new, along the positions
Tensor64 behind(const Tensor64* past, const Tensor64& x) {
  if (past == nullptr) return x;
  Extents64 shape = x.shape;
  const std::int64_t before = past->shape[2];
  shape[2] += before;
  Tensor64 y = empty_tensor(shape);
  y.dtype = x.dtype;
  std::size_t to = 0;
  for_indices(shape, [&](Extents64 at) {
    const bool old = at[2] < before;
    at[2] -= old ? 0 : before;
    y.value[to++] = old ? past->value[place(past->shape, at)] : x.value[place(x.shape, at)];
  });
  return y;
}

struct Scores {
  std::vector<double> raw, capped, biased, probability, bound;  // by key; the bound is that of the score
  bool masked = false;                                          // no key may be seen
};

struct AttentionProblem {
  Tensor64 q, k, v;
  const Tensor64* mask = nullptr;
  std::vector<std::int64_t> valid;  // keys of each batch that are no padding; empty: all
  std::int64_t past = 0, left = -1, right = -1;
  double scale = 1, cap = 0;
  bool causal = false;

  double bias(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const;
  Scores scores(std::int64_t b, std::int64_t h, std::int64_t i) const;
};

// What is added to the score of query i and key j: 0 or −∞, or what a mask of numbers says
double AttentionProblem::bias(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
  constexpr double hidden = -std::numeric_limits<double>::infinity();
  double sum = 0;
  if (mask != nullptr) {
    const std::size_t rank = mask->shape.size();
    const std::int64_t index[4] = {b, h, i, j};
    if (j >= mask->shape.back()) return hidden;  // a shorter mask hides the keys beyond it
    Extents64 at;
    for (std::size_t d = 0; d < rank; ++d) at.push_back(mask->shape[d] == 1 ? 0 : index[4 - rank + d]);
    const double m = mask->value[place(mask->shape, at)];
    sum = mask->dtype == DType::boolean ? (m != 0 ? 0 : hidden) : m;
  }
  const auto in_batch = static_cast<std::size_t>(b);
  const std::int64_t offset = past == 0 && !valid.empty() ? valid[in_batch] - q.shape[2] : past;
  if (causal && j > i + offset) return hidden;
  if (left >= 0 && i + offset - j > left) return hidden;
  if (right >= 0 && j - i - offset > right) return hidden;
  if (!valid.empty() && j >= valid[in_batch]) return hidden;
  return sum;
}

Scores AttentionProblem::scores(std::int64_t b, std::int64_t h, std::int64_t i) const {
  const std::int64_t keys = k.shape[2], width = q.shape[3], kv_head = h / (q.shape[1] / k.shape[1]);
  const double u = roundoff(q.dtype) * (std::sqrt(static_cast<double>(width)) + 3);
  Scores s;
  s.masked = true;
  double top = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::int64_t j = 0; j < keys; ++j) {
    double dot = 0, sizes = 0;
    for (std::int64_t d = 0; d < width; ++d) {
      const double term = q.value[place(q.shape, {b, h, i, d})] * k.value[place(k.shape, {b, kv_head, j, d})];
      dot += term, sizes += std::abs(term);
    }
    s.raw.push_back(dot * scale);
    s.capped.push_back(cap > 0 ? cap * std::tanh(dot * scale / cap) : dot * scale);
    const double added = bias(b, h, i, j);
    s.masked = s.masked && added == -std::numeric_limits<double>::infinity();
    s.biased.push_back(s.capped.back() + added);
    s.bound.push_back(u * (sizes * std::abs(scale) + (std::isfinite(added) ? std::abs(added) : 0)));
    top = std::max(top, s.biased.back());
  }
  for (const double x : s.biased) sum += std::exp(x - top);
  for (const double x : s.biased) s.probability.push_back(s.masked ? 0 : std::exp(x - top) / sum);
  return s;
}

AttentionProblem problem_of(const Call& call) {
  AttentionProblem p;
  const std::int64_t heads = call.integer("q_num_heads", 1), kv_heads = call.integer("kv_num_heads", 1);
  p.q = with_heads(call.in(0), heads);
  p.k = behind(call.has(4) ? &call.in(4) : nullptr, with_heads(call.in(1), kv_heads));
  p.v = behind(call.has(5) ? &call.in(5) : nullptr, with_heads(call.in(2), kv_heads));
  if (call.has(3)) p.mask = &call.in(3);
  if (call.has(6)) p.valid = call.numbers(6);
  p.past = call.has(4) ? call.in(4).shape[2] : 0;
  p.left = call.integer("left_window_size", -1), p.right = call.integer("right_window_size", -1);
  p.scale = call.real("scale", 1 / std::sqrt(static_cast<double>(p.q.shape[3])));
  p.cap = call.real("softcap", 0);
  p.causal = call.integer("is_causal", 0) != 0;
  return p;
}

// What the operator shows of a row of scores: as they are, capped, with the bias, or as probabilities
void show_scores(const Scores& s, std::int64_t mode, double moved, const Extents64& row, Tensor64& shown) {
  const auto& list = mode == 0 ? s.raw : mode == 1 ? s.capped : mode == 2 ? s.biased : s.probability;
  for (std::size_t j = 0; j < list.size(); ++j) {
    const std::size_t to = place(shown.shape, {row[0], row[1], row[2], static_cast<std::int64_t>(j)});
    shown.value[to] = list[j];
    shown.bound[to] = mode < 3 ? s.bound[j] : s.probability[j] * (s.bound[j] + moved + 16 * roundoff(shown.dtype));
    if (!std::isfinite(list[j])) shown.bound[to] = 0;
  }
}

// The values, weighted by the probabilities of a row
void weigh_values(const Scores& s, const Tensor64& v, double moved, const Extents64& row, std::int64_t kv_head,
                  Tensor64& y) {
  const double u = roundoff(y.dtype) * (16 + std::sqrt(static_cast<double>(v.shape[2])));
  for (std::int64_t d = 0; d < v.shape[3]; ++d) {
    double sum = 0, bound = 0;
    for (std::int64_t j = 0; j < v.shape[2]; ++j) {
      const auto key = static_cast<std::size_t>(j);
      const double value = v.value[place(v.shape, {row[0], kv_head, j, d})];
      sum += s.masked ? 0 : s.probability[key] * value;
      bound += s.probability[key] * std::abs(value) * (s.bound[key] + moved + u);
    }
    const std::size_t to = place(y.shape, {row[0], row[1], row[2], d});
    y.value[to] = sum, y.bound[to] = bound;
  }
}

// (batch, heads, positions, width) as (batch, positions, heads·width)
Tensor64 without_heads(const Tensor64& y) {
  Tensor64 bounds = y;
  bounds.value = y.bound;
  const Extents64 shape{y.shape[0], y.shape[2], y.shape[1] * y.shape[3]};
  Tensor64 joined = in_shape(permuted_axes(y, {0, 2, 1, 3}), shape);
  joined.bound = permuted_axes(bounds, {0, 2, 1, 3}).value;
  return joined;
}

void define_attention(Call& call) {
  const AttentionProblem p = problem_of(call);
  const std::int64_t mode = call.integer("qk_matmul_output_mode", 0);
  const Extents64 &q = p.q.shape, &v = p.v.shape;
  Tensor64 y = empty_tensor({q[0], q[1], q[2], v[3]}), shown = empty_tensor({q[0], q[1], q[2], v[2]});
  y.dtype = shown.dtype = p.q.dtype;
  for_indices({q[0], q[1], q[2]}, [&](const Extents64& at) {
    const Scores s = p.scores(at[0], at[1], at[2]);
    double moved = 0;  // mean error of a score, by probability
    for (std::size_t j = 0; j < s.bound.size(); ++j) moved += s.probability[j] * s.bound[j];
    show_scores(s, mode, moved, at, shown);
    weigh_values(s, p.v, moved, at, at[1] / (q[1] / v[1]), y);
  });
  call.result(call.in(0).shape.size() == 3 ? without_heads(y) : std::move(y));
  call.result(in_shape(p.k, p.k.shape), 1);
  call.result(in_shape(p.v, p.v.shape), 2);
  call.result(std::move(shown), 3);
}

// Pairs of the first elements of each head, turned by the angle of their position
void define_rotary_embedding(Call& call) {
  const Tensor64 &given = call.in(0), &cosines = call.in(1), &sines = call.in(2);
  const Tensor64 x = with_heads(given, call.integer("num_heads", 1));  // (batch, heads, positions, width)
  const std::int64_t turned =
      call.integer("rotary_embedding_dim", 0) == 0 ? x.shape[3] : call.integer("rotary_embedding_dim", 0);
  const bool interleaved = call.integer("interleaved", 0) != 0;
  const std::int64_t half = turned / 2;
  const std::vector<std::int64_t> positions = call.has(3) ? call.numbers(3) : std::vector<std::int64_t>();
  Tensor64 y = in_shape(x, x.shape), bounds = y;
  std::size_t to = 0;
  for_indices(x.shape, [&](Extents64 at) {
    const std::int64_t d = at[3];
    bounds.value[to] = 0;
    if (d < turned) {
      const bool second = interleaved ? d % 2 == 1 : d >= half;
      const std::int64_t pair = interleaved ? d / 2 : d % half;
      Extents64 angle{at[0], at[2], pair};
      if (call.has(3)) angle = {positions[place(call.in(3).shape, {at[0], at[2]})], pair};
      const double c = cosines.value[place(cosines.shape, angle)], s = sines.value[place(sines.shape, angle)];
      at[3] = interleaved ? 2 * pair : pair;
      const double a = x.value[place(x.shape, at)];
      at[3] = interleaved ? 2 * pair + 1 : pair + half;
      const double b = x.value[place(x.shape, at)];
      y.value[to] = second ? s * a + c * b : c * a - s * b;
      bounds.value[to] = 2 * roundoff(x.dtype) * (std::abs(second ? s * a : c * a) + std::abs(second ? c * b : s * b));
    }
    ++to;
  });
  y.bound = bounds.value;
  call.result(given.shape.size() == 3 ? without_heads(y) : std::move(y));
}

constexpr OnnxDefinition attention_table[] = {{"Attention", define_attention},
                                              {"RotaryEmbedding", define_rotary_embedding}};

}  // namespace

std::span<const OnnxDefinition> attention_definitions() { return attention_table; }

}  // namespace unisono::float64
