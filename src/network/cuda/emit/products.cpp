/// Products of computed tensors by the tensor cores.

#include <algorithm>

#include "network/cuda/emit/emission.hpp"
#include "network/cuda/emit/product_launches.hpp"
#include "products/matrix_product.hpp"

namespace unisono::network::gpu {

namespace {

// Batches that are repeated or have an extent of 1 count as none
void set_batch(BatchSpace& space, std::size_t axis, std::int64_t extent) { space.extents[axis] = count32(extent); }

BatchSpace one_batch() {
  BatchSpace space{};
  std::fill_n(space.extents, kBatchAxes, 1);
  return space;
}

// An operand of MatMul as batches of matrices; axes of the result that have an extent of 1 are left out
BatchedMatrix matrix_of(const Sizes& own, const Sizes& strides, const Sizes& result) {
  BatchedMatrix m{};
  const std::size_t rank = own.size(), ahead = result.size() - rank;
  std::size_t axis = 0;
  for (std::size_t i = 0; i + 2 < result.size(); ++i) {
    if (result[i] == 1) continue;
    m.batch[axis++] = i < ahead || own[i - ahead] == 1 ? 0 : strides[i - ahead];
  }
  m.row = strides[rank - 2], m.column = strides[rank - 1];
  return m;
}

}  // namespace

void emit_product(RegionEmission& e) {
  const TensorId a = e.input(0), b = e.input(1), c = e.output();
  const Sizes& result = e.sizes(c);
  products::MatrixProduct product{.element = e.in.element};
  MatrixProductParams& p = product.extents;
  p.batches = one_batch();
  std::size_t axis = 0;
  for (std::size_t i = 0; i + 2 < result.size(); ++i)
    if (result[i] != 1) set_batch(p.batches, axis++, result[i]);
  p.rows = count32(result[result.size() - 2]), p.columns = count32(result.back());
  p.depth = count32(e.sizes(a).back());
  p.a = matrix_of(e.sizes(a), e.strides(a), result), p.b = matrix_of(e.sizes(b), e.strides(b), result);
  p.c = matrix_of(result, e.strides(c), result);
  const products::Kernel kernel = products::matrix_product(product);
  std::vector<PlacedMatrix> placed;
  for (const TensorId id : {a, b, c}) placed.push_back({e.tensor(id).at, 0, e.all_of(id)});
  const double batch = products::count(p.batches), rows = p.rows, columns = p.columns, depth = p.depth;
  const ProductWork work{2 * batch * rows * columns * depth, batch * (rows * depth + depth * columns + rows * columns)};
  add_launch(e, kernel, p, work, placed, [](MatrixProductParams& q, const auto& at) {
    q.a.memory = at(0), q.b.memory = at(1), q.c.memory = at(2);
  });
}

}  // namespace unisono::network::gpu
