#include "runtime/cpu/ops/matmul.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cpu/chains.hpp"
#include "runtime/cpu/dnnl_support.hpp"
#include "runtime/cpu/ops/copy.hpp"
#include "runtime/cpu/scratch.hpp"

namespace unisono::cpu {

namespace {

using dnnl::memory;

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

// Multiplications and additions of a task: a few times what calling oneDNN costs
constexpr std::int64_t task_work = 1 << 19;
constexpr std::int64_t least_rows = 16;  // fewest rows of a task: what a kernel computes at once

// One matrix of a batch as oneDNN reads it: in place if rows or columns are contiguous, else from a dense copy
class Side {
 public:
  Side(const Strided& x, const Extents64& batch, bool written);
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  bool in_place() const { return in_place_; }
  std::size_t copy_bytes() const {
    return in_place_ ? 0 : aligned_size(static_cast<std::size_t>(rows_ * columns_) * sizeof(float));
  }
  memory::desc desc(std::int64_t rows) const;
  /// Element (first, 0) of a matrix of the batch.
  float* at(void* data, const Extents64& batch, std::int64_t image, std::int64_t first) const;
  /// From memory into a dense copy of some rows, or back.
  void copy_rows(float* there, std::int64_t rows, float* dense, bool back) const;

 private:
  Extents64 batch_strides_;
  std::int64_t rows_, columns_, row_stride_, column_stride_;
  bool in_place_;
};

Side::Side(const Strided& x, const Extents64& batch, bool written)
    : batch_strides_(x.strides.begin(), x.strides.end() - 2),
      rows_(x.shape[batch.size()]),
      columns_(x.shape[batch.size() + 1]),
      row_stride_(x.strides[batch.size()]),
      column_stride_(x.strides[batch.size() + 1]) {
  for (std::size_t i = 0; i < batch.size(); ++i)
    if (x.shape[i] == 1) batch_strides_[i] = 0;
  // an extent of 1 may have any stride; oneDNN wants one that a dense matrix could have
  if (columns_ == 1) column_stride_ = 1;
  if (rows_ == 1) row_stride_ = column_stride_ == 1 ? columns_ : 1;
  const bool by_rows = column_stride_ == 1 && row_stride_ >= columns_;
  const bool by_columns = row_stride_ == 1 && column_stride_ >= rows_;
  in_place_ = by_rows || (by_columns && !written);  // oneDNN writes rows
  // its product with a vector, from 3.7 on, takes the vector and the result for dense, whatever their strides
  if (rows_ == 1 || columns_ == 1)
    in_place_ = (rows_ == 1 || row_stride_ == 1) && (columns_ == 1 || column_stride_ == 1);
}

memory::desc Side::desc(std::int64_t rows) const {
  const Extents64 dense{columns_, 1}, own{row_stride_, column_stride_};
  return {{rows, columns_}, memory::data_type::f32, in_place_ ? own : dense};
}

float* Side::at(void* data, const Extents64& batch, std::int64_t image, std::int64_t first) const {
  Odometer walk(batch, batch_strides_);
  walk.seek(image);
  return static_cast<float*>(data) + walk.offset() + first * row_stride_;
}

void Side::copy_rows(float* there, std::int64_t rows, float* dense, bool back) const {
  const Extents64 shape{rows, columns_}, own{row_stride_, column_stride_}, packed{columns_, 1};
  if (back)
    copy(shape, dense, packed, there, own, serial);
  else
    copy(shape, there, own, dense, packed, serial);
}

struct Product {
  Callable call;               // a, b, y, scratchpad
  std::size_t scratchpad = 0;  // bytes
};

// Moves on to the implementation that adds up long sums in parts, if there is one: oneDNN's first choice adds the
// products one after the other
void divide_sums(dnnl::matmul::primitive_desc& d) {
  dnnl::matmul::primitive_desc other = d;
  while (other.next_impl())
    if (std::string(other.impl_info_str()).starts_with("gemm:jit")) {
      d = other;
      return;
    }
}

Product make_product(const Side& a, const Side& b, const Side& y, std::int64_t rows) {
  const SingleThreaded single;
  const Making making;
  const dnnl::primitive_attr attr = with_own_scratchpad();
  const memory::desc da = a.desc(rows), db = b.desc(b.rows()), dy = y.desc(rows);
  dnnl::matmul::primitive_desc d(dnnl_engine(), da, db, dy, attr);
  if (b.rows() > longest_chain && rows > 1) divide_sums(d);
  const memory::desc pad = d.scratchpad_desc();
  return {Callable(dnnl::matmul(d),
                   {{DNNL_ARG_SRC, da}, {DNNL_ARG_WEIGHTS, db}, {DNNL_ARG_DST, dy}, {DNNL_ARG_SCRATCHPAD, pad}}),
          pad.get_size()};
}

class FloatProduct {
 public:
  FloatProduct(const Strided& a, const Strided& b, const Strided& y, const Extents64& batch);
  void run(void* a, void* b, void* y, const Parallel& parallel, const OperatorScratch& scratch) const;
  std::size_t thread_bytes() const { return pad_ + a_.copy_bytes() + b_.copy_bytes() + y_.copy_bytes(); }

