#include "families/sm90/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "families/sm90/fetchable.hpp"
#include "families/sm90/gathering.hpp"
#include "ir/op_table.hpp"
#include "ir/products.hpp"
#include "plan/function_calls.hpp"
#include "support/dtypes.hpp"
#include "unisono/error.hpp"

namespace unisono::families::sm90 {
namespace {

constexpr std::int64_t int_limit = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t map_stride_limit = std::int64_t{1} << 40;  // bytes, of a tensor map

using Reasons = std::vector<std::string>;

void check_operands(const plan::ConvTask& task, Reasons& reasons) {
  const Conv2d& c = task.conv;
  const auto x = support::matrix_operand(c.dtype_x), w = support::matrix_operand(c.dtype_w);
  if (!x || !w || x->as != w->as)
    reasons.push_back(
        fmt::format("dtypes: the operands are {} and {}; the kernels multiply bf16 by bf16, f16 by f16, or f32 by f32 "
                    "(rounded to tf32). Cast both to one of these{}",
                    to_string(c.dtype_x), to_string(c.dtype_w),
                    support::is_short_float(c.dtype_x) && support::is_short_float(c.dtype_w)
                        ? ": f32, since neither 16-bit type holds the other's values and tf32 holds both"
                        : ""));
}

void check_sizes(const Conv2d& c, const Extents& e, Reasons& reasons) {
  const auto limit = [&](const char* what, std::int64_t value, std::int64_t bound, const char* help) {
    if (value > bound) reasons.push_back(fmt::format("size: {} is {}; at most {}. {}", what, value, bound, help));
  };
  const char* split = "Split the batch or the image";
  limit("the number of output pixels", e.rows(), int_limit - 65535, split);  // a tile past the end still counts
  limit("the number of filter taps times input channels", c.r * c.s * c.c, int_limit,
        "Split the channels and add the results");
  limit("the padding", std::max({c.pad[0], c.pad[1], c.pad[2], c.pad[3]}), int_limit / 4, "Pad the input beforehand");
  limit("an input extent", std::max({c.n, c.h, c.w}), int_limit / 4, split);
  limit("the number of output channels", c.k, int_limit / 4, "Split the filters");
  limit("the bytes of an input image", c.h * c.w * c.c * static_cast<std::int64_t>(size_of(c.dtype_x)),
        map_stride_limit - 1, split);
  limit("the bytes of an output image", e.rows_per_image() * c.k * 2, map_stride_limit - 1, split);
}

/// Two filters come by TMA, of images NHWC.
void check_products(const plan::ConvTask& task, Reasons& reasons) {
  const Conv2d& c = task.conv;
  if (task.products == 1 || (c.groups == 1 && c.layout == Layout::nhwc)) return;
  reasons.push_back(
      fmt::format("products: two filters of {}; the tensor cores are given two of images NHWC, of one group. Convolve "
                  "such, or with "
                  "either filter by itself",
                  c.groups != 1 ? fmt::format("{} groups", c.groups) : "images NCHW"));
}

void check_volume(const plan::ConvTask& task, const plan::Epilogue& epilogue, Reasons& reasons) {
  if (!task.volume) return;
  if (const auto refusal = beyond_volumes(task)) reasons.push_back("volumes: " + refusal->first());
  if (epilogue.resampled.any())
    reasons.emplace_back("volumes: pooled and upsampled stores are for images. Store the whole result");
}

/// Ordinary loads count the elements of an image, and of the filters, in 32 bits.
void check_gathered(const plan::ConvTask& task, Reasons& reasons) {
  const Conv2d& c = task.conv;
  const std::int64_t image = c.h * c.w * c.c, filters = c.k * c.r * c.s * (c.c / c.groups);
  const auto why = why_gathered(task);
  if (!why || std::max(image, filters) <= int_limit) return;
  reasons.push_back(fmt::format(
      "size: {} elements of an image and {} of the filters, by ordinary loads ({}); at most {}. Split the image or the "
      "filters",
      image, filters, why->first(), int_limit));
}

bool full(const Axes& axes) { return axes.row == RowAxis::m && axes.col == ColAxis::n; }

/// Counts what is computed an element to reach the roots; stops at values that `done` already holds.
Work count_work(const Graph& graph, std::vector<ValueId> roots, std::vector<bool>& done) {
  Work work;
  while (!roots.empty()) {
    const ValueId id = roots.back();
    roots.pop_back();
    const Node& node = graph[id];
    if (done[id] || !full(node.axes)) continue;
    done[id] = true;
    if (ir::is_accumulator(node.op) || node.op == Op::operand || node.op == Op::constant) continue;
    ++(ir::info(node.op).cost == ir::Cost::special ? work.special : work.simple);
    roots.insert(roots.end(), node.inputs.begin(), node.inputs.end());
  }
  return work;
}

void add_reads(const plan::Epilogue& epilogue, Work& work, const std::vector<ValueId>& columns,
               const std::vector<ValueId>& tensors) {
  work.columns = static_cast<int>(columns.size());
  work.tensors = static_cast<int>(tensors.size());
  for (const ValueId id : tensors)
    work.tensor_bytes += static_cast<std::int64_t>(size_of(plan::storage_of(epilogue, id)));
}

bool is_element(const plan::Output& o) {
  return o.path == plan::Output::StorePath::before || o.path == plan::Output::StorePath::after ||
         o.path == plan::Output::StorePath::direct;
}

void count_all(const plan::Epilogue& epilogue, ConvProblem& p) {
  const Graph& graph = epilogue.graph;
  std::vector<bool> done(graph.nodes.size());
  std::vector<ValueId> before, after;
  if (epilogue.ahead()) before.push_back(*epilogue.ahead());
  for (const plan::Stage& s : epilogue.stages)
    for (const ValueId id : s.reductions())
      if (!s.affine) (s.read ? before : after).push_back(graph[id].inputs[0]);
  for (const plan::Output& output : epilogue.outputs)
    if (is_element(output))
      (output.path == plan::Output::StorePath::before ? before : after).push_back(graph.stores[output.store].value);
  p.before = count_work(graph, before, done);
  if (epilogue.norm() && epilogue.norm()->sum) p.row_specials = 1;
  if (epilogue.general() || epilogue.exchanging()) done.assign(graph.nodes.size(), false);  // computed once more
  if (epilogue.behind()) done[*epilogue.behind()] = true;
  p.after = count_work(graph, after, done);
  add_reads(epilogue, p.before, epilogue.ahead_of_stages().columns, epilogue.ahead_of_stages().tensors);
  add_reads(epilogue, p.after, epilogue.reads.columns, epilogue.reads.tensors);
}

}  // namespace

std::optional<plan::Refusal> refuse_device(const plan::Device& d) {
  if (d.major == 9 && d.minor == 0) return {};
  return plan::Refusal{
      plan::Refusal::Scope::device,
      {fmt::format("device: {} has compute capability {}.{}; the convolution kernels are for 9.0. Use the cpu device",
                   d.name, d.major, d.minor)}};
}

std::optional<plan::Refusal> refuse_problem(const plan::ConvTask& task, const plan::Epilogue& epilogue) {
  const Conv2d& conv = task.conv;
  const Extents e = extents(task.contraction());
  Reasons reasons;
  check_operands(task, reasons);
  check_sizes(conv, e, reasons);
  check_gathered(task, reasons);
  check_products(task, reasons);
  check_volume(task, epilogue, reasons);
  if (epilogue.exchanged() && epilogue.exchanged()->batch && e.images > 1 &&
      (task.batched || stores_of(task) == Stores::planes))
    reasons.push_back(
        "batch: statistics over all rows, where products have separate operands or channels come first, so that "
        "tiles are an image's. Take them for each image (per=b)");
  const bool per_pixel = epilogue.normalises_rows();
  constexpr std::int64_t widest_direct = 64;
  const std::int64_t widest = std::max(gathering_of(task).direct ? widest_direct : conv.k / conv.groups,
                                       beyond_group_tiles(task) ? 0 : widest_group_tile(conv));
  if (per_pixel && conv.groups > 1 && conv.k > widest)
    reasons.push_back(
        fmt::format("groups: a normalisation over the {} channels of a pixel, from {} groups; a tile of grouped "
                    "channels has at most {}. Use the cpu device, or normalise in a separate kernel",
                    conv.k, conv.groups, widest));
  if (reasons.empty()) return std::nullopt;
  return plan::Refusal{plan::Refusal::Scope::problem, std::move(reasons)};
}

namespace {

/// Values of rows follow from reductions: those over a row's channels, or over rows.
bool reduces_for_rows(const plan::Epilogue& e) {
  if (!e.general()) return false;
  if (e.reduces_rows() || e.reduces_groups()) return true;
  const std::vector<int> level_of = e.levels_of_values();
  for (ValueId id = 0; id < e.graph.nodes.size(); ++id)
    if (e.graph[id].axes == axes::m && level_of[id] > 0) return true;
  return false;
}

}  // namespace

plan::Expected<ConvProblem> make_problem(const plan::ConvTask& task, const plan::Epilogue& epilogue) {
  ConvProblem p;
  const Conv2d& conv = task.conv;
  p.task = task, p.conv = conv, p.extents = extents(task.contraction()), p.visitor = plan::visitor_shape(epilogue);
  if (auto refusal = refuse_problem(task, epilogue)) return *std::move(refusal);
  p.second_pass = epilogue.results == plan::Results::any, p.wide_main = epilogue.wide_main();
  p.per_pixel = epilogue.normalises_rows();
  p.batch = epilogue.exchanged() && epilogue.exchanged()->batch;
  p.row_waits = p.per_pixel || epilogue.rows_wait();
  p.reduces_rows = epilogue.reduces_rows();
  if (reduces_for_rows(epilogue)) p.row_levels = static_cast<int>(epilogue.levels().size());
  p.widest_call = plan::widest_call(epilogue);
  if (epilogue.exchanged() || p.per_pixel) {
    const std::int64_t width = (p.per_pixel ? epilogue.normalised() : epilogue.exchanged())->group_channels;
    if (width < 1 || conv.k % width != 0)
      throw UserError(fmt::format("{}: groups of {} channels; expected a divisor of the {} output channels",
                                  to_string(task.contraction()), width, conv.k));
    p.group_channels = static_cast<int>(width);
  }
  count_all(epilogue, p);
  p.uses_raw = epilogue.uses_raw;
  for (const auto* list : {&epilogue.ahead_of_stages().tensors, &epilogue.reads.tensors})
    for (const ValueId id : *list) p.placed = p.placed || plan::is_placed(epilogue.graph[id]);
  p.gathered = why_gathered(task);
  p.group_tiles = !beyond_group_tiles(task);
  p.moments = epilogue.moments.channels;
  p.per_image = epilogue.per_image() || task.batched || stores_of(task) == Stores::planes || p.moments > 0;
  p.resampling = plan::resampling_of(epilogue.resampled);
  p.fetchable = static_cast<int>(fetchable_operands(epilogue).size());
  p.stores = 0, p.store_bytes = 0;
  for (const plan::Output& o : epilogue.outputs)
    if (is_element(o))
      ++p.stores, p.store_bytes += static_cast<std::int64_t>(size_of(epilogue.graph.stores[o.store].dtype));
  return p;
}

}  // namespace unisono::families::sm90
