// Matrix instructions of a warpgroup and of a warp, stmatrix and ldmatrix.

#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "emulator/grid.hpp"
#include "emulator/tma.hpp"

namespace unisono_emulator {

namespace {

float widened(std::uint16_t bits, MatrixElement element) {
  if (element == MatrixElement::bf16) {
    const std::uint32_t word = std::uint32_t{bits} << 16;
    float x;
    return std::memcpy(&x, &word, sizeof x), x;
  }
  // By its bits, since the compiler's conversion is a call
  const std::uint32_t high = std::uint32_t{bits} << 13 & 0x0fffe000u;
  const bool finite = (bits & 0x7c00u) != 0x7c00u;
  const std::uint32_t word = finite ? high : high | 0x7f800000u;
  float x;
  std::memcpy(&x, &word, sizeof x);
  if (finite) x *= 0x1p112f;  // whose exponent counts from 15, not from 127
  return (bits & 0x8000u) != 0 ? -x : x;
}

// Cut off below the tenth fractional bit.
float tf32_of(std::uint32_t word) {
  word &= 0xffffe000u;
  float x;
  return std::memcpy(&x, &word, sizeof x), x;
}

// Shared-memory operand as its descriptor says (PTX ISA, canonical layouts), swizzled; r rows of M or N, k columns:
//   K-major   ((8, m), 16 elements) with byte strides ((span, stride), element)
//   MN-major  ((span / element, m), (8, 2)) with byte strides ((element, leading), (span, stride))
class Operand {
 public:
  Operand(const Cta& cta, const MatrixOperand& operand)
      : cta_(cta),
        columns_(operand.columns),
        address_(field(operand.descriptor, 0)),
        leading_(field(operand.descriptor, 16)),
        stride_(field(operand.descriptor, 32)) {
    const auto mode = operand.descriptor >> 62;
    if (mode == 0) fail("a matrix operand that is not swizzled");
    if ((operand.descriptor >> 49 & 7) != 0) fail("a matrix operand with a base offset");
    span_ = mode == 1 ? 128 : mode == 2 ? 64 : 32;
  }
  // Elements [row, 0 to 15]; of tf32 [row, 0 to 7], cut off below their tenth fractional bit, and zeros
  void read(int row, MatrixElement element, std::span<double, 16> values) const {
    if (element == MatrixElement::tf32) return read_words(row, values);
    std::uint16_t bits[16];
    if (columns_)
      for (int k = 0; k < 16; ++k) copy(of_columns(row, k), bits + k, 2);
    else
      for (int k = 0; k < 16; k += 8) copy(of_rows(row, k), bits + k, 16);  // swizzled by 16 bytes
    if (element == MatrixElement::bf16)
      for (std::size_t k = 0; k < 16; ++k) values[k] = widened(bits[k], MatrixElement::bf16);
    else
      for (std::size_t k = 0; k < 16; ++k) values[k] = widened(bits[k], MatrixElement::f16);
  }

 private:
  void copy(std::uint32_t at, void* to, std::size_t bytes) const {
    std::memcpy(to, cta_.memory(swizzled(address_ + at, span_), bytes), bytes);
  }
  void read_words(int row, std::span<double, 16> values) const {
    if (columns_) fail("a matrix operand of tf32 that is MN-major");
    for (int k = 0; k < 16; ++k) {
      std::uint32_t bits = 0;
      if (k < 8) copy(of_rows(row, 2 * k), &bits, 4);
      values[static_cast<std::size_t>(k)] = tf32_of(bits);
    }
  }
  static std::uint32_t field(std::uint64_t descriptor, int bit) {
    return static_cast<std::uint32_t>(descriptor >> bit & 0x3fff) << 4;
  }
  std::uint32_t of_rows(int row, int k) const {
    return static_cast<std::uint32_t>(row / 8) * stride_ + static_cast<std::uint32_t>(row % 8 * span_ + 2 * k);
  }
  std::uint32_t of_columns(int row, int k) const {
    const int wide = span_ / 2;
    return static_cast<std::uint32_t>(row / wide) * leading_ + static_cast<std::uint32_t>(k / 8) * stride_ +
           static_cast<std::uint32_t>(k % 8 * span_ + 2 * (row % wide));
  }

