/// Attention and RotaryEmbedding, written as products, sums and choices.

#include <cmath>
#include <limits>

#include "network/dim.hpp"
#include "network/onnx/importer.hpp"

namespace unisono::network::onnx_import {

namespace {

// Heads in groups that share a key: all tensors are (batch, groups, heads of a group or 1, rows, columns)
struct Heads {
  std::int64_t groups = 1, shared = 1;
  bool flat = false;  // the node's tensors are (batch, rows, heads·columns)
};

std::int64_t number_of(const NodeReader& node, const Dim& d, const Shape& shape) {
  if (!d.known() || d.value() < 1) node.fail("{} has no known number of heads", to_string(shape));
  return d.value();
}

Heads read_heads(const NodeReader& node, const Shape& q, const Shape& k) {
  if (q.size() != k.size() || q.size() < 3 || q.size() > 4)
    node.fail("Q and K have shapes {} and {}; expected 3 or 4 extents", to_string(q), to_string(k));
  Heads h{.flat = q.size() == 3};
  const std::int64_t heads = h.flat ? node.integer("q_num_heads", 0) : number_of(node, q[1], q);
  h.groups = h.flat ? node.integer("kv_num_heads", 0) : number_of(node, k[1], k);
  if (h.groups < 1 || heads < 1 || heads % h.groups != 0)
    node.fail("{} heads of Q are not a multiple of {} heads of K", heads, h.groups);
  h.shared = heads / h.groups;
  return h;
}

NetworkValue split_heads(const NodeReader& node, NetworkValue x, const Heads& h, std::int64_t shared) {
  const Shape s = x.shape();
  if (s.size() != (h.flat ? 3u : 4u))
    node.fail("V has shape {}; expected {} extents as Q and K have", to_string(s), h.flat ? 3 : 4);
  if (!h.flat) return reshape_to(node, x, {s[0], h.groups, shared, s[2], s[3]});
  const std::int64_t width = number_of(node, s[2], s), heads = h.groups * shared;
  if (width % heads != 0) node.fail("{} columns do not fall into {} heads", width, heads);
  const NetworkValue parts = reshape_to(node, x, {s[0], s[1], h.groups, shared, width / heads});
  return transposed(node, parts, {0, 2, 3, 1, 4});
}

NetworkValue joined_heads(const NodeReader& node, NetworkValue x, const Heads& h, bool flat) {
  const Shape s = x.shape();
  if (!flat) return reshape_to(node, x, {s[0], h.groups * h.shared, s[3], s[4]});
  const Dim width = affine(s[4], h.groups * h.shared, 0);
  return reshape_to(node, transposed(node, x, {0, 3, 1, 2, 4}), {s[0], s[3], width});
}

// (…, queries, keys) with axes of the groups
NetworkValue lifted_mask(const NodeReader& node, NetworkValue mask, const Heads& h) {
  Shape s = mask.shape();
  if (s.empty() || s.size() > 4) node.fail("attn_mask has shape {}; expected 1 to 4 extents", to_string(s));
  s.insert(s.begin(), 4 - s.size(), Dim(1));
  const bool each = s[1] != Dim(1);
  return reshape_to(node, mask, {s[0], each ? h.groups : 1, each ? h.shared : 1, s[2], s[3]});
}

// A mask for fewer keys than there are: nothing sees the others
NetworkValue as_long_as(const NodeReader& node, NetworkValue mask, const Dim& keys) {
  const Shape s = mask.shape();
  if (s.empty() || !s.back().known() || !keys.known() || s.back().value() >= keys.value()) return mask;
  operators::Pad pad{.before = std::vector<std::int64_t>(s.size(), 0), .after = std::vector<std::int64_t>(s.size(), 0)};
  pad.after.back() = keys.value() - s.back().value();
  if (mask.dtype() != DType::boolean) pad.value = -std::numeric_limits<double>::infinity();
  return node.apply(std::move(pad), {mask});
}

// Places along an axis in a tensor of rank 5 with that axis at `to`
NetworkValue places_along(const NodeReader& node, NetworkValue x, int axis, std::size_t to) {
  Shape shape(5, Dim(1));
  shape[to] = x.shape()[static_cast<std::size_t>(axis)];
  return reshape_to(node, node.apply(operators::Range{.axis = axis}, {x}), shape);
}

NetworkValue both(const NodeReader& node, const std::optional<NetworkValue>& a, NetworkValue b) {
  return a ? node.map(MapOp::logical_and, {*a, b}) : b;
}

// (batch), as (batch, 1, 1, 1, 1)
NetworkValue valid_keys(const NodeReader& node) {
  const NetworkValue lengths = node.value(6);
  if (lengths.shape().size() != 1)
    node.fail("nonpad_kv_seqlen has shape {}; expected a vector", to_string(lengths.shape()));
  if (node.has(4)) node.fail("nonpad_kv_seqlen and past_key are both given; expected one of them");
  return reshape_to(node, lengths, {lengths.shape()[0], 1, 1, 1, 1});
}

// Places of the queries among the keys: behind those of the past, or the last of the valid ones
NetworkValue query_places(const NodeReader& node, NetworkValue q) {
  const NetworkValue queries = places_along(node, q, 3, 3);
  const auto number_of_rows = [&](NetworkValue x, int axis) {
    return reshape_to(node, node.apply(operators::ShapeOf{axis, axis + 1}, {x}), Shape(5, Dim(1)));
  };
  if (node.has(4)) return node.map(MapOp::add, {queries, number_of_rows(node.value(4), 2)});
  if (!node.has(6)) return queries;
  return node.map(MapOp::add, {queries, node.map(MapOp::sub, {valid_keys(node), number_of_rows(q, 3)})});
}

// How many keys beside its own place a query sees on one side; nothing: all
std::optional<std::int64_t> window(const NodeReader& node, std::string_view name) {
  const std::int64_t size = node.integer(name, -1);
  if (size < -1) node.fail("{} is {}; expected -1 (all) or a number from 0 on", name, size);
  return size < 0 ? std::nullopt : std::optional(size);
}

// Which keys a query sees by its place, and by the number of keys that are no padding; nothing if all
std::optional<NetworkValue> seen(const NodeReader& node, NetworkValue q, NetworkValue k) {
  std::optional<NetworkValue> result;
  const NetworkValue keys = places_along(node, k, 3, 4);
  const std::optional<std::int64_t> left = window(node, "left_window_size"), right = window(node, "right_window_size");
  const bool causal = node.integer("is_causal", 0) != 0;
  if (causal || left || right) {
    const NetworkValue queries = query_places(node, q);
    const auto beside = [&](MapOp op, std::int64_t by) {
      return node.map(op, {queries, node.number_like(queries, static_cast<double>(by))});
    };
    if (causal) result = node.map(MapOp::less_equal, {keys, queries});
    if (right) result = both(node, result, node.map(MapOp::less_equal, {keys, beside(MapOp::add, *right)}));
    if (left) result = both(node, result, node.map(MapOp::less_equal, {beside(MapOp::sub, *left), keys}));
  }
  if (node.has(6)) result = both(node, result, node.map(MapOp::less, {keys, valid_keys(node)}));
  return result;
}

NetworkValue masked(const NodeReader& node, NetworkValue scores, NetworkValue visible) {
  const NetworkValue never = node.number_like(scores, -std::numeric_limits<double>::infinity());
  return node.map(MapOp::select, {visible, scores, never});
}

// What keeps a query from keys
struct Bias {
  std::optional<NetworkValue> visible, added = {};  // keys that it may see; numbers on top of its scores
  bool any() const { return visible || added; }
};

Bias read_bias(const NodeReader& node, NetworkValue q, NetworkValue k, const Heads& h) {
  Bias bias{.visible = seen(node, q, k)};
  if (!node.has(3)) return bias;
  const NetworkValue mask = lifted_mask(node, as_long_as(node, node.value(3), k.shape()[3]), h);
  if (mask.dtype() == DType::boolean)
    bias.visible = both(node, bias.visible, mask);
  else
    bias.added = mask;
  return bias;
}

NetworkValue biased(const NodeReader& node, NetworkValue scores, const Bias& bias) {
  if (bias.added) scores = node.elementwise(Op::add, {scores, *bias.added});
  return bias.visible ? masked(node, scores, *bias.visible) : scores;
}

// A query that no key is left to has no weights: its row is 0, where a softmax makes NaN. By the bias, not the scores,
// which may be NaN themselves.
NetworkValue weights_of(const NodeReader& node, NetworkValue scores, const Bias& bias) {
  const NetworkValue weights = node.apply(operators::Softmax{}, {scores}), zero = node.number_like(weights, 0);
  if (!bias.any()) return weights;
  NetworkValue open = bias.added ? *bias.added : zero;
  if (bias.visible) open = masked(node, open, *bias.visible);
  const NetworkValue most = node.apply(operators::Reduce{.op = ReduceOp::max, .axes = {4}}, {open});
  const NetworkValue none =
      node.map(MapOp::equal, {most, node.number_like(most, -std::numeric_limits<double>::infinity())});
  return node.map(MapOp::select, {none, zero, weights});
}

NetworkValue capped(const NodeReader& node, NetworkValue scores) {
  const double cap = node.real("softcap", 0);
  if (cap <= 0) return scores;
  const NetworkValue limit = node.number_like(scores, cap);
  const NetworkValue part = node.elementwise(Op::tanh, {node.elementwise(Op::div, {scores, limit})});
  return node.elementwise(Op::mul, {part, limit});
}

// Attributes that change nothing here: the softmax is f32's, whatever it is wanted in
void check_attributes(const NodeReader& node, const Heads& h) {
  node.type_attribute("softmax_precision", 1);
  const std::int64_t mode = node.integer("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) node.fail("qk_matmul_output_mode is {}; expected 0 to 3", mode);
  if (!h.flat && node.opset() >= 25 && (node.attribute("q_num_heads") || node.attribute("kv_num_heads")))
    node.fail("q_num_heads and kv_num_heads are for Q, K and V of 3 extents; these have 4");
}

// The new keys after those of the past
NetworkValue with_past(const NodeReader& node, NetworkValue x, int past) {
  if (!node.has(past)) return x;
  const NetworkValue before = node.value(past);
  const Shape s = before.shape();
  if (s.size() != 4) node.fail("the past has shape {}; expected 4 extents", to_string(s));
  return node.apply(operators::Concat{.axis = 3}, {reshape_to(node, before, {s[0], s[1], 1, s[2], s[3]}), x});
}

// softmax(softcap(scale·Q·Kᵀ) + mask)·V. The order is that of onnx 1.23's text: a cap behind the mask would let masked
// keys in again.
void import_attention(const NodeReader& node) {
  const NetworkValue given = node.value(0);
  const Heads h = read_heads(node, given.shape(), node.value(1).shape());
  check_attributes(node, h);
  const NetworkValue q = split_heads(node, given, h, h.shared);
  const NetworkValue k = with_past(node, split_heads(node, node.value(1), h, 1), 4),
                     v = with_past(node, split_heads(node, node.value(2), h, 1), 5);
  if (node.has(4) != node.has(5)) node.fail("past_key and past_value must be given together");
  const std::int64_t width = number_of(node, q.shape()[4], q.shape());
  const double scale = node.real("scale", 1 / std::sqrt(static_cast<double>(width)));
  const NetworkValue scaled = node.elementwise(Op::mul, {q, node.number_like(q, scale)});
  NetworkValue scores = node.apply(operators::MatMul{}, {scaled, transposed(node, k, {0, 1, 2, 4, 3})});
  const std::int64_t mode = node.integer("qk_matmul_output_mode", 0);
  const auto wanted_here = [&](std::int64_t stage) {
    if (mode == stage && node.wants(3)) node.result(joined_heads(node, scores, h, false), 3);
  };
  wanted_here(0);
  scores = capped(node, scores);
  wanted_here(1);
  const Bias bias = read_bias(node, q, k, h);
  scores = biased(node, scores, bias);
  wanted_here(2);
  scores = weights_of(node, scores, bias);
  wanted_here(3);
  node.result(joined_heads(node, node.apply(operators::MatMul{}, {scores, v}), h, h.flat));
  const auto present = [&](NetworkValue x, int output) {
    const Shape s = x.shape();
    if (node.wants(output)) node.result(reshape_to(node, x, {s[0], s[1], s[3], s[4]}), output);
  };
  present(k, 1);
  present(v, 2);
}

NetworkValue column_slice(const NodeReader& node, NetworkValue x, std::int64_t begin, std::int64_t end,
                          std::int64_t step) {
  return node.apply(operators::Slice{{begin}, {end}, {step}, {static_cast<int>(x.shape().size()) - 1}}, {x});
}

// The turned columns in their places: beside each other if they came interleaved, else one half after the other
NetworkValue rotated_columns(const NodeReader& node, const NetworkValue& real, const NetworkValue& imaginary,
                             bool interleaved) {
  if (!interleaved) return node.apply(operators::Concat{.axis = 3}, {real, imaginary});
  Shape pair = real.shape();
  const Dim half = pair.back();
  pair.push_back(1);
  const NetworkValue y =
      node.apply(operators::Concat{.axis = 4}, {reshape_to(node, real, pair), reshape_to(node, imaginary, pair)});
  pair.pop_back();
  pair.back() = affine(half, 2, 0);
  return reshape_to(node, y, pair);
}

// Pairs of columns turned by an angle for each place
void import_rotary_embedding(const NodeReader& node) {
  const NetworkValue given = node.value(0);
  const Shape s = given.shape();
  if (s.size() < 3 || s.size() > 4) node.fail("the input has shape {}; expected 3 or 4 extents", to_string(s));
  const bool flat = s.size() == 3, interleaved = node.integer("interleaved", 0) != 0;
  const std::int64_t heads = flat ? node.integer("num_heads", 0) : 1, all = number_of(node, s.back(), s);
  if (heads < 1 || all % heads != 0) node.fail("{} columns do not fall into {} heads", all, heads);
  const std::int64_t width = all / heads, given_turned = node.integer("rotary_embedding_dim", 0);
  const std::int64_t turned = given_turned == 0 ? width : given_turned;
  if (turned < 2 || turned > width || turned % 2 != 0)
    node.fail("rotary_embedding_dim is {}; expected an even number to {}", turned, width);
  const NetworkValue x = flat ? reshape_to(node, given, {s[0], s[1], heads, width}) : given;
  const auto cache = [&](int input) {
    NetworkValue c = node.value(input);
    if (node.has(3)) c = node.apply(operators::Gather{.axis = 0}, {c, node.value(3)});
    const Shape e = c.shape();
    if (e.size() != 3 || !may_equal(e[2], Dim(turned / 2)))
      node.fail("the cache has shape {}; expected {} columns", to_string(e), turned / 2);
    return reshape_to(node, c, flat ? Shape{e[0], e[1], 1, e[2]} : Shape{e[0], 1, e[1], e[2]});
  };
  const NetworkValue cosine = cache(1), sine = cache(2);
  const std::int64_t half = turned / 2;
  const NetworkValue first = interleaved ? column_slice(node, x, 0, turned, 2) : column_slice(node, x, 0, half, 1),
                     second =
                         interleaved ? column_slice(node, x, 1, turned, 2) : column_slice(node, x, half, turned, 1);
  const auto times = [&](NetworkValue a, NetworkValue b) { return node.elementwise(Op::mul, {a, b}); };
  const NetworkValue real = node.elementwise(Op::sub, {times(cosine, first), times(sine, second)}),
                     imaginary = node.elementwise(Op::add, {times(sine, first), times(cosine, second)});
  NetworkValue y = rotated_columns(node, real, imaginary, interleaved);
  if (turned < width) y = node.apply(operators::Concat{.axis = 3}, {y, column_slice(node, x, turned, width, 1)});
  node.result(flat ? reshape_to(node, y, s) : y);
}

constexpr OperatorRow attention_table[] = {{"Attention", 23, import_attention},
                                           {"RotaryEmbedding", 23, import_rotary_embedding}};

}  // namespace

std::span<const OperatorRow> attention_rows() { return attention_table; }

}  // namespace unisono::network::onnx_import
