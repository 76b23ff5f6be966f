#include "peers/onednn_sequence.hpp"

#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <stdexcept>
#include <unordered_map>

namespace unisono::bench {

namespace {

using dnnl::memory;
using Tag = memory::format_tag;
constexpr auto f32 = memory::data_type::f32;

void append_activation(dnnl::post_ops& ops, Activation a) {
  switch (a) {
    case Activation::none: break;
    case Activation::silu: ops.append_eltwise(dnnl::algorithm::eltwise_swish, 1.0f, 0.0f); break;
    case Activation::mish: ops.append_eltwise(dnnl::algorithm::eltwise_mish, 0.0f, 0.0f); break;
    case Activation::relu: ops.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0f, 0.0f); break;
    case Activation::sigmoid: ops.append_eltwise(dnnl::algorithm::eltwise_logistic, 0.0f, 0.0f); break;
  }
}

}  // namespace

struct OnednnSequence::Impl {
  struct Step {
    dnnl::primitive primitive;
    std::unordered_map<int, memory> arguments;
    std::string name;
  };

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::vector<memory> tensors;
  std::vector<Step> steps;
  memory input, output;

  TensorId keep(memory m) {
    tensors.push_back(std::move(m));
    return tensors.size() - 1;
  }

  memory allocate(const memory::desc& d) { return {d, engine}; }

  memory constant(std::span<const float> values, const memory::dims& dims, Tag tag) {
    memory m({dims, f32, tag}, engine);
    std::memcpy(m.get_data_handle(), values.data(), values.size_bytes());
    return m;
  }

  // Reorders once, ahead of time
  memory as(const memory& from, const memory::desc& wanted) {
    if (from.get_desc() == wanted) return from;
    memory to(wanted, engine);
    dnnl::reorder(from, to).execute(stream, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
    stream.wait();
    return to;
  }

  // Reorders at every run
  memory reordered(const memory& from, const memory::desc& wanted) {
    if (from.get_desc() == wanted) return from;
    memory to(wanted, engine);
    steps.push_back({dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}, "reorder"});
    return to;
  }

  memory::dims dims(TensorId x) const { return tensors[x].get_desc().get_dims(); }
  static memory::desc any(const memory::dims& d) { return {d, f32, Tag::any}; }
};

OnednnSequence::OnednnSequence() : impl_(std::make_unique<Impl>()) {}
OnednnSequence::~OnednnSequence() = default;

TensorId OnednnSequence::input(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
  impl_->input = impl_->allocate({{n, c, h, w}, f32, Tag::nchw});
  return impl_->keep(impl_->input);
}

TensorId OnednnSequence::convolution(TensorId x, const Convolution& c) {
  Impl& s = *impl_;
  const memory::dims in = s.dims(x);
  const memory::dims weights{c.k, in[1], c.r, c.s};
  const memory::dims out{in[0], c.k, (in[2] + 2 * c.pad - c.r) / c.stride + 1,
                         (in[3] + 2 * c.pad - c.s) / c.stride + 1};
  dnnl::post_ops ops;
  append_activation(ops, c.activation);
  dnnl::primitive_attr attr;
  attr.set_post_ops(ops);
  const memory::desc bias = c.bias.empty() ? memory::desc{} : memory::desc{{c.k}, f32, Tag::a};
  const dnnl::convolution_forward::primitive_desc pd(
      s.engine, dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, Impl::any(in),
      Impl::any(weights), bias, Impl::any(out), {c.stride, c.stride}, {c.pad, c.pad}, {c.pad, c.pad}, attr);
  const memory src = s.reordered(s.tensors[x], pd.src_desc());
  const memory w = s.as(s.constant(c.weights, weights, Tag::oihw), pd.weights_desc());
  const memory dst = s.allocate(pd.dst_desc());
  Impl::Step step{dnnl::convolution_forward(pd),
                  {{DNNL_ARG_SRC, src}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, dst}},
                  pd.impl_info_str()};
  if (!c.bias.empty()) step.arguments.emplace(DNNL_ARG_BIAS, s.constant(c.bias, {c.k}, Tag::a));
  s.steps.push_back(std::move(step));
  return s.keep(dst);
}

