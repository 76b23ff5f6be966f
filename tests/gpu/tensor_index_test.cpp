// Gathers and scatters against the CPU's.

#include <gtest/gtest.h>

#include "gpu/tensor_problem.hpp"
#include "runtime/cpu/ops/indices.hpp"
#include "support/says.hpp"
#include "tensors/indexed.hpp"

namespace unisono::gpu {
namespace {

using tensors::Launches;

constexpr DType types_by_bytes[] = {DType::i8, DType::f16, DType::f32, DType::i64};

void run(const plan::Expected<Launches>& launches, const std::vector<LaidTensor*>& tensors,
         std::string* fault = nullptr) {
  ASSERT_TRUE(launches) << launches.refusal().text();
  run_on_gpu(*launches, tensors, fault);
}

LaidTensor random_numbers(DType t, const Extents& shape, std::mt19937_64& random) {
  LaidTensor x = random_layout(stored(t), shape, random);
  fill_between(x, random, -50, 50);
  return x;
}

// Indices of an axis, from either end
LaidTensor random_indices(DType t, const Extents& shape, std::int64_t extent, std::mt19937_64& random) {
  LaidTensor x = random_layout(stored(t), shape, random);
  fill_between(x, random, static_cast<double>(-extent), static_cast<double>(extent - 1));
  return x;
}

// The same elements, dense: the CPU's result goes where nothing is yet
LaidTensor like(const LaidTensor& x) { return dense_tensor(x.at.type, x.at.shape); }

TEST(TensorSmall, GathersOfSlicesAlongAnyAxis) {
  std::mt19937_64 random(21);
  for (int time = 0; time < 12; ++time) {
    const int axis = time % 3;
    const DType t = types_by_bytes[time % 4], index = time % 2 == 0 ? DType::i64 : DType::i32;
    LaidTensor x = random_numbers(t, {4, 5, 6}, random);
    LaidTensor indices =
        random_indices(index, time < 6 ? Extents{3, 2} : Extents{}, x.at.shape[static_cast<std::size_t>(axis)], random);
    Extents shape{4, 5, 6};
    shape.erase(shape.begin() + axis);
    shape.insert(shape.begin() + axis, indices.at.shape.begin(), indices.at.shape.end());
    LaidTensor to = random_layout(stored(t), shape, random);
    run(tensors::gather(axis, x.at, indices.at, to.at), {&x, &indices, &to});
    for (std::int64_t i = 0; i < element_count(shape); ++i) {
      Extents at = index_of(i, shape);
      const auto rank = static_cast<std::ptrdiff_t>(indices.at.shape.size());
      const Extents tuple(at.begin() + axis, at.begin() + axis + rank);
      auto place = static_cast<std::int64_t>(bits_of(indices, number_of(tuple, indices.at.shape)));
      if (index == DType::i32) place = static_cast<std::int32_t>(place);
      at.erase(at.begin() + axis, at.begin() + axis + rank);
      at.insert(at.begin() + axis, cpu::checked_place(place, x.at.shape[static_cast<std::size_t>(axis)]));
      ASSERT_EQ(bits_of(to, i), bits_of(x, number_of(at, x.at.shape))) << time << " " << i;
    }
  }
}

TEST(TensorSmall, GathersOfAlignedSlicesMoveLongWords) {
  std::mt19937_64 random(22);
  LaidTensor x = dense_tensor(stored(DType::bf16), {7, 24}), to = dense_tensor(stored(DType::bf16), {5, 24});
  fill_between(x, random, -50, 50);
  LaidTensor indices = random_indices(DType::i64, {5}, 7, random);
  const auto launches = tensors::gather(0, x.at, indices.at, to.at);
  EXPECT_EQ(launches->list.at(0).entry, "unisono_gather_16");
  run(launches, {&x, &indices, &to});
  for (std::int64_t i = 0; i < 5 * 24; ++i) {
    const std::int64_t row = cpu::checked_place(static_cast<std::int64_t>(bits_of(indices, i / 24)), 7);
    ASSERT_EQ(bits_of(to, i), bits_of(x, row * 24 + i % 24));
  }
}

TEST(TensorSmall, GathersOfElements) {
  std::mt19937_64 random(23);
  for (int time = 0; time < 8; ++time) {
    const int axis = time % 3;
    const DType t = types_by_bytes[time % 4];
    LaidTensor x = random_numbers(t, {4, 5, 6}, random);
    LaidTensor indices = random_indices(time % 2 == 0 ? DType::i64 : DType::i32, {3, 4, 5},
                                        x.at.shape[static_cast<std::size_t>(axis)], random);
    LaidTensor to = random_layout(stored(t), {3, 4, 5}, random), expected = like(to);
    run(tensors::gather_elements(axis, x.at, indices.at, to.at), {&x, &indices, &to});
    cpu::gather_elements(axis, x.view(), indices.view(), expected.view(), cpu::serial);
    EXPECT_EQ(difference(to, expected), "") << time;
  }
}

TEST(TensorSmall, GathersByTuples) {
  std::mt19937_64 random(24);
  struct Case {
    int batch;
    Extents x, indices, to;
  };
  const std::vector<Case> cases{{0, {4, 5, 6}, {3, 2}, {3, 6}},
                                {1, {2, 4, 5, 6}, {2, 3, 2}, {2, 3, 6}},
                                {0, {4, 4, 4}, {2, 7, 3}, {2, 7}},
                                {0, {9, 8}, {5, 1}, {5, 8}}};
  for (const Case& c : cases)
    for (const DType t : types_by_bytes) {
      LaidTensor x = random_numbers(t, c.x, random), to = random_layout(stored(t), c.to, random), expected = like(to);
      LaidTensor indices = random_indices(DType::i64, c.indices, 4, random);
      run(tensors::gather_nd(c.batch, x.at, indices.at, to.at), {&x, &indices, &to});
      cpu::gather_nd(c.batch, x.view(), indices.view(), expected.view(), cpu::serial);
      EXPECT_EQ(difference(to, expected), "") << to_string(t);
    }
}

constexpr ElementType scattered_types[] = {
    stored(DType::f32), stored(DType::i64), {DType::f32, DType::bf16}, stored(DType::u8), stored(DType::f64)};

// Replacing, and one other, since it is a kernel to compile
std::vector<ScatterReduction> reductions_of(std::size_t type) {
  constexpr ScatterReduction all[] = {ScatterReduction::add, ScatterReduction::min, ScatterReduction::mul,
                                      ScatterReduction::max};
  return {ScatterReduction::none, all[type % 4]};
}

// The CPU's result: it begins with the elements of x
template <class Scatter>
LaidTensor scattered(LaidTensor& x, LaidTensor& indices, LaidTensor& updates, const Scatter& scatter) {
  LaidTensor values = as_valued(updates), to = as_valued(x);
  scatter(indices.view(), values.view(), to.view());
  return to;
}

void expect_scattered(const LaidTensor& to, const LaidTensor& expected, ScatterReduction reduction) {
  EXPECT_EQ(difference(to, expected), "")
      << to_string(to.at.type.memory) << ", reduction " << static_cast<int>(reduction);
}

// Far more updates than places: the last wins, and sums are in order
TEST(TensorSmall, ScattersOfElements) {
  std::mt19937_64 random(25);
  for (std::size_t i = 0; i < std::size(scattered_types); ++i)
    for (const ScatterReduction reduction : reductions_of(i)) {
      const ElementType& type = scattered_types[i];
      const int axis = static_cast<int>(random() % 3);
      LaidTensor x = random_layout(type, {4, 5, 6}, random), to = random_layout(type, {4, 5, 6}, random);
      Extents shape{3, 4, 5};
      shape[static_cast<std::size_t>(axis)] = 17;
      LaidTensor updates = random_layout(type, shape, random);
      LaidTensor indices = random_indices(DType::i64, shape, x.at.shape[static_cast<std::size_t>(axis)], random);
      fill_between(x, random, -3, 3), fill_between(updates, random, -3, 3);
      const tensors::Scattered s{x.at, indices.at, updates.at, to.at};
      run(tensors::scatter_elements({axis, reduction}, s), {&x, &indices, &updates, &to});
      expect_scattered(
          to,
          scattered(x, indices, updates,
                    [&](auto at, auto u, auto y) { cpu::scatter_elements(axis, reduction, at, u, y, cpu::serial); }),
          reduction);
    }
}

TEST(TensorSmall, ScattersByTuples) {
  std::mt19937_64 random(26);
  const std::vector<Extents> tuples{{9, 1}, {3, 7, 2}, {40, 3}};
  for (std::size_t i = 0; i < std::size(scattered_types); ++i)
    for (const ScatterReduction reduction : reductions_of(i))
      for (const Extents& tuple : tuples) {
        const ElementType& type = scattered_types[i];
        const Extents shape{4, 5, 8};
        Extents slices(tuple.begin(), tuple.end() - 1);
        slices.insert(slices.end(), shape.begin() + tuple.back(), shape.end());
        LaidTensor x = random_layout(type, shape, random), to = random_layout(type, shape, random);
        LaidTensor updates = random_layout(type, slices, random),
                   indices = random_indices(DType::i32, tuple, 4, random);
        fill_between(x, random, -3, 3), fill_between(updates, random, -3, 3);
        const tensors::Scattered s{x.at, indices.at, updates.at, to.at};
        run(tensors::scatter_nd({reduction}, s), {&x, &indices, &updates, &to});
        expect_scattered(to,
                         scattered(x, indices, updates,
                                   [&](auto at, auto u, auto y) { cpu::scatter_nd(reduction, at, u, y, cpu::serial); }),
                         reduction);
      }
}

TEST(TensorSmall, ScattersOfAlignedSlicesMoveLongWords) {
  std::mt19937_64 random(27);
  const ElementType type = stored(DType::bf16);
  LaidTensor x = dense_tensor(type, {6, 16}), to = x, updates = dense_tensor(type, {4, 16});
  fill_between(x, random, -3, 3), fill_between(updates, random, -3, 3);
  LaidTensor indices = random_indices(DType::i64, {4, 1}, 6, random);
  const tensors::Scattered s{x.at, indices.at, updates.at, to.at};
  const auto launches = tensors::scatter_nd({ScatterReduction::none}, s);
  ASSERT_EQ(launches->list.size(), 4u);
  EXPECT_EQ(launches->list[3].entry, "unisono_scatter_16");
  run(launches, {&x, &indices, &updates, &to});
  LaidTensor expected = x;
  cpu::scatter_nd(ScatterReduction::none, indices.view(), updates.view(), expected.view(), cpu::serial);
  EXPECT_EQ(difference(to, expected), "");
}

TEST(TensorSmall, InPlaceNothingIsCopied) {
  std::mt19937_64 random(28);
  LaidTensor to = random_numbers(DType::i32, {10}, random), updates = random_numbers(DType::i32, {3}, random);
  LaidTensor indices = random_indices(DType::i64, {3, 1}, 10, random), expected = to;
  const tensors::Scattered s{to.at, indices.at, updates.at, to.at, true};
  const auto launches = tensors::scatter_nd({ScatterReduction::add}, s);
  EXPECT_EQ(launches->list.size(), 1u);
  run(launches, {&to, &indices, &updates, &to});
  cpu::scatter_nd(ScatterReduction::add, indices.view(), updates.view(), expected.view(), cpu::serial);
  EXPECT_EQ(difference(to, expected), "");
}

TEST(TensorSmall, AnIndexOutsideIsToldAndLeftOut) {
  std::mt19937_64 random(29);
  LaidTensor x = random_numbers(DType::i32, {5}, random), to = random_layout(stored(DType::i32), {3}, random);
  LaidTensor indices = dense_tensor(stored(DType::i64), {3});
  set_element(indices, 0, 4), set_element(indices, 1, -6), set_element(indices, 2, -5);
  std::string fault;
  run(tensors::gather(0, x.at, indices.at, to.at), {&x, &indices, &to}, &fault);
  EXPECT_THAT(fault, Says("index -6 is outside … extent 5"));
  EXPECT_EQ(bits_of(to, 0), bits_of(x, 4));
  EXPECT_EQ(bits_of(to, 1), 0u);
  EXPECT_EQ(bits_of(to, 2), bits_of(x, 0));

  for (const ScatterReduction reduction : {ScatterReduction::none, ScatterReduction::max}) {
    LaidTensor updates = random_numbers(DType::i32, {3}, random), y = x;
    set_element(indices, 1, 5), set_element(updates, 0, 60), set_element(updates, 2, 70);
    const tensors::Scattered s{x.at, indices.at, updates.at, y.at};
    run(tensors::scatter_elements({0, reduction}, s), {&x, &indices, &updates, &y}, &fault);
    EXPECT_THAT(fault, Says("index 5 is outside … extent 5"));
    EXPECT_EQ(bits_of(y, 4), 60u);
    EXPECT_EQ(bits_of(y, 0), 70u);
    EXPECT_EQ(bits_of(y, 2), bits_of(x, 2));
  }
}

}  // namespace
}  // namespace unisono::gpu
