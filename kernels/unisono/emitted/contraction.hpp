#pragma once
// Products and convolutions in float64, and operands and outputs by where they lie in memory.

#include "unisono/emitted/values.hpp"

namespace unisono::emitted {

// A sum over taps of the filter, each channels times a matrix. A product is a convolution of images of one column with
// one tap, and a filter for each. Of three axes: planes, image rows, image columns.
struct Contraction {
  long long extents[3], channels, groups;
  long long taps[3], stride[3], before[3], dilation[3];
  long long planes_of_output;
  bool transposed;  // a transposed convolution
  bool channels_first;
  bool product, columns_a, columns_b;  // A is (k, m), B is (k, n)
  double rounding;                     // of the accumulator, relative to the sum of the products' magnitudes
  bool tf32;

  constexpr long long tap_count() const { return taps[0] * taps[1] * taps[2]; }
  constexpr long long pixels() const { return extents[0] * extents[1] * extents[2]; }

  // Where output place p meets tap t, or -1
  long long input(int axis, long long p, long long t) const {
    long long i = p * stride[axis] - before[axis] + t * dilation[axis];
    if (transposed) {
      i = p + before[axis] - t * dilation[axis];
      if (i < 0 || i % stride[axis] != 0) return -1;
      i /= stride[axis];
    }
    return i < 0 || i >= extents[axis] ? -1 : i;
  }
};

// (images, pixels, channels)
inline std::vector<double> image_of(const Space& s, const Contraction& c, const std::vector<double>& memory) {
  if (!c.channels_first && !c.columns_a) return memory;
  std::vector<double> x(memory.size());
  for (long long image = 0; image < s.images; ++image)
    for (long long pixel = 0; pixel < c.pixels(); ++pixel)
      for (long long channel = 0; channel < c.channels; ++channel)
        x[size_t((image * c.pixels() + pixel) * c.channels + channel)] =
            memory[size_t((image * c.channels + channel) * c.pixels() + pixel)];
  return x;
}

// (taps, channels of a group, columns); of products (batch, k, n)
inline std::vector<double> filter_of(const Space& s, const Contraction& c, const std::vector<double>& memory) {
  if (c.product && c.columns_b) return memory;
  std::vector<double> w(memory.size());
  const long long channels = c.channels / c.groups, columns = s.columns / c.groups, taps = c.tap_count();
  const long long matrices = c.product ? s.images : taps;
  for (long long tap = 0; tap < matrices; ++tap)
    for (long long channel = 0; channel < channels; ++channel)
      for (long long column = 0; column < s.columns; ++column) {
        const long long of_all = column / columns * channels + channel, of_group = column % columns;
        long long from = 0;
        if (c.product)  // (batch, n, k)
          from = (tap * s.columns + column) * channels + channel;
        else if (c.transposed)
          from = c.channels_first ? (of_all * columns + of_group) * taps + tap
                                  : (of_all * taps + tap) * columns + of_group;
        else
          from = c.channels_first ? (column * channels + channel) * taps + tap
                                  : (column * taps + tap) * channels + channel;
        w[size_t((tap * channels + channel) * s.columns + column)] = memory[size_t(from)];
      }
  return w;
}

inline void add_tap(const Space& s, const Contraction& c, const double* x, const double* w, double* sum, double* size) {
  const long long channels = c.channels / c.groups, columns = s.columns / c.groups;
  for (long long group = 0; group < c.groups; ++group)
    for (long long channel = 0; channel < channels; ++channel) {
      const double factor = x[group * channels + channel];
      const double* row = w + channel * s.columns + group * columns;
      double *to = sum + group * columns, *of_size = size + group * columns;
      for (long long j = 0; j < columns; ++j) {
        const double term = factor * row[j];
        to[j] += term, of_size[j] += fabs(term);
      }
    }
}

// Both factors as they lie in memory
inline Values multiplied(const Space& s, const Contraction& c, std::vector<double> a, std::vector<double> b) {
  if (c.tf32)
    for (std::vector<double>* factor : {&a, &b})
      for (double& x : *factor) x = rounded(x, Type::tf32);
  const std::vector<double> x = image_of(s, c, a), w = filter_of(s, c, b);
  Values result(s.rows(), s.columns);
  const long long height = s.height / c.planes_of_output, matrix = c.channels / c.groups * s.columns;
  over_rows(s.rows(), [&](long long first, long long last) {
    for (long long row = first; row < last; ++row) {
      double *sum = &result.value[size_t(row * s.columns)], *size = &result.error[size_t(row * s.columns)];
      const long long image = row / s.rows_of_image(), line = row % s.rows_of_image() / s.width;
      for (long long tap = 0; tap < c.tap_count(); ++tap) {
        const long long plane = c.input(0, line / height, tap / (c.taps[1] * c.taps[2])),
                        h = c.input(1, line % height, tap / c.taps[2] % c.taps[1]),
                        v = c.input(2, row % s.width, tap % c.taps[2]);
        if (plane < 0 || h < 0 || v < 0) continue;
        const long long pixel = (plane * c.extents[1] + h) * c.extents[2] + v;
        add_tap(s, c, &x[size_t((image * c.pixels() + pixel) * c.channels)],
                &w[size_t((c.product ? image : tap) * matrix)], sum, size);
      }
      for (long long j = 0; j < s.columns; ++j) size[j] = c.rounding * size[j] + 0x1p-120;
    }
  });
  return result;
}

// How a tensor lies: row by row; an image's channels, each with its pixels; or, of operands that are repeated, by the
// coordinates of a row that it has
enum class Lie { rows, channels_first, h, w, hw };

inline size_t place(const Space& s, Lie lie, long long rows, long long columns, long long row, long long column) {
  const long long pixels = rows / s.images, pixel = row % s.rows_of_image();
  switch (lie) {
    case Lie::rows: return size_t(row * columns + column);
    case Lie::channels_first: return size_t((row / pixels * columns + column) * pixels + row % pixels);
    case Lie::h: return size_t(pixel / s.width * columns + column);
    case Lie::w: return size_t(pixel % s.width * columns + column);
    case Lie::hw: return size_t(pixel * columns + column);
  }
  return 0;
}

inline Values operand(const Space& s, const Tensor& t, Lie lie, long long rows, long long columns) {
  Values result(rows, columns);
  for (long long row = 0; row < rows; ++row)
    for (long long column = 0; column < columns; ++column)
      result.value[size_t(row * columns + column)] = t.values[place(s, lie, rows, columns, row, column)];
  return result;
}
inline Values scalar(double x) {
  Values result(1, 1);
  result.value[0] = x;
  return result;
}

// Every element of an output; all that are beyond what float32 and the output's type explain are wrong
inline bool agrees(const Space& s, const Tensor& t, const std::vector<unsigned char>& all, Lie lie,
                   const Values& wanted, const char* name) {
  long long wrong = 0, unknown = 0, numbers = 0;
  double worst = 0;
  for (long long row = 0; row < wanted.rows; ++row)
    for (long long column = 0; column < wanted.columns; ++column) {
      const size_t at = place(s, lie, wanted.rows, wanted.columns, row, column),
                   of = size_t(row * wanted.columns + column);
      const double found = read(all.data() + Tensor::kGuard + at * size_of(t.type), t.type);
      const double y = wanted.value[of], off = wanted.error[of];
      const double tolerance = off + roundoff(t.type) * (fabs(y) + off) + (t.type == Type::f16 ? 0x1p-25 : 0x1p-126);
      const double difference = fabs(found) < INFINITY ? distance(found, y) : distance(found, rounded(y, t.type));
      if (!(off < INFINITY)) {
        ++unknown;
        continue;
      }
      numbers += y == y;
      if (!(difference <= tolerance) && wrong++ < 4)
        printf("  %s: row %lld, column %lld is %.9g, expected %.9g within %.3g\n", name, row, column, found, y,
               tolerance);
      if (tolerance > 0 && difference < INFINITY) worst = std::max(worst, difference / tolerance);
    }
  const bool guarded = has_guards(all);
  printf("%s: %lld of %lld elements differ, the largest error is %.3f of its bound%s%s\n", name, wrong,
         wanted.rows * wanted.columns, worst, unknown > 0 ? ", some have none" : "",
         guarded ? "" : "; MEMORY AROUND IT WAS WRITTEN");
  return wrong == 0 && guarded && 2 * numbers > wanted.rows * wanted.columns;
}

}  // namespace unisono::emitted
