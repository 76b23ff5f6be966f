// Matrix instructions of a warpgroup, and stmatrix.

#include <cstring>

#include "emulator/copy_engine.hpp"
#include "emulator/grid.hpp"

namespace coda_emulator {

namespace {

float widened(std::uint16_t bits, MatrixElement element) {
  if (element == MatrixElement::bf16) {
    const std::uint32_t word = std::uint32_t{bits} << 16;
    float x;
    return std::memcpy(&x, &word, sizeof x), x;
  }
  _Float16 x;
  return std::memcpy(&x, &bits, sizeof x), static_cast<float>(x);
}

// Shared-memory operand as its descriptor says: K-major, swizzled, groups of 8 rows at a stride.
class Operand {
 public:
  Operand(const Block& block, std::uint64_t descriptor)
      : block_(block),
        address_(static_cast<std::uint32_t>(descriptor & 0x3fff) << 4),
        group_(static_cast<std::uint32_t>(descriptor >> 32 & 0x3fff) << 4) {
    const auto mode = descriptor >> 62;
    if (mode == 0) fail("a matrix operand that is not swizzled");
    if ((descriptor >> 49 & 7) != 0) fail("a matrix operand with a base offset");
    span_ = mode == 1 ? 128 : mode == 2 ? 64 : 32;
  }
  // Elements [row, 0 to 15]
  void read(int row, MatrixElement element, float (&values)[16]) const {
    const std::uint32_t first =
        address_ + static_cast<std::uint32_t>(row / 8) * group_ + static_cast<std::uint32_t>(row % 8 * span_);
    for (std::uint32_t k = 0; k < 16; ++k) {
      std::uint16_t bits;
      std::memcpy(&bits, block_.memory(swizzled(first + 2 * k, span_), 2), 2);
      values[k] = widened(bits, element);
    }
  }

 private:
  const Block& block_;
  std::uint32_t address_, group_;
  int span_;
};

double dot(const float (&a)[16], const float (&b)[16]) {
  double sum = 0;
  for (int k = 0; k < 16; ++k) sum += static_cast<double>(a[k]) * static_cast<double>(b[k]);
  return sum;
}

// This thread's share of a product: rows 16 warp + lane / 4 (+ 8), columns 8 j + 2 (lane % 4) + {0, 1}
void perform(const Product& p) {
  const Operand a(*current->block, p.a), b(*current->block, p.b);
  const int warp = static_cast<int>(current->index / 32 % 4), lane = static_cast<int>(current->index % 32);
  float rows[2][16], column[16];
  for (int half = 0; half < 2; ++half) a.read(16 * warp + lane / 4 + 8 * half, p.element, rows[half]);
  for (int j = 0; j < p.n / 8; ++j)
    for (int e = 0; e < 2; ++e) {
      b.read(8 * j + 2 * (lane % 4) + e, p.element, column);
      for (int half = 0; half < 2; ++half) {
        float& d = p.d[4 * j + 2 * half + e];
        d = static_cast<float>((p.accumulate ? static_cast<double>(d) : 0) + dot(rows[half], column));
      }
    }
}

}  // namespace

void multiply(float* d, std::uint64_t a, std::uint64_t b, int n, MatrixElement element, bool accumulate) {
  current->open_products.push_back({d, a, b, n, element, accumulate});
}

void multiply_commit() {
  current->products.push_back(std::move(current->open_products));
  current->open_products.clear();
  sync_warp();
}

void multiply_wait(int pending) {
  for (auto& groups = current->products; static_cast<int>(groups.size()) > pending; groups.pop_front())
    for (const Product& p : groups.front()) perform(p);
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
        std::memcpy(current->block->memory(rows[lane % 4 * 2 + e] + lane / 4 * 2, 2), &value, 2);
      }
    else
      std::memcpy(current->block->memory(rows[lane / 4] + lane % 4 * 4, 4), &pair, 4);
  }
  sync_warp();
}

}  // namespace coda_emulator