#if DNNL_VERSION_MAJOR > 3 || DNNL_VERSION_MINOR >= 3
TensorId OnednnSequence::group_norm(TensorId x, std::int64_t groups, float eps, std::span<const float> scale,
                                    std::span<const float> shift, Activation activation) {
  Impl& s = *impl_;
  const memory::desc from = s.tensors[x].get_desc();
  const memory::dims d = s.dims(x);
  dnnl::post_ops ops;
  append_activation(ops, activation);
  dnnl::primitive_attr attr;
  attr.set_post_ops(ops);
  const auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
  // in the order of the convolution's output, or in rows and columns where oneDNN has no quick one for that
  const auto described = [&](const memory::desc& order) {
    return dnnl::group_normalization_forward::primitive_desc(s.engine, dnnl::prop_kind::forward_inference, order, order,
                                                             groups, eps, flags, attr);
  };
  dnnl::group_normalization_forward::primitive_desc pd = described(from);
  if (std::string(pd.impl_info_str()).starts_with("ref")) pd = described({d, f32, Tag::nhwc});
  const memory source = s.reordered(s.tensors[x], pd.src_desc()), normal = s.allocate(pd.dst_desc());
  s.steps.push_back({dnnl::group_normalization_forward(pd),
                     {{DNNL_ARG_SRC, source},
                      {DNNL_ARG_SCALE, s.constant(scale, {d[1]}, Tag::a)},
                      {DNNL_ARG_SHIFT, s.constant(shift, {d[1]}, Tag::a)},
                      {DNNL_ARG_DST, normal}},
                     pd.impl_info_str()});
  return s.keep(normal);
}
#else  // oneDNN 3.2 has none
TensorId OnednnSequence::group_norm(TensorId x, std::int64_t groups, float eps, std::span<const float> scale,
                                    std::span<const float> shift, Activation activation) {
  Impl& s = *impl_;
  const memory::dims d = s.dims(x);
  const memory plain = s.reordered(s.tensors[x], {d, f32, Tag::nchw});
  // each row of the view is one (image, group)
  const memory::desc rows({d[0] * groups, d[1] / groups * d[2] * d[3]}, f32, Tag::ab);
  const dnnl::layer_normalization_forward::primitive_desc ln(s.engine, dnnl::prop_kind::forward_inference, rows, rows,
                                                             eps, dnnl::normalization_flags::none);
  const memory normal = s.allocate({d, f32, Tag::nchw});
  s.steps.push_back({dnnl::layer_normalization_forward(ln),
                     {{DNNL_ARG_SRC, memory(rows, s.engine, plain.get_data_handle())},
                      {DNNL_ARG_DST, memory(rows, s.engine, normal.get_data_handle())}},
                     ln.impl_info_str()});
  const memory::desc row({1, d[1], 1, 1}, f32, Tag::nchw);
  dnnl::post_ops ops;
  ops.append_binary(dnnl::algorithm::binary_add, row);
  append_activation(ops, activation);
  dnnl::primitive_attr attr;
  attr.set_post_ops(ops);
  const dnnl::binary::primitive_desc affine(s.engine, dnnl::algorithm::binary_mul, normal.get_desc(), row,
                                            normal.get_desc(), attr);
  s.steps.push_back(
      {dnnl::binary(affine),
       {{DNNL_ARG_SRC_0, normal},
        {DNNL_ARG_SRC_1, s.constant(scale, {1, d[1], 1, 1}, Tag::nchw)},
        {DNNL_ARG_DST, normal},
        {DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, s.constant(shift, {1, d[1], 1, 1}, Tag::nchw)}},
       affine.impl_info_str()});
  return s.keep(normal);
}
#endif

TensorId OnednnSequence::max_pool(TensorId x, std::int64_t window) {
  Impl& s = *impl_;
  const memory::dims d = s.dims(x);
  const dnnl::pooling_forward::primitive_desc pd(s.engine, dnnl::prop_kind::forward_inference,
                                                 dnnl::algorithm::pooling_max, s.tensors[x].get_desc(),
                                                 Impl::any({d[0], d[1], d[2] / window, d[3] / window}),
                                                 {window, window}, {window, window}, {0, 0}, {0, 0}, {0, 0});
  const memory dst = s.allocate(pd.dst_desc());
  s.steps.push_back(
      {dnnl::pooling_forward(pd), {{DNNL_ARG_SRC, s.tensors[x]}, {DNNL_ARG_DST, dst}}, pd.impl_info_str()});
  return s.keep(dst);
}

TensorId OnednnSequence::upsample_nearest(TensorId x, std::int64_t factor) {
  Impl& s = *impl_;
  const memory::dims d = s.dims(x);
  const dnnl::resampling_forward::primitive_desc pd(s.engine, dnnl::prop_kind::forward_inference,
                                                    dnnl::algorithm::resampling_nearest, s.tensors[x].get_desc(),
                                                    Impl::any({d[0], d[1], d[2] * factor, d[3] * factor}));
  const memory dst = s.allocate(pd.dst_desc());
  s.steps.push_back(
      {dnnl::resampling_forward(pd), {{DNNL_ARG_SRC, s.tensors[x]}, {DNNL_ARG_DST, dst}}, pd.impl_info_str()});
  return s.keep(dst);
}

TensorId OnednnSequence::concat(const std::vector<TensorId>& xs) {
  Impl& s = *impl_;
  std::vector<memory::desc> sources;
  for (const TensorId x : xs) sources.push_back(s.tensors[x].get_desc());
  const dnnl::concat::primitive_desc pd(s.engine, 1, sources);
  const memory dst = s.allocate(pd.dst_desc());
  Impl::Step step{dnnl::concat(pd), {{DNNL_ARG_DST, dst}}, pd.impl_info_str()};
  for (std::size_t i = 0; i < xs.size(); ++i)
    step.arguments.emplace(DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i), s.tensors[xs[i]]);
  s.steps.push_back(std::move(step));
  return s.keep(dst);
}

void OnednnSequence::output(TensorId x) {
  impl_->output = impl_->reordered(impl_->tensors[x], {impl_->dims(x), f32, Tag::nchw});
}

void OnednnSequence::write_input(std::span<const float> values) {
  if (values.size_bytes() != impl_->input.get_desc().get_size())
    throw std::invalid_argument("the input has another size");
  std::memcpy(impl_->input.get_data_handle(), values.data(), values.size_bytes());
}

void OnednnSequence::run() {
  for (const auto& step : impl_->steps) step.primitive.execute(impl_->stream, step.arguments);
  impl_->stream.wait();
}

std::vector<float> OnednnSequence::read_output() const {
  std::vector<float> values(impl_->output.get_desc().get_size() / sizeof(float));
  std::memcpy(values.data(), impl_->output.get_data_handle(), values.size() * sizeof(float));
  return values;
}

std::string OnednnSequence::describe() const {
  std::string text;
  for (const auto& step : impl_->steps) text += step.name + "\n";
  return text;
}

}  // namespace unisono::bench