 private:
  void run_task(std::int64_t task, void* a, void* b, void* y, std::byte* scratch) const;
  std::int64_t chunks() const { return (y_.rows() + chunk_ - 1) / chunk_; }

  Extents64 batch_;
  Side a_, b_, y_;
  std::int64_t chunk_;  // rows of a task
  Product whole_, rest_;
  std::size_t pad_;  // bytes of oneDNN's scratchpad
};

FloatProduct::FloatProduct(const Strided& a, const Strided& b, const Strided& y, const Extents64& batch)
    : batch_(batch), a_(a, batch, false), b_(b, batch, false), y_(y, batch, true) {
  const std::int64_t rows = task_work / (b_.rows() * b_.columns()) / least_rows * least_rows;
  // a copy of b serves all rows, unless it is small
  chunk_ = b_.in_place() || b_.columns() == 1 ? std::min(y_.rows(), std::max(rows, least_rows)) : y_.rows();
  whole_ = make_product(a_, b_, y_, chunk_);
  const std::int64_t rest = y_.rows() % chunk_;
  rest_ = rest == 0 ? whole_ : make_product(a_, b_, y_, rest);
  pad_ = aligned_size(std::max(whole_.scratchpad, rest_.scratchpad));
}

// Scratch: oneDNN's | a | b | y, those that are not read or written in place
void FloatProduct::run_task(std::int64_t task, void* a, void* b, void* y, std::byte* scratch) const {
  const std::int64_t image = task / chunks(), first = task % chunks() * chunk_;
  const std::int64_t rows = std::min(chunk_, y_.rows() - first);
  const Product& product = rows == chunk_ ? whole_ : rest_;
  float *from_a = a_.at(a, batch_, image, first), *from_b = b_.at(b, batch_, image, 0);
  float* const to = y_.at(y, batch_, image, first);
  std::byte* copy = scratch + pad_;
  if (!a_.in_place()) {
    a_.copy_rows(from_a, rows, reinterpret_cast<float*>(copy), false);
    from_a = reinterpret_cast<float*>(copy);
  }
  copy += a_.copy_bytes();
  if (!b_.in_place()) {
    b_.copy_rows(from_b, b_.rows(), reinterpret_cast<float*>(copy), false);
    from_b = reinterpret_cast<float*>(copy);
  }
  copy += b_.copy_bytes();
  float* const result = y_.in_place() ? to : reinterpret_cast<float*>(copy);
  product.call({from_a, from_b, result, scratch});
  if (!y_.in_place()) y_.copy_rows(to, rows, result, true);
}

void FloatProduct::run(void* a, void* b, void* y, const Parallel& parallel, const OperatorScratch& scratch) const {
  ScratchPieces pieces(scratch, thread_bytes());
  parallel(count_of(batch_) * chunks(), [&](std::int64_t begin, std::int64_t end) {
    const auto lease = pieces.take();
    for (std::int64_t task = begin; task < end; ++task) run_task(task, a, b, y, lease.data());
  });
}

}  // namespace

struct BatchedMatmul::State {
  Strided a, b, y;
  std::optional<FloatProduct> floats;  // none: plain loops
};

BatchedMatmul::BatchedMatmul(const Strided& a, const Strided& b, const Strided& y) {
  auto state = std::make_shared<State>(State{a, b, y, {}});
  if (y.dtype == DType::f32 && a.shape.back() > 0 && count_of(y.shape) > 0)
    with_own_errors([&] { state->floats.emplace(a, b, y, Extents64(y.shape.begin(), y.shape.end() - 2)); });
  state_ = std::move(state);
}

void BatchedMatmul::run(const void* a, const void* b, void* y, const Parallel& parallel,
                        const OperatorScratch& scratch) const {
  if (state_->floats) return state_->floats->run(const_cast<void*>(a), const_cast<void*>(b), y, parallel, scratch);
  Strided from_a = state_->a, from_b = state_->b, to = state_->y;
  from_a.data = const_cast<void*>(a);
  from_b.data = const_cast<void*>(b);
  to.data = y;
  if (count_of(to.shape) > 0) with_type(to.dtype, [&]<class T>() { multiply<T>(from_a, from_b, to); });
}

std::size_t BatchedMatmul::thread_bytes() const { return state_->floats ? state_->floats->thread_bytes() : 0; }

}  // namespace unisono::cpu
