#include "families/cutlass_evt/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "families/cutlass_evt/visitors_of.hpp"
#include "unisono/params/cutlass_evt_params.cuh"

namespace unisono::families::cutlass_evt {
namespace {

using Reasons = std::vector<std::string>;

constexpr std::int64_t int_limit = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t vector_bytes = 16;  // of TMA's rows, and of the visitors' loads and stores

bool is_word(DType t) { return t == DType::f32 || t == DType::tf32; }
bool is_factor(DType t) { return t == DType::bf16 || t == DType::f16 || is_word(t); }

void check_row(const char* what, std::int64_t elements, DType t, Reasons& reasons) {
  const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(t);
  if (bytes % vector_bytes != 0)
    reasons.push_back(fmt::format(
        "alignment: rows of {} are {} elements of {}, {} bytes; CUTLASS's kernels move whole multiples of {} bytes. "
        "Pad the rows",
        what, elements, to_string(t), bytes, vector_bytes));
}

bool is_single(const plan::ConvTask& t) { return t.gradient || t.conv.n == 1; }

bool is_convolution(const plan::ConvTask& t) {
  return !t.volume && !t.batched && !t.phases && t.conv.groups == 1 && t.conv.layout == Layout::nhwc;
}

std::optional<std::string> foreign_contraction(const plan::ConvTask& t) {
  if (t.transposed && t.transposed->stride != Pair(1))
    return "contraction: a transposed convolution with a stride; CUTLASS's dgrad accepts one and computes something "
           "else";
  if (is_product(t) || is_convolution(t)) return std::nullopt;
  return "contraction: this family multiplies matrices and convolves images NHWC of one group; groups, NCHW and "
         "volumes "
         "have no kernel in it";
}

void check_factors(const plan::ConvTask& t, Reasons& reasons) {
  const Conv2d& c = t.conv;
  if (auto foreign = foreign_contraction(t)) {
    reasons.push_back(*std::move(foreign));
    return;
  }
  if (!is_product(t) && t.products > 1)
    reasons.emplace_back(
        "contraction: a convolution with two filters; this family has dual kernels for products alone (families "
        "sm90_conv and plain convolve so)");
  if ((!is_product(t) || !t.group_rows.empty()) && is_word(c.dtype_x))
    reasons.emplace_back("dtypes: convolutions and grouped products take bf16 or f16");
  if (!(c.dtype_x == c.dtype_w || (is_word(c.dtype_x) && is_word(c.dtype_w))) || !is_factor(c.dtype_x))
    reasons.push_back(
        fmt::format("dtypes: the operands are {} and {}; expected both bf16, both f16 or both f32, "
                    "which is multiplied as tf32",
                    to_string(c.dtype_x), to_string(c.dtype_w)));
  const Extents e = extents(t.contraction());
  check_row(is_product(t) ? "A" : "x", t.columns_a ? e.rows_per_image() : c.c, c.dtype_x, reasons);
  check_row(is_product(t) ? "B"
            : t.gradient  ? "dY"
                          : "w",
            t.columns_b || t.transposed || t.gradient ? c.k : c.c, c.dtype_w, reasons);
  const std::int64_t summed = t.gradient ? depth(t.contraction()) : c.c;
  for (const auto& [what, extent] :
       {std::pair{"rows", e.rows()}, {"columns", e.cols}, {"k", summed}, {"matrices", e.images}})
    if (extent > int_limit)
      reasons.push_back(fmt::format("size: the number of {} is {}; at most {}", what, extent, int_limit));
}

bool is_matrix(VisitorKind kind) {
  return kind == VisitorKind::source || kind == VisitorKind::aux_load || kind == VisitorKind::aux_store;
}

void check_matrices(const Visitors& v, std::int64_t columns, Reasons& reasons) {
  check_row("D", columns, v.element_d, reasons);
  for (const Visitor& each : v.list)
    if (is_matrix(each.kind)) check_row(each.name.c_str(), columns, each.element, reasons);
}

// Visitors step by groups as they do by the matrices of a batch
void check_groups(const Visitors& v, const plan::ConvTask& t, Reasons& reasons) {
  if (t.group_rows.size() > kMostGroups)
    reasons.push_back(fmt::format("size: {} groups; at most {}", t.group_rows.size(), kMostGroups));
  for (const Visitor& each : v.list)
    if (each.kind == VisitorKind::row ? each.per_batch : std::ranges::any_of(each.scalars, &Scalar::per_batch))
      reasons.push_back(fmt::format(
          "layout: {} has an axis b; a grouped product is one matrix for its epilogue. Leave b out", each.name));
}

// Where one B serves all rows they are one matrix, and visitors do not know images
void check_images(const Visitors& v, const plan::ConvTask& t, Reasons& reasons) {
  if (!t.group_rows.empty()) return check_groups(v, t, reasons);
  if (t.batched || is_single(t)) return;
  for (const Visitor& each : v.list) {
    const bool scalar = std::ranges::any_of(each.scalars, &Scalar::per_batch);
    const bool vector = each.per_batch && (each.kind == VisitorKind::row || each.kind == VisitorKind::row_reduction ||
                                           each.kind == VisitorKind::scalar_reduction);
    if (scalar || vector)
      reasons.push_back(fmt::format("layout: {} has a value for each of {} images, which are rows of one matrix here{}",
                                    each.name, t.conv.n, is_product(t) ? "; multiply them as a batch" : ""));
  }
}

}  // namespace

bool is_product(const plan::ConvTask& t) {
  const Conv2d& c = t.conv;
  return !t.transposed && !t.gradient && !t.volume && c.r == 1 && c.s == 1 && c.groups == 1 && c.stride == Pair(1) &&
         c.pad == Margins(0) && (c.layout == Layout::nhwc || (c.h == 1 && c.w == 1));
}

std::optional<Refusal> refuse_device(const plan::Device& d) {
  if (d.major >= 8) return {};
  return Refusal{Refusal::Scope::device,
                 {fmt::format("architecture: CUTLASS's visitors are generated for sm_80 and later; this device is "
                              "sm_{}{}",
                              d.major, d.minor)}};
}

Arch usual_arch(const plan::Device& d) {
  if (d.major == 9) return Arch::sm90a;
  if (d.major == 10 && d.minor == 0) return Arch::sm100a;
  return d.major == 12 ? Arch::sm120 : Arch::sm80;
}

std::optional<Refusal> refuse_arch(Arch arch, const plan::Device& d) {
  if (arch == Arch::sm80 || arch == usual_arch(d)) return {};
  return Refusal{
      Refusal::Scope::plan,
      {fmt::format("architecture: arch={} is code for no other GPU than its own; this device is sm_{}{}, which "
                   "runs arch={}{}",
                   to_string(arch), d.major, d.minor, to_string(usual_arch(d)),
                   usual_arch(d) == Arch::sm80 ? "" : " and arch=sm80")}};
}

std::optional<Refusal> refuse_fields(Arch arch, const PlanOverride& fixed) {
  if (!is_2x(arch)) return {};
  for (const char* name : {"cluster", "order", "raster", "subtile"})
    if (fixed.fields.contains(name))
      return Refusal{
          Refusal::Scope::plan,
          {fmt::format("{}: kernels of CUTLASS 2.x (arch={}) have none; leave it out", name, to_string(arch))}};
  return {};
}

std::vector<std::string> refuse(const Workload& w) {
  Reasons reasons;
  check_factors(w.task, reasons);
  const auto visitors = visitors_of(w.epilogue, {}, {.is_2x = w.task.products == 2, .atomic = true});
  if (!visitors) {
    const auto& why = visitors.refusal().reasons;
    reasons.insert(reasons.end(), why.begin(), why.end());
  } else if (!foreign_contraction(w.task)) {
    check_matrices(*visitors, extents(w.task.contraction()).cols, reasons);
    check_images(*visitors, w.task, reasons);
  }
  return reasons;
}

}  // namespace unisono::families::cutlass_evt
