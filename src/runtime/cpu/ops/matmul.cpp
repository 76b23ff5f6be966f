#include "runtime/cpu/ops/matmul.hpp"

#include <omp.h>

#include <vector>

#include "runtime/cpu/dnnl_support.hpp"
#include "runtime/cpu/ops/copy.hpp"

namespace coda::cpu {

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

// Plain loops for what oneDNN has no type for
template <class T>
void multiply(const Strided& a, const Strided& b, const Strided& y) {
  const std::size_t r = y.shape.size();
  const std::int64_t m = y.shape[r - 2], n = y.shape[r - 1], depth = a.shape[r - 1];
  const Extents64 batch(y.shape.begin(), y.shape.end() - 2);
  const auto strides = [&](const Strided& x) {
    Extents64 s(x.strides.begin(), x.strides.end() - 2);
    for (std::size_t i = 0; i < s.size(); ++i)
      if (x.shape[i] == 1) s[i] = 0;
    return s;
  };
  const Extents64 sa = strides(a), sb = strides(b), sy = strides(y);
  Odometer oa(batch, sa), ob(batch, sb), oy(batch, sy);
  for (std::int64_t image = 0; image < count_of(batch); ++image, oa.next(), ob.next(), oy.next())
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        using Sum = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;
        Sum sum = 0;
        for (std::int64_t k = 0; k < depth; ++k)
          sum += static_cast<Sum>(
                     static_cast<const T*>(a.data)[oa.offset() + i * a.strides[r - 2] + k * a.strides[r - 1]]) *
                 static_cast<Sum>(
                     static_cast<const T*>(b.data)[ob.offset() + k * b.strides[r - 2] + j * b.strides[r - 1]]);
        static_cast<T*>(y.data)[oy.offset() + i * y.strides[r - 2] + j * y.strides[r - 1]] = static_cast<T>(sum);
      }
}

}  // namespace

void matmul(const Strided& a, const Strided& b, const Strided& y, int threads) {
  if (count_of(y.shape) == 0) return;
  if (y.dtype != DType::f32 || a.shape.back() == 0) return with_type(y.dtype, [&]<class T>() { multiply<T>(a, b, y); });
  const Threads here(threads);
  const Dense da = packed(a), db = packed(b), dy(y);
  const dnnl::matmul::primitive_desc pd(dnnl_engine(), desc_of(a.shape), desc_of(b.shape), desc_of(y.shape));
  run(dnnl::matmul(pd), {{DNNL_ARG_SRC, desc_of(a.shape), da.data()},
                         {DNNL_ARG_WEIGHTS, desc_of(b.shape), db.data()},
                         {DNNL_ARG_DST, desc_of(y.shape), dy.data()}});
  unpack(dy, y);
}

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

}  // namespace coda::cpu
