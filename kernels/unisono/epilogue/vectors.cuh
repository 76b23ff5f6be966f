// Vector forms of user functions, which take 2, 4 or 8 neighbouring channels of a row at once. Such a visitor has,
// besides `element` (epilogue/general.cuh):
//
//   static constexpr int kForms;             widths of all forms that are called, as a sum
//   template <int kWidth, int kValues> static void elements(const float (&acc)[kWidth], columns, tensors,
//       const Uniform&, rows, const Where&, int channel, u32 offset, int count, Result (&)[kWidth],
//       float (&value)[kWidth][kValues]);    `element` of the channels from `channel` on, a multiple of kWidth; `count`
//                                            of them exist; offset: m * channels of the output, modulo 2^32
//
// A form of w elements is called where w of them exist, and their first one's channel and place m * channels + channel
// are multiples of w: memory that lies as the output does is then aligned as its first element is. What is left over is
// called by narrower forms, single elements in the end.
#pragma once
#include "unisono/ptx/types.cuh"

namespace unisono {

// Eight elements. Loads and stores have at most 16 bytes.
struct alignas(16) float8 {
  float4 low, high;
};

template <class Visitor, class = void>
struct FormsOf {
  static constexpr bool kAny = false;
};
template <class Visitor>
struct FormsOf<Visitor, typename Said<Visitor::kForms>::Type> {
  static constexpr bool kAny = true;
};

// Some of the elements of an array.
template <int kCount, int kAt>
struct Elements {
  static constexpr int kWidth = kCount, kFirst = kAt;
};
template <int i>
UNISONO_DEVICE float vector_of(const float* x, Elements<1, i>) {
  return x[i];
}
template <int i>
UNISONO_DEVICE float2 vector_of(const float* x, Elements<2, i>) {
  return {x[i], x[i + 1]};
}
template <int i>
UNISONO_DEVICE float4 vector_of(const float* x, Elements<4, i>) {
  return {x[i], x[i + 1], x[i + 2], x[i + 3]};
}
template <int i>
UNISONO_DEVICE float8 vector_of(const float* x, Elements<8, i>) {
  return {vector_of(x, Elements<4, i>{}), vector_of(x, Elements<4, i + 4>{})};
}
template <int i>
UNISONO_DEVICE void set_vector(float* to, Elements<1, i>, float x) {
  to[i] = x;
}
template <int i>
UNISONO_DEVICE void set_vector(float* to, Elements<2, i>, const float2& x) {
  to[i] = x.x, to[i + 1] = x.y;
}
template <int i>
UNISONO_DEVICE void set_vector(float* to, Elements<4, i>, const float4& x) {
  to[i] = x.x, to[i + 1] = x.y, to[i + 2] = x.z, to[i + 3] = x.w;
}
template <int i>
UNISONO_DEVICE void set_vector(float* to, Elements<8, i>, const float8& x) {
  set_vector(to, Elements<4, i>{}, x.low), set_vector(to, Elements<4, i + 4>{}, x.high);
}

// Calls f(Elements) for the first `count` of kWidth elements, each once and in order.
template <int kForms, int kWidth, int kFirst = 0, class F>
UNISONO_DEVICE void in_vectors(u32 offset, int count, const F& f) {
  if constexpr (kWidth == 1) {
    if (kFirst < count) f(Elements<1, kFirst>{});
  } else {
    if constexpr ((kForms & kWidth) != 0) {
      if (offset % kWidth == 0 && kFirst + kWidth <= count) return f(Elements<kWidth, kFirst>{});
    }
    in_vectors<kForms, kWidth / 2, kFirst>(offset, count, f);
    in_vectors<kForms, kWidth / 2, kFirst + kWidth / 2>(offset, count, f);
  }
}

// Calls f(e, sum, columns, operands, row, channel, exists) for each of the elements.
template <int kWidth, class Row, class F>
UNISONO_DEVICE void for_elements(const float (&acc)[kWidth], const float* const (&column)[kWidth],
                                 const float* const (&tensor)[kWidth], const Row (&row)[kWidth], int channel, int count,
                                 const F& f) {
#pragma unroll
  for (int e = 0; e < kWidth; ++e) f(e, acc[e], column[e], tensor[e], row[e], channel + e, e < count);
}

// Neighbouring elements of a row, each with its columns and operands: by the visitor's vector forms, if it has any, or
// one by one. The first `count` exist, as exists(e) says. What they add to reductions goes to `values`.
template <class Visitor, bool = FormsOf<Visitor>::kAny>
struct RowElements {
  using Result = typename Visitor::Result;
  template <int kWidth, int kValues, class Columns, class Tensors, class Uniform, class Row, class Where, class Exists>
  static UNISONO_DEVICE void compute(const float (&acc)[kWidth], const Columns& columns, const Tensors& tensors,
                                     const Uniform& uniform, const Row (&rows)[kWidth], const Where& at, int channel,
                                     u32 offset, int count, const Exists&, Result (&results)[kWidth],
                                     float (&values)[kWidth][kValues]) {
    const float* column[kWidth];
    const float* tensor[kWidth];
#pragma unroll
    for (int e = 0; e < kWidth; ++e) column[e] = columns[e], tensor[e] = tensors[e];
    Visitor::elements(acc, column, tensor, uniform, rows, at, channel, offset, count, results, values);
  }
};
template <class Visitor>
struct RowElements<Visitor, false> {
  using Result = typename Visitor::Result;
  template <int kWidth, int kValues, class Columns, class Tensors, class Uniform, class Row, class Where, class Exists>
  static UNISONO_DEVICE void compute(const float (&acc)[kWidth], const Columns& columns, const Tensors& tensors,
                                     const Uniform& uniform, const Row (&rows)[kWidth], const Where& at, int channel,
                                     u32, int, const Exists& exists, Result (&results)[kWidth],
                                     float (&values)[kWidth][kValues]) {
#pragma unroll
    for (int e = 0; e < kWidth; ++e)
      results[e] =
          Visitor::element(acc[e], columns[e], tensors[e], uniform, rows[e], at, channel + e, exists(e), values[e]);
  }
};

}  // namespace unisono
