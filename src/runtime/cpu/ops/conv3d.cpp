#include <omp.h>

#include <tuple>
#include <unordered_map>
#include <vector>

#include "runtime/cpu/dnnl_support.hpp"
#include "runtime/cpu/ops/copy.hpp"
#include "runtime/cpu/ops/matmul.hpp"

namespace unisono::cpu {

namespace {

using dnnl::memory;

// While one lives, oneDNN has this many threads on this thread
class Threads {
 public:
  explicit Threads(int n) : before_(omp_get_max_threads()) { omp_set_num_threads(n); }
  ~Threads() { omp_set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

// A tensor as dense row-major memory: its own, or a copy
class Dense {
 public:
  explicit Dense(const Strided& x) : dense_(x.strides == dense_strides(x.shape)), data_(x.data) {
    if (dense_) return;
    copy_.resize(static_cast<std::size_t>(count_of(x.shape)) * size_of(x.dtype));
    data_ = copy_.data();
  }
  bool is_own() const { return dense_; }
  void* data() const { return data_; }

 private:
  bool dense_;
  std::vector<std::byte> copy_;
  void* data_;
};

Dense packed(const Strided& x) {
  Dense d(x);
  if (!d.is_own())
    copy_elements(size_of(x.dtype), x.shape, x.data, x.strides, d.data(), dense_strides(x.shape), serial);
  return d;
}

void unpack(const Dense& d, const Strided& y) {
  if (!d.is_own())
    copy_elements(size_of(y.dtype), y.shape, d.data(), dense_strides(y.shape), y.data, y.strides, serial);
}

memory::desc desc_of(const Extents64& shape) { return {shape, memory::data_type::f32, dense_strides(shape)}; }

void run(const dnnl::primitive& p, const std::vector<std::tuple<int, memory::desc, void*>>& bindings) {
  dnnl::stream stream(dnnl_engine());
  std::unordered_map<int, memory> arguments;
  for (const auto& [argument, desc, data] : bindings) arguments.emplace(argument, memory(desc, dnnl_engine(), data));
  p.execute(stream, arguments);
  stream.wait();
}

}  // namespace

void conv3d(const Volumes& v, const Strided& x, const Strided& w, const Strided* bias, const Strided& y, int threads) {
  if (count_of(y.shape) == 0) return;
  const Threads here(threads);
  const Dense dx = packed(x), dw = packed(w), dy(y);
  // (G,K/G,C/G,…), for the transposed (G,C/G,K/G,…) read with the two exchanged
  Extents64 shape = w.shape, strides = dense_strides(w.shape);
  shape.insert(shape.begin(), v.groups);
  shape[1] /= v.groups;
  strides.insert(strides.begin(), strides[0] * shape[1]);
  if (v.transposed) {
    std::swap(shape[1], shape[2]);
    std::swap(strides[1], strides[2]);
  }
  const memory::desc filter(shape, memory::data_type::f32, strides), source = desc_of(x.shape),
                                                                     target = desc_of(y.shape);
  const memory::desc offset = bias ? desc_of(bias->shape) : memory::desc();
  Extents64 dilation = v.dilation, after = v.after;
  for (std::size_t i = 0; i < 3; ++i) {
    --dilation[i];
    if (v.transposed) after[i] -= v.output_pad[i];
  }
  std::vector<std::tuple<int, memory::desc, void*>> bindings{
      {DNNL_ARG_SRC, source, dx.data()}, {DNNL_ARG_WEIGHTS, filter, dw.data()}, {DNNL_ARG_DST, target, dy.data()}};
  if (bias) bindings.emplace_back(DNNL_ARG_BIAS, offset, bias->data);
  constexpr auto inference = dnnl::prop_kind::forward_inference;
  if (v.transposed) {
    run(dnnl::deconvolution_forward(dnnl::deconvolution_forward::primitive_desc(
            dnnl_engine(), inference, dnnl::algorithm::deconvolution_direct, source, filter, offset, target, v.stride,
            dilation, v.before, after)),
        bindings);
  } else {
    run(dnnl::convolution_forward(dnnl::convolution_forward::primitive_desc(
            dnnl_engine(), inference, dnnl::algorithm::convolution_direct, source, filter, offset, target, v.stride,
            dilation, v.before, after)),
        bindings);
  }
  unpack(dy, y);
}

}  // namespace unisono::cpu
