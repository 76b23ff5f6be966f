// 2,000 random problems: nothing but UserError and Unsupported is thrown, and every legal candidate keeps the rules of
// the device headers, TMA and the one-launch protocol, which are worked out here a second time.

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "families/sm90/flipped.hpp"
#include "families/sm90_conv/fetching.hpp"
#include "families/sm90_conv/geometry.hpp"
#include "families/sm90_conv/shared_memory.hpp"
#include "support/random.hpp"
#include "unisono/error.hpp"
#include "unit/families/sm90_conv/problems.hpp"

namespace unisono::families::sm90_conv {
namespace {

using unisono::test::Random;

const char* const epilogues[] = {
    test::bare,
    test::bias_silu,
    "store acc + temb[b,n] as y : bf16\n",
    "operand r[m,n] : bf16\nh = acc + r\nstore relu(h) as y : bf16\nstore h as z : bf16\n",
    "operand q[m,n] : f16\noperand r[m,n] : bf16\nstore acc * q + p[m,n] - r as y : bf16\n",
    "store silu(group_norm(acc + bias[n], groups=@, scale=gamma[n], shift=beta[n], eps=1e-5)) as y : bf16\n",
    "h = acc + bias[n] + temb[b,n]\nstore mish(group_norm(h, groups=@, scale=gamma[n], shift=beta[n], eps=1e-5)) as y "
    ": "
    "bf16\nstore h as raw : bf16\n",
    "h = acc + bias[n]\nstore h + group_norm(h, groups=@, eps=1e-5) * s[b,n] as y : bf16\n",
    "h = acc + bias[n]\nstore silu(layer_norm(h, scale=gamma[n], shift=beta[n])) as y : bf16\nstore h as raw : bf16\n",
    "operand r[m,n] : bf16\nstore relu(group_norm(acc, groups=@, eps=1e-5) + r) as y : bf16\n",
    "store softmax(acc * s[m] + bias[n], over=n) as y : f32\nstore sum(acc, over=m, per=b) as total : f32\n",
    "store sum(relu(acc + bias[n])) as l : f32\nstore variance(acc, over=(m,n), groups=@) as v : f32\n",
    "store max(acc, over=n) as top : bf16\nstore acc * index(w) as y : bf16\n",
    "store instance_norm(relu(group_norm(acc, groups=@, eps=1e-5))) as y : bf16\n",
    "y = batch_norm(layer_norm(acc))\nstore softmax(y, over=m, per=b) as y : f32\nstore max(acc, over=m) as top : "
    "f32\n",
    "y = instance_norm(acc)\nstore y * sum(square(y), over=n) as y : bf16\nstore mean(y, over=(m,n), per=b, groups=@) "
    "as "
    "mu : f32\n",
};

struct RandomProblem {
  Conv2d conv;
  std::string text;
  bool columns_a = false, columns_b = false, batched = false;
  std::optional<ConvTranspose2d> transposed = {};  // of stride 1; then `conv` is what TMA loads, if it loads it
  Contraction contraction() const { return transposed ? Contraction(*transposed) : Contraction(conv); }
  ConvTask task() const {
    if (transposed) return as_convolution(*transposed);
    ConvTask t(conv);
    t.columns_a = columns_a, t.columns_b = columns_b, t.batched = batched;
    return t;
  }
};

RandomProblem random_problem(Random& random) {
  const auto size = [&](int high) { return random.chance(0.1) ? random.between(1, 3) : random.between(1, high); };
  Conv2d c;
  c.n = size(16), c.h = size(random.chance(0.2) ? 300 : 64), c.w = size(random.chance(0.2) ? 300 : 64);
  c.c = random.chance(0.05) ? size(100) : 8 * size(80);
  c.k = random.chance(0.05) ? size(100) : 8 * size(80);
  c.r = random.one_of({1, 3, 3, 5, 7, 2}), c.s = random.chance(0.7) ? c.r : random.between(1, 7);
  for (std::size_t i = 0; i < 4; ++i)
    c.pad[i] = random.chance(0.5) ? c.r / 2 : random.between(0, random.chance(0.05) ? 300 : 4);
  for (std::size_t i = 0; i < 2; ++i) c.stride[i] = random.one_of({1, 1, 1, 2, 3, 9});
  for (std::size_t i = 0; i < 2; ++i)
    c.dilation[i] = random.chance(0.8) ? 1 : random.between(1, random.chance(0.1) ? 90 : 3);
  c.groups = random.chance(0.05) ? 2 : 1;
  if (random.chance(0.05)) c.layout = Layout::nchw;
  c.dtype_x = c.dtype_w = random.one_of({DType::bf16, DType::f16});
  if (random.chance(0.03)) c.dtype_x = DType::f32;
  if (random.chance(0.08)) c.dtype_x = c.dtype_w = random.one_of({DType::f32, DType::tf32});
  std::string text = epilogues[random.below(static_cast<int>(std::size(epilogues)))];
  if (const auto at = text.find('@'); at != text.npos) {
    std::vector<int> divisors;
    for (int g = 1; g <= c.k; ++g)
      if (c.k % g == 0) divisors.push_back(g);
    text.replace(at, 1, std::to_string(random.one_of(divisors)));
  }
  return {c, text};
}

/// A product, as the convolution of its rows.
RandomProblem random_product(Random& random) {
  RandomProblem p = random_problem(random);
  Conv2d c;
  c.n = random.chance(0.5) ? 1 : random.between(2, 9);
  c.h = 1, c.w = random.between(1, 3000), c.c = random.between(1, 2000), c.k = p.conv.k;
  c.dtype_x = c.dtype_w = random.chance(0.1) ? DType::f32 : DType::bf16;
  p.columns_a = random.chance(0.5), p.columns_b = random.chance(0.5), p.batched = c.n > 1;
  if (p.columns_a && random.chance(0.95)) c.w = (c.w + 7) / 8 * 8;
  if ((!p.columns_a || !p.columns_b) && random.chance(0.95)) c.c = (c.c + 7) / 8 * 8;
  p.conv = c;
  return p;
}

RandomProblem random_transposed(Random& random) {
  RandomProblem p = random_problem(random);
  const Conv2d& c = p.conv;
  p.transposed = {.n = c.n,
                  .h = c.h,
                  .w = c.w,
                  .c = c.c,
                  .k = c.k,
                  .r = c.r,
                  .s = c.s,
                  .pad = c.pad,
                  .dilation = c.dilation,
                  .dtype_x = c.dtype_x,
                  .dtype_w = c.dtype_w};
  const auto flipped = sm90::by_flipped_taps(*p.transposed);
  p.conv = flipped ? flipped->conv : as_convolution(*p.transposed).conv;
  return p;
}

int accumulators(const ConvConfig& c) { return c.tile.m / c.schedule.warpgroups() / 64 * c.tile.n / 2; }

/// The static assertions of kernels/unisono.
void check_config(const ConvConfig& c, const Epilogue& e, const Conv2d& conv) {
  const int rows = c.tile.m / c.schedule.warpgroups(),
            consumers = c.schedule.warpgroups() * c.schedule.consumer_groups();
  EXPECT_TRUE(rows == 64 || rows == 128 || rows == 256);
  EXPECT_EQ(rows * c.schedule.warpgroups(), c.tile.m);
  EXPECT_TRUE(consumers == 2 || consumers == 4);
  EXPECT_TRUE(c.tile.n % 8 == 0 && c.tile.n >= 8 && c.tile.n <= 256);
  EXPECT_EQ(static_cast<std::size_t>(c.tile.n * c.tile.k) * size_of(c.element) % 1024, 0u);
  EXPECT_EQ(c.element, size_of(conv.dtype_x) == 4 ? DType::tf32 : conv.dtype_x);
  EXPECT_EQ(conv.dtype_x == DType::bf16 || conv.dtype_x == DType::f16 ? 2 : 4, static_cast<int>(size_of(c.element)));
  EXPECT_LE(c.schedule.cluster.ctas(), 8);
  EXPECT_GE(c.schedule.stages, c.schedule.stationary ? 1 : 2);
  EXPECT_LE(accumulators(c), consumers == 4 ? 64 : e.norm() ? 160 : 192);
  EXPECT_EQ(e.norm() != nullptr, normalises(c.mode()));
  EXPECT_EQ(e.general(), c.mode() == NormMode::general);
  EXPECT_EQ(e.normalises_rows(), c.mode() == NormMode::rows);
  if ((c.mode() == NormMode::rows || e.rows_wait()) && !c.meets()) {
    EXPECT_GE(c.tile.n, conv.k);
    EXPECT_EQ(c.schedule.cluster.n, 1);
    EXPECT_EQ(c.unit(), 1);
    EXPECT_FALSE(c.schedule.swap);
  }
  if (c.schedule.swap) {
    EXPECT_EQ(c.tile.n % 64, 0);
  }
  if (c.schedule.swap != (c.features.stores == Stores::planes_tma)) {  // four warps write a slice
    EXPECT_GE(c.features.store_buffers, std::min(2, stores_per_tile(c)));
  }
  if (c.schedule.split) {
    EXPECT_EQ(c.schedule.cluster.ctas(), 1);
    EXPECT_NE(c.mode(), NormMode::streamed);
    EXPECT_EQ(c.tile.n % 32, 0);
  }
  if (e.norm()) {
    EXPECT_EQ(c.tile.n % c.unit(), 0);
    const std::int64_t width = e.normalised()->group_channels;
    EXPECT_EQ(width % c.unit(), 0);
    const bool cuts = exchanges(c.mode()) && width % c.tile.n != 0 && c.tile.n % width != 0;
    EXPECT_TRUE(cuts || !c.cut());
    if (cuts && !c.cut()) {  // a crew has a thread for each unit of the groups that a tile may touch
      EXPECT_LE(((c.tile.n - 2) / width + 2) * (width / c.unit()), c.streamed() ? 32 : 128);
    }
  }
  if (e.uses_raw) {
    EXPECT_EQ(c.mode(), NormMode::resident);
  }
  if (c.mode() == NormMode::streamed) {
    EXPECT_EQ(c.features.store_buffers, stores_per_tile(c));
  }
  if (c.features.fetch.value_or(0) > 0) {
    EXPECT_LE(*c.features.fetch, std::ssize(fetchable_operands(e)));
    EXPECT_TRUE(by_tma(c.features.stores) && !c.by_parity() && c.features.store_buffers <= 32);
    EXPECT_NE(c.mode(), NormMode::streamed);
    EXPECT_TRUE(!e.general() || e.levels().empty());
  }
}

/// Boxes of windows, and what of a filter's lines is multiplied.
void check_windows(const ConvConfig& c, const Conv2d& conv) {
  const Im2colWindow& u = *c.window();
  EXPECT_TRUE(c.two_dimensional() && c.schedule.cluster.ctas() == 1 && !c.schedule.split && !c.columns_b() &&
              !c.operands.batched);
  EXPECT_TRUE(conv.layout == Layout::nhwc && conv.groups == 1 && c.element != DType::tf32);
  EXPECT_TRUE(conv.s == 1 || conv.dilation[1] == 1);
  EXPECT_LE(conv.c, 32);
  EXPECT_GE(c.tile.n, conv.k);
  EXPECT_GE(c.activation_stages(), 2);
  EXPECT_EQ(u.pitch % 16, 0);
  EXPECT_GE(u.pitch, 2 * (7 * conv.stride[1] + conv.s) * conv.c);
  const std::int64_t lines = (c.tile.m / 8 - 1) * conv.stride[0] + (conv.r - 1) * conv.dilation[0] + 1;
  EXPECT_LE(lines, 256);
  if (conv.c % 8 == 0) {
    EXPECT_EQ(u.pitch, 2 * (7 * conv.stride[1] + conv.s) * conv.c);
    EXPECT_LE(7 * conv.stride[1] + conv.s, 256);
  } else {
    EXPECT_EQ(conv.w * conv.c * 2 % 16, 0);
    EXPECT_LE(u.pitch, 512);
  }
  EXPECT_EQ(static_cast<std::int64_t>(u.window_bytes(c.tile.m)), (lines * u.pitch + 127) / 128 * 128);
  EXPECT_EQ((conv.pad[1] * conv.c + u.shift) % 8, 0);  // TMA begins at multiples of 16 bytes
  EXPECT_GE(u.pitch, 2 * (u.shift + (7 * conv.stride[1] + conv.s) * conv.c + (u.odd() ? 1 : 0)));
  EXPECT_GE(u.steps(c.tile.k) * c.tile.k, conv.r * ((conv.s * conv.c + 7) / 8 * 8));
  EXPECT_LT((u.steps(c.tile.k) - 1) * c.tile.k, conv.r * ((conv.s * conv.c + 7) / 8 * 8));
}

/// A tile of whole groups, whose channels are one step, and all of whose filters stay.
void check_groups(const ConvConfig& c, const Conv2d& conv) {
  EXPECT_EQ(c.operands.group_channels * conv.groups, conv.c);
  EXPECT_EQ(c.operands.group_filters * conv.groups, conv.k);
  EXPECT_EQ(c.tile.n % c.operands.group_filters, 0);
  EXPECT_LE(c.tile.n / c.operands.group_filters * c.operands.group_channels, 64);
  EXPECT_TRUE(c.schedule.stationary && c.tile.k == 64 && c.schedule.cluster.ctas() == 1 && !c.schedule.split);
  EXPECT_EQ(c.schedule.stages, conv.r * conv.s);
}

/// Boxes, corners and strides that the driver accepts for a tensor map; what has none.
void check_maps(const ConvConfig& c, const RandomProblem& problem) {
  const Conv2d& conv = problem.conv;
  const std::int64_t unit = c.element == DType::tf32 ? 4 : 8;  // elements in 16 bytes
  EXPECT_EQ(c.operands.batched, problem.batched);
  EXPECT_EQ(c.features.stores == Stores::tma, conv.k % 8 == 0 && conv.layout == Layout::nhwc);
  EXPECT_EQ(c.features.stores == Stores::planes || c.features.stores == Stores::planes_tma,
            conv.layout == Layout::nchw);
  if (c.features.stores == Stores::planes_tma) {
    const Extents e = extents(Contraction(conv));
    EXPECT_EQ((c.two_dimensional() ? e.width : e.rows_per_image()) % 8 + c.tile.n % (c.two_dimensional() ? 16 : 32), 0);
  }
  EXPECT_TRUE(by_tma(c.features.stores) || c.mode() != NormMode::streamed);
  EXPECT_TRUE(c.tile.k != 128 || (!c.gathered() && c.element != DType::tf32));
  if (c.window()) return check_windows(c, conv);
  if (c.gathered()) {
    EXPECT_EQ(c.schedule.cluster.ctas(), 1);
    EXPECT_EQ(c.columns_b(), problem.columns_b && !c.gathered()->filters);
    EXPECT_EQ(c.gathered()->direct, conv.groups > 1 && conv.k / conv.groups % 8 != 0);
    if (c.gathered()->direct) {
      EXPECT_FALSE(c.schedule.swap || c.schedule.split);
      EXPECT_LE(c.tile.n, 64);
      return;
    }
    const std::int64_t depth = conv.r * conv.s * conv.c / conv.groups;
    EXPECT_TRUE(c.gathered()->filters || (problem.columns_b ? conv.k : depth) % unit == 0);
    EXPECT_TRUE(c.element != DType::tf32 || !c.columns_b());
    EXPECT_TRUE(!c.gathered()->vectors ||
                (conv.c / conv.groups % unit == 0 && conv.layout == Layout::nhwc && !problem.columns_a));
    EXPECT_TRUE(conv.groups == 1 || conv.k / conv.groups % c.tile.n == 0);
    return;
  }
  const bool planes = conv.layout == Layout::nchw;  // converted, or columns that lie side by side
  EXPECT_EQ(c.operands.converted, planes && !c.loads(Im2colTile::Box::columns));
  EXPECT_TRUE(!planes || (conv.groups == 1 && c.element != DType::tf32));
  EXPECT_FALSE(c.operands.converted && c.schedule.order == Order::pingpong2);
  EXPECT_EQ(c.operands.grouped(), conv.groups > 1);
  if (c.operands.grouped()) check_groups(c, conv);
  EXPECT_TRUE(c.loads(Im2colTile::Box::columns) == problem.columns_a || planes);
  EXPECT_EQ(c.columns_b(), problem.columns_b || problem.transposed);
  EXPECT_EQ(c.operands.flipped, problem.transposed.has_value());
  EXPECT_TRUE(!c.columns_b() || conv.k % 8 == 0);
  EXPECT_TRUE(c.operands.converted || (c.loads(Im2colTile::Box::columns) ? conv.h * conv.w : conv.c) % unit == 0);
  EXPECT_TRUE(c.columns_b() || c.operands.converted || conv.c % unit == 0);
  EXPECT_TRUE(c.element != DType::tf32 || (!c.loads(Im2colTile::Box::columns) && !c.columns_b()));
  if (c.two_dimensional()) {
    EXPECT_EQ(conv.stride[0] * conv.stride[1], 1);
    EXPECT_TRUE(c.tile.k * size_of(c.element) == 128 || (c.tile.k == 128 && c.element != DType::tf32));
    EXPECT_GE(c.activation_stages(), 2);
    EXPECT_GE(c.halo()->halo_h, (conv.r - 1) * conv.dilation[0]);
    EXPECT_EQ(c.halo()->halo_w, (conv.s - 1) * conv.dilation[1]);
    EXPECT_LE(c.tile.m / 8 + c.halo()->halo_h, 256);
    EXPECT_LE(8 + c.halo()->halo_w, 256);
    return;
  }
  for (int i = 0; i < 2; ++i) {
    const std::int64_t span = ((i == 0 ? conv.r : conv.s) - 1) * conv.dilation[i];
    EXPECT_LE(conv.stride[i], 8);
    EXPECT_LE(conv.pad[i], 128);
    EXPECT_GE(conv.pad[i], -127);
    EXPECT_GE(conv.pad[2 + i] - span, -128);
    EXPECT_LE(conv.pad[2 + i] - span, 127);
    EXPECT_LE(span, 255);
  }
}

/// Deals the items to the consumer groups as a kernel does; resident: a consumer group has at most one item of an
/// image, by channels of the tiles across that a group of channels touches.
void check_in_flight(const ConvPlan& p, int width) {
  const int image_items = p.tiles_m * p.tiles_n * p.splits, wide = p.config.tile.n * p.config.schedule.cluster.n;
  if (image_items == 1) return;
  const int holders = p.ctas / p.config.schedule.cluster.ctas() * p.config.schedule.consumer_groups();
  if (!p.config.by_channels()) {
    ASSERT_LE(image_items, holders);
    return;
  }
  for (int channel = 0; channel < p.tiles_n * wide; channel += width) {
    const int first = channel / wide, last = std::min(p.tiles_n - 1, (channel + width - 1) / wide);
    ASSERT_LE((last - first + 1) * p.tiles_m, holders) << "tiles " << first << " to " << last;
  }
}

void check_launch(const ConvPlan& p, const Conv2d& conv, const Extents& e, const Device& d) {
  const ConvConfig& c = p.config;
  const int cluster = c.schedule.cluster.ctas();
  EXPECT_LE(p.shared_bytes, d.shared_bytes);
  EXPECT_EQ(p.threads, 128 * (1 + c.schedule.warpgroups() * c.schedule.consumer_groups()));
  EXPECT_LE(p.threads, 640);
  EXPECT_GE(p.ctas, cluster);
  EXPECT_EQ(p.ctas % cluster, 0);
  EXPECT_LE(p.ctas, d.resident_ctas[cluster]);
  EXPECT_TRUE(p.ctas <= p.tiles * p.splits * cluster || c.operands.converted);
  EXPECT_EQ(p.tiles, p.tiles_m * p.tiles_n * p.images);
  EXPECT_EQ(std::int64_t{p.images} * p.rows, e.rows());
  EXPECT_GE(std::int64_t{p.tiles_n} * c.schedule.cluster.n * c.tile.n, e.cols);
  const std::int64_t tiles_m = std::int64_t{p.tiles_m} * c.schedule.cluster.m;
  if (c.two_dimensional())
    EXPECT_GE(tiles_m / p.tiles_w * (c.tile.m / 8), e.height);
  else
    EXPECT_GE(tiles_m * c.tile.m, p.rows);
  const std::int64_t taps = c.gathered() ? 1 : conv.r * conv.s;
  // A step of 128 of im2col tiles is two blocks of 64 channels, of whatever taps
  const std::int64_t together = c.tile.k == 128 && !c.two_dimensional() ? 2 : 1;
  EXPECT_GE(std::int64_t{p.channel_blocks} * c.tile.k / together * taps, depth(Contraction(conv)));
  const std::int64_t loads =
      c.two_dimensional() ? p.channel_blocks : (taps * p.channel_blocks + together - 1) / together;
  EXPECT_LE(p.splits, std::min<std::int64_t>(8, loads));
  EXPECT_EQ(c.schedule.split, p.splits > 1);
  if (c.schedule.split) {
    EXPECT_LE(p.tiles * p.splits, d.resident_ctas[1]);
  }
  EXPECT_EQ(p.cooperative, c.schedule.split || c.meets() || exchanges(c.mode()) || c.operands.converted);
  if (c.meets()) {
    const int held =
        d.resident_ctas[c.schedule.cluster.ctas()] / c.schedule.cluster.ctas() * c.schedule.consumer_groups();
    EXPECT_TRUE(p.tiles_n <= held || c.spills_rows());
    EXPECT_FALSE(c.schedule.split || c.schedule.group != 0);
  }
}

/// Stored reductions: shares of all warpgroups' tiles, of columns of tiles, of rows; counters.
template <class Part>
void check_folds(const ConvPlan& p, const Epilogue& e, Part&& part) {
  const ConvConfig& c = p.config;
  std::size_t planes = 0, tiles = 0, rows = 0, returned = 0;
  for (const plan::Stage& s : e.levels())
    for (const plan::Statistics& d : s.over_rows())
      planes += d.folds.size() + 3 * d.moments.size(), returned += (d.folds.size() + 2 * d.moments.size() + 2) / 3;
  for (const plan::Statistics& d : e.folds()) {
    (d.groups() == 1 ? tiles : planes) += d.folds.size();
    planes += 3 * d.moments.size();
  }
  for (const plan::Stage& s : e.levels()) rows = std::max(rows, s.rows().size());
  EXPECT_EQ(c.wide(), rows > 0 && std::int64_t{p.tiles_n} * c.schedule.cluster.n > 1);
  if (planes + tiles == 0 && !c.wide()) return;
  EXPECT_EQ(p.slots_per_image, p.tiles_m * c.schedule.cluster.m * c.schedule.warpgroups());
  const std::size_t slots = static_cast<std::size_t>(p.images) * p.slots_per_image,
                    across = static_cast<std::size_t>(p.tiles_n) * c.schedule.cluster.n;
  if (planes + tiles > 0) {
    part(p.workspace.folds, 4 * slots * across * (planes * c.tile.n + tiles));
    part(p.workspace.fold_results, 4 * across * p.images * (planes * c.tile.n + tiles));
  }
  EXPECT_EQ(c.meets(), (c.wide() && e.rows_wait()) || returned > 0);
  std::size_t entries = 0;
  for (const plan::Stage& s : e.levels()) entries += (s.rows().size() + 2) / 3;
  const std::size_t of_row = !c.wide() ? 0 : c.meets() ? 16 * entries * (across + 1) : 4 * rows * across;
  if (of_row + returned > 0)
    part(p.workspace.fold_rows,
         of_row * slots * (c.tile.m / c.schedule.warpgroups()) + 16 * returned * p.images * across * c.tile.n);
  const std::size_t of_levels = returned > 0 ? e.levels().size() * (p.images * (across + 1) + 1) : 0;
  int together = 8;
  while (together * together < p.slots_per_image) together *= 2;
  const std::size_t of_column = static_cast<std::size_t>((p.slots_per_image + together - 1) / together),
                    segments = across * (p.images * of_column + 1) * (1 + (returned > 0 ? e.levels().size() : 0));
  part(p.workspace.fold_counters, 4 * (1 + p.images * across + slots + of_levels + segments));
}

/// Accumulators that wait, of as many tiles as a warpgroup is dealt of those that share a result, and what rows were
/// reduced to ahead of the last such result, unless tiles of a row have exchanged that.
template <class Part>
void check_spilled(const ConvPlan& p, const Epilogue& e, Part&& part) {
  const ConvConfig& c = p.config;
  std::size_t kept = 0, so_far = 0;
  bool all = false, any = false;
  for (const plan::Stage& s : e.levels()) {
    so_far += s.rows().size();
    if (!s.over_rows().empty()) kept = so_far;
    for (const plan::Statistics& d : s.over_rows()) any = true, all |= !d.domain.per_image;
  }
  const std::size_t sharing = static_cast<std::size_t>(any ? p.tiles_m : 1) * p.tiles_n * (all ? p.images : 1),
                    groups =
                        static_cast<std::size_t>(p.ctas) / c.schedule.cluster.ctas() * c.schedule.consumer_groups(),
                    warpgroups =
                        static_cast<std::size_t>(p.ctas) * c.schedule.consumer_groups() * c.schedule.warpgroups(),
                    rows = c.tile.m / c.schedule.warpgroups();
  part(p.workspace.partials,
       4 * ((sharing + groups - 1) / groups) * warpgroups * rows * (c.multiplied_n() + (c.wide() ? 0 : kept)));
}

/// Parts of the workspace, with their sizes as the kernels index them.
void check_workspace(const ConvPlan& p, const Conv2d& conv, const Extents& e, const Epilogue& e_) {
  const ConvConfig& c = p.config;
  std::map<std::size_t, std::size_t> parts;  // begin, end
  const auto part = [&](std::size_t begin, std::size_t bytes) {
    EXPECT_EQ(begin % 256, 0u);
    EXPECT_TRUE(parts.emplace(begin, begin + bytes).second) << "two parts begin at " << begin;
  };
  if (e_.general()) check_folds(p, e_, part);
  if (c.spills()) check_spilled(p, e_, part);
  if (c.rows_meet())  // an entry of each row and tile across, and of each row
    part(p.workspace.fold_rows, 16 * static_cast<std::size_t>(p.images) * p.slots_per_image *
                                    (static_cast<std::size_t>(p.tiles_n) * c.schedule.cluster.n + 1) *
                                    (c.tile.m / c.schedule.warpgroups()));
  if (p.cooperative || p.workspace.bytes > 0) {
    part(p.workspace.exits, 8);
  } else if (!e_.general()) {
    EXPECT_EQ(p.workspace.bytes, 0u);
  }
  if (c.operands.converted) {
    const std::int64_t channels = (conv.c + 7) / 8 * 8, bands = (conv.h * conv.w + 63) / 64;
    const Conversion& v = p.conversion;
    EXPECT_EQ(v.filter_units, conv.k * ((conv.c + 127) / 128));
    EXPECT_EQ(v.units, v.filter_units + conv.n * bands * ((channels + 63) / 64));
    EXPECT_TRUE(v.filter_units <= v.ahead && v.ahead <= v.units && v.units_ahead >= 1);
    part(p.workspace.image, static_cast<std::size_t>(2 * conv.n * conv.h * conv.w * channels));
    part(p.workspace.filter, static_cast<std::size_t>(2 * conv.k * conv.r * conv.s * channels));
    part(p.workspace.converted, 4 * static_cast<std::size_t>(v.units - v.ahead + p.ctas));
  }
  if (exchanges(c.mode())) {
    EXPECT_EQ(p.slots_per_image, p.tiles_m * c.schedule.cluster.m * c.schedule.warpgroups());
    EXPECT_EQ(p.segments_per_image, (p.slots_per_image + p.segment_slots - 1) / p.segment_slots);
    const auto width = static_cast<int>((e_.norm() ? e_.normalised() : e_.exchanged())->group_channels);
    if (c.resident()) check_in_flight(p, width);
    std::int64_t pieces = e.cols / c.unit();
    if (c.cut()) {  // borders, each place once
      pieces = 0;
      for (std::int64_t n = 0; n < e.cols; ++n) pieces += n % width == 0 || n % c.tile.n == 0;
    }
    const std::size_t row = static_cast<std::size_t>(p.images * pieces) * 16;
    part(p.workspace.slots, row * p.slots_per_image);
    if (p.segment_slots > 1)
      part(p.workspace.segments, row * p.segments_per_image);
    else
      EXPECT_EQ(p.workspace.segments, p.workspace.slots);
  }
  if (c.schedule.split) {
    const std::size_t partials = static_cast<std::size_t>(p.tiles) * (p.splits - 1) * c.schedule.warpgroups();
    part(p.workspace.flags, partials * 4);
    part(p.workspace.partials, partials * accumulators(c) * 128 * 4);
  }
  std::size_t end = 0;
  for (const auto& [begin, stop] : parts) {
    EXPECT_GE(begin, end) << "parts overlap";
    end = stop;
  }
  EXPECT_GE(p.workspace.bytes, end);
}

class RandomProblems : public testing::TestWithParam<int> {};

TEST_P(RandomProblems, LegalCandidatesKeepTheRules) {
  const std::uint64_t seed = 20261121 + static_cast<std::uint64_t>(GetParam());
  Random random(seed);
  const Device device;
  int served = 0, refused = 0, wrong = 0;
  for (int i = 0; i < 250; ++i) {
    const RandomProblem problem = i % 5 == 4   ? random_product(random)
                                  : i % 5 == 3 ? random_transposed(random)
                                               : random_problem(random);
    const Conv2d& conv = problem.conv;
    const std::string& text = problem.text;
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", problem " << i << ": " << to_string(problem.contraction())
                                    << "\n"
                                    << text);
    Extents extent;
    try {
      extent = extents(problem.contraction());
    } catch (const UserError&) {
      ++wrong;
      EXPECT_THROW(choose(problem.task(), Epilogue{}, device), UserError);
      continue;
    }
    const auto epilogue = test::epilogue_of(text, problem.contraction());
    try {
      const auto all = candidates(problem.task(), epilogue, device);
      EXPECT_FALSE(all.empty());
      EXPECT_FALSE(i % 10 == 0 && explain(problem.task(), epilogue, device).empty());
      for (const Answer& c : all) {
        if (!c.refusal.empty()) continue;
        if (!c.is_conv) continue;  // depthwise_test.cpp
        SCOPED_TRACE(describe(c.plan));
        const Epilogue& form = epilogue.list[c.plan.form];
        check_config(c.plan.config, form, conv);
        check_maps(c.plan.config, problem);
        check_launch(c.plan, conv, extent, device);
        check_workspace(c.plan, conv, extent, form);
        EXPECT_GT(c.plan.predicted_us, 3.0);
        EXPECT_LT(c.plan.predicted_us, 1e7);
        if (HasFailure()) return;
      }
      if (all.front().refusal.empty()) {
        ++served;
        if (all.front().is_conv) {
          EXPECT_EQ(choose(problem.task(), epilogue, device).config, all.front().plan.config);
        }
      } else {
        ++refused;
        EXPECT_THROW(choose(problem.task(), epilogue, device), Unsupported);
      }
    } catch (const Unsupported&) {
      ++refused;
    }
  }
  RecordProperty("served", served);
  EXPECT_GT(served, 90) << "seed " << seed << ": refused " << refused << ", wrong " << wrong;
  EXPECT_GT(refused, 0);
  EXPECT_GT(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomProblems, testing::Range(0, 1));
#ifndef UNISONO_SANITIZED
INSTANTIATE_TEST_SUITE_P(FurtherSeeds, RandomProblems, testing::Range(1, 8));
#endif

/// Problems inside the supported scope always have a plan.
TEST(RandomProblemsInScope, AreServed) {
  const std::uint64_t seed = 3;
  Random random(seed);
  for (int i = 0; i < 300; ++i) {
    RandomProblem problem;
    do problem = random_problem(random);
    while (problem.conv.c % 8 != 0 || problem.conv.k % 8 != 0);
    Conv2d& c = problem.conv;
    c.stride = random.between(1, 2), c.dilation = random.between(1, 2), c.groups = 1, c.dtype_x = c.dtype_w;
    for (std::size_t side = 0; side < 4; ++side) c.pad[side] = random.between(0, 6);
    c.h = std::max<std::int64_t>(c.h, 13), c.w = std::max<std::int64_t>(c.w, 13);
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", problem " << i << ": " << to_string(Contraction(c)) << "\n"
                                    << problem.text);
    const auto epilogue = test::epilogue_of(problem.text, c);
    const auto all = candidates(c, epilogue, Device{});
    // a value from ahead of the normalisation behind it, in images too large for resident mode, is the exception
    if (!all.front().refusal.empty()) {
      EXPECT_TRUE(epilogue->uses_raw) << explain(c, epilogue, Device{});
    }
  }
}

}  // namespace
}  // namespace unisono::families::sm90_conv