  const Cta& cta_;
  bool columns_;
  std::uint32_t address_, leading_, stride_;
  int span_;
};

// This thread's rows of the first operand
std::array<std::array<double, 16>, 2> rows_of(const Product& p) {
  const Operand a(*current->cta, p.a);
  const int warp = static_cast<int>(current->index / 32 % 4), lane = static_cast<int>(current->index % 32);
  std::array<std::array<double, 16>, 2> rows;
  for (int half = 0; half < 2; ++half)
    a.read(16 * warp + lane / 4 + 8 * half, p.element, rows[static_cast<std::size_t>(half)]);
  return rows;
}

// The columns of the second operands of a group's products, by twos: each lane reads every 32nd
void read_columns(const std::vector<Product>& group, std::vector<ColumnPair>& pairs) {
  std::size_t count = 0;
  for (const Product& p : group) count += static_cast<std::size_t>(p.n / 2);
  if (pairs.size() < count) pairs.resize(count);
  ColumnPair* of = pairs.data();
  double column[16];
  for (const Product& p : group) {
    const Operand b(*current->cta, p.b);
    for (int i = static_cast<int>(current->index % 32); i < p.n; i += 32) {
      b.read(i, p.element, column);
      for (std::size_t k = 0; k < 16; ++k) of[i / 2][k][i % 2] = column[k];
    }
    of += p.n / 2;
  }
}

using Rows = std::array<std::array<double, 16>, 2>;

// Columns 8 j + {0, 1} for j below `kTimes`. An addition waits for the previous one of its sum, so several sums
// alternate.
template <int kTimes>
void perform(float* d, bool accumulate, const Rows& rows, const ColumnPair* columns) {
  Pair sums[kTimes][2] = {};
  for (std::size_t k = 0; k < 16; ++k)
    for (int j = 0; j < kTimes; ++j)
      for (std::size_t half = 0; half < 2; ++half) sums[j][half] += rows[half][k] * columns[4 * j][k];
  for (int i = 0; i < 4 * kTimes; ++i)
    d[i] = static_cast<float>((accumulate ? static_cast<double>(d[i]) : 0) + sums[i / 4][i / 2 % 2][i % 2]);
}

// This thread's share of a product: rows 16 warp + lane / 4 (+ 8), columns 8 j + 2 (lane % 4) + {0, 1}
void perform(const Product& p, const ColumnPair* columns) {
  const Rows rows = p.rows ? *p.rows : rows_of(p);
  columns += current->index % 4;
  int j = 0;
  for (; j + 4 <= p.n / 8; j += 4) perform<4>(p.d + 4 * j, p.accumulate, rows, columns + 4 * j);
  for (; j < p.n / 8; ++j) perform<1>(p.d + 4 * j, p.accumulate, rows, columns + 4 * j);
}

}  // namespace

void multiply(float* d, MatrixOperand a, MatrixOperand b, int n, MatrixElement element, bool accumulate) {
  if (current->open_products.empty()) current->open_products.reserve(8);
  current->open_products.push_back({d, a, b, n, element, accumulate, nullptr});
}

void multiply_of_fragments(float* d, const std::uint32_t* a, MatrixOperand b, int n, MatrixElement element,
                           bool accumulate) {
  Warp& warp = current->warp();
  const unsigned lane = current->index % 32;
  std::array<std::array<double, 16>, 2> rows;
  for (std::size_t r = 0; r < 4; ++r) warp.fragments[r][lane] = a[r];
  sync_warp();
  for (std::size_t r = 0; r < 4; ++r)  // rows l / 4, then + 8, of depths 0 to 7, then of 8 to 15
    for (std::size_t k = 0; k < 8; ++k) {
      const std::uint32_t pair = warp.fragments[r][lane / 4 * 4 + k / 2];
      rows[r % 2][r / 2 * 8 + k] = widened(static_cast<std::uint16_t>(pair >> 16 * (k % 2)), element);
    }
  sync_warp();
  current->open_products.push_back(
      {d, {}, b, n, element, accumulate, std::make_unique<const std::array<std::array<double, 16>, 2>>(rows)});
}

void multiply_commit() {
  current->products.push_back(std::move(current->open_products));
  current->open_products.clear();
  sync_warp();
}

void multiply_wait(int pending) {
  auto& columns = current->warp().columns;
  for (auto& groups = current->products; static_cast<int>(groups.size()) > pending; groups.pop_front()) {
    read_columns(groups.front(), columns);
    sync_warp();
    const ColumnPair* of = columns.data();
    for (const Product& p : groups.front()) perform(p, std::exchange(of, of + p.n / 2));
    sync_warp();
  }
  sync_warp();
}

namespace {

// A row of a, or a column of b, of which the registers `low` and `high` hold either half of the depths
template <MatrixElement kElement>
std::array<double, 16> row_of(const Warp& warp, unsigned low, unsigned high, unsigned row) {
  std::array<double, 16> values{};
  for (unsigned half = 0; half < 2; ++half) {
    const std::uint32_t* quad = warp.fragments[half == 0 ? low : high] + 4 * row;
    for (unsigned w = 0; w < 4; ++w)
      if constexpr (kElement == MatrixElement::tf32)
        values[4 * half + w] = tf32_of(quad[w]);
      else
        for (unsigned e = 0; e < 2; ++e)
          values[8 * half + 2 * w + e] = widened(static_cast<std::uint16_t>(quad[w] >> 16 * e), kElement);
  }
  return values;
}

template <MatrixElement kElement>
void multiply_rows(float* d, const Warp& warp, unsigned lane) {
  const std::array rows{row_of<kElement>(warp, 0, 2, lane / 4), row_of<kElement>(warp, 1, 3, lane / 4)};
  const std::array columns{row_of<kElement>(warp, 4, 5, lane % 4 * 2), row_of<kElement>(warp, 4, 5, lane % 4 * 2 + 1)};
  double sums[4] = {d[0], d[1], d[2], d[3]};  // beside one another, since each waits for its last addition
  for (std::size_t k = 0; k < 16; ++k)
    for (std::size_t i = 0; i < 4; ++i) sums[i] += rows[i / 2][k] * columns[i % 2][k];
  for (std::size_t i = 0; i < 4; ++i) d[i] = static_cast<float>(sums[i]);
}

}  // namespace

// Lane l: rows l / 4 and l / 4 + 8 of d and a, row l / 4 of b; columns of d 2 (l % 4) + {0, 1}. A register is a pair of
// depths, 2 (l % 4) + {0, 1}, or one of tf32, l % 4; the further registers have those 8, or 4, deeper.
void multiply_fragments(float* d, const std::uint32_t* a, const std::uint32_t* b, MatrixElement element) {
  Warp& warp = current->warp();
  const unsigned lane = current->index % 32;
  for (unsigned r = 0; r < 6; ++r) warp.fragments[r][lane] = r < 4 ? a[r] : b[r - 4];
  sync_warp();
  if (element == MatrixElement::bf16) multiply_rows<MatrixElement::bf16>(d, warp, lane);
  if (element == MatrixElement::f16) multiply_rows<MatrixElement::f16>(d, warp, lane);
  if (element == MatrixElement::tf32) multiply_rows<MatrixElement::tf32>(d, warp, lane);
  sync_warp();
}

void store_matrices(std::uint32_t row, const std::uint32_t* registers, int count, bool transposed) {
  Warp& warp = current->warp();
  const unsigned lane = current->index % 32;
  warp.exchanged[lane] = row;
  sync_warp();
  for (int m = 0; m < count; ++m) {
    const std::uint32_t* rows = warp.exchanged + 8 * m;
    const std::uint32_t pair = registers[m];
    if (transposed)
      for (unsigned e = 0; e < 2; ++e) {
        const auto value = static_cast<std::uint16_t>(pair >> 16 * e);
        std::memcpy(current->cta->memory(rows[lane % 4 * 2 + e] + lane / 4 * 2, 2), &value, 2);
      }
    else
      std::memcpy(current->cta->memory(rows[lane / 4] + lane % 4 * 4, 4), &pair, 4);
  }
  sync_warp();
}

void load_matrices(std::uint32_t row, std::uint32_t* registers, int count, bool transposed) {
  Warp& warp = current->warp();
  const unsigned lane = current->index % 32;
  warp.exchanged[lane] = row;
  sync_warp();
  for (int m = 0; m < count; ++m) {
    const std::uint32_t* rows = warp.exchanged + 8 * m;
    std::uint32_t pair = 0;
    if (!transposed) std::memcpy(&pair, current->cta->memory(rows[lane / 4] + lane % 4 * 4, 4), 4);
    for (unsigned e = 0; transposed && e < 2; ++e) {
      std::uint16_t value;
      std::memcpy(&value, current->cta->memory(rows[lane % 4 * 2 + e] + lane / 4 * 2, 2), 2);
      pair |= std::uint32_t{value} << 16 * e;
    }
    registers[m] = pair;
  }
  sync_warp();
}

namespace {

void perform(const AsyncCopy& copy) {
  std::uint8_t value[16] = {};
  std::memcpy(value, copy.from, copy.read);
  std::memcpy(current->cta->memory(copy.to, copy.bytes), value, copy.bytes);
}

}  // namespace

// At once, or when it is waited for: kernels know neither
void async_copy(std::uint32_t to, const void* from, std::uint32_t read, std::uint32_t bytes) {
  if (read > bytes) fail("cp.async of more bytes than it copies");
  if (to % bytes != 0 || reinterpret_cast<std::uintptr_t>(from) % bytes != 0)
    fail("cp.async at no multiple of the bytes that it copies");
  const AsyncCopy copy{to, from, read, bytes};
  if (grid->random() % 4 == 0)
    perform(copy);
  else
    current->open_async.push_back(copy);
}
void async_commit() { current->async.push_back(std::exchange(current->open_async, {})); }
void async_wait(int pending) {
  for (; current->async.size() > static_cast<std::size_t>(pending); current->async.pop_front())
    for (const AsyncCopy& copy : current->async.front()) perform(copy);
}

}  // namespace unisono_emulator
