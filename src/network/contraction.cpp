/// Contractions of a network's operators, once extents are numbers.

#include "unisono/contraction.hpp"
#include "network/contraction.hpp"
#include "network/names.hpp"
#include "unisono/error.hpp"

namespace unisono::network {

namespace {

struct ContractionOf {
  const Operator& op;
  const std::vector<Sizes>& sizes;

  const Sizes& input(std::size_t i) const { return sizes[op.inputs[i]]; }

  template <class To>
  To convolution(const ConvAttributes& c) const {
    const Sizes &x = input(0), &w = input(1);
    To to;
    to.n = x[0];
    to.c = x[1];
    to.h = x[2];
    to.w = x[3];
    to.k = sizes[op.output][1];
    to.r = w[2];
    to.s = w[3];
    to.stride = c.stride;
    to.pad = c.pad;
    to.dilation = c.dilation;
    to.groups = c.groups;
    return to;
  }

  Contraction operator()(const operators::Conv2d& c) const { return convolution<Conv2d>(c); }
  Contraction operator()(const operators::UpsampledConv2d& c) const {
    auto to = convolution<Conv2d>(c);
    to.h *= 2, to.w *= 2;
    return to;
  }
  Contraction operator()(const operators::StackedConv3d& c) const {
    const Sizes &x = input(0), &w = input(1);
    const auto triple = [](const std::vector<std::int64_t>& list) { return Triple(list[0], list[1], list[2]); };
    Conv3d to;
    to.n = x[0], to.c = x[1], to.d = c.planes, to.h = x[2] / c.planes, to.w = x[3];
    to.k = sizes[op.output][1], to.t = c.taps, to.r = w[2] / c.taps, to.s = w[3];
    to.stride = triple(c.conv.stride), to.dilation = triple(c.conv.dilation);
    to.before = triple(c.conv.before), to.after = triple(c.conv.after);
    to.groups = c.conv.groups;
    return to;
  }
  Contraction operator()(const operators::ConvTranspose2d& c) const {
    auto to = convolution<ConvTranspose2d>(c);
    to.output_pad = c.output_pad;
    return to;
  }
  Contraction operator()(const operators::Gemm& g) const {
    const Sizes &a = input(0), &out = sizes[op.output];
    Gemm to;
    to.m = out.size() == 3 ? out[0] * out[1] : out[0];
    to.n = out.back();
    to.k = g.transpose_a ? a[0] : a.back();
    to.transpose_a = g.transpose_a;
    to.transpose_b = g.transpose_b;
    return to;
  }
  Contraction operator()(const auto&) const { throw InternalError(where(op) + " is not a contraction"); }
};

}  // namespace

Contraction contraction_of(const Operator& op, const std::vector<Sizes>& sizes) {
  return std::visit(ContractionOf{op, sizes}, op.kind);
}

}  // namespace unisono::network
