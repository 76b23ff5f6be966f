// Elements moved by words of every length: broadcasts, transposes, tables, reshapes, triangles, places.

#include <gtest/gtest.h>

#include <numeric>

#include "gpu/tensor_problem.hpp"
#include "tensors/moves.hpp"

namespace unisono::gpu {
namespace {

using tensors::Launches;

constexpr DType types_by_bytes[] = {DType::u8, DType::bf16, DType::i32, DType::f64};

void run(const plan::Expected<Launches>& launches, const std::vector<LaidTensor*>& tensors) {
  ASSERT_TRUE(launches) << launches.refusal().text();
  run_on_gpu(*launches, tensors);
}

LaidTensor numbered(LaidTensor t) {
  for (std::int64_t i = 0; i < element_count(t.at.shape); ++i) set_bits(t, i, 0x0102030405060708u * (i + 1));
  return t;
}

Extents random_shape(std::uint64_t rank, std::mt19937_64& random) {
  Extents shape;
  for (; rank > 0; --rank) shape.push_back(1 + static_cast<std::int64_t>(random() % 5));
  return shape;
}

TEST(TensorSmall, MovesOfAnyLayoutAndLength) {
  std::mt19937_64 random(11);
  for (int time = 0; time < 24; ++time) {
    const ElementType type = stored(types_by_bytes[time % 4]);
    const Extents shape = random_shape(time % 7, random);
    LaidTensor x = numbered(random_layout(type, shape, random)), to = random_layout(type, shape, random);
    run(tensors::move(x.at, to.at), {&x, &to});
    EXPECT_EQ(x.dense(), to.dense()) << time;
  }
}

// 16 bytes at once, and what keeps them from it: an odd extent, an offset, an alignment that nobody knows
TEST(TensorSmall, WordsAreAsLongAsMemoryAllows) {
  const ElementType type = stored(DType::bf16);
  const auto entry = [&](const LaidTensor& x, const LaidTensor& to) {
    return tensors::move(x.at, to.at).value().list.at(0).entry;
  };
  LaidTensor x = numbered(channels_last(type, {2, 24, 3, 5})), to = channels_last(type, {2, 24, 3, 5});
  EXPECT_EQ(entry(x, to), "unisono_move_16");
  run(tensors::move(x.at, to.at), {&x, &to});
  EXPECT_EQ(x.dense(), to.dense());
  LaidTensor odd = numbered(channels_last(type, {2, 20, 3, 5})), target = channels_last(type, {2, 20, 3, 5});
  EXPECT_EQ(entry(odd, target), "unisono_move_8");
  run(tensors::move(odd.at, target.at), {&odd, &target});
  EXPECT_EQ(odd.dense(), target.dense());
  to.at.alignment = 4;
  EXPECT_EQ(entry(x, to), "unisono_move_4");
  to.at.alignment = 16, to.at.offset = 1;
  EXPECT_EQ(entry(x, to), "unisono_move_2");
}

TEST(TensorSmall, MovesBroadcastAndConvert) {
  std::mt19937_64 random(12);
  const ElementType in_bf16{DType::f32, DType::bf16};
  LaidTensor x = channels_last(in_bf16, {3, 5, 1, 4}), to = random_layout(stored(DType::f32), {2, 3, 5, 6, 4}, random);
  fill_between(x, random, -5, 5);
  run(tensors::move(x.at, to.at), {&x, &to});
  for (std::int64_t i = 0; i < element_count(to.at.shape); ++i) {
    const Extents index = index_of(i, to.at.shape);
    ASSERT_EQ(real_of(to, i), real_of(x, number_of({index[1], index[2], 0, index[4]}, x.at.shape)));
  }
  LaidTensor back = random_layout(in_bf16, to.at.shape, random);
  run(tensors::move(to.at, back.at), {&to, &back});
  EXPECT_EQ(difference(back, to), "");
}

// Axes from the back, every second one, and swapped
TEST(TensorSmall, SlicesAndTransposesAreMovesOfOtherStrides) {
  LaidTensor x = numbered(dense_tensor(stored(DType::i32), {4, 6, 10})),
             to = dense_tensor(stored(DType::i32), {10, 2, 6});
  StridedTensor from = x.at;
  from.shape = to.at.shape, from.strides = {-1, 120, 10}, from.offset = 9;
  run(tensors::move(from, to.at), {&x, &to});
  for (std::int64_t i = 0; i < 120; ++i) {
    const Extents at = index_of(i, to.at.shape);
    ASSERT_EQ(bits_of(to, i), bits_of(x, number_of({2 * at[1], at[2], 9 - at[0]}, x.at.shape)));
  }
}

TEST(TensorSmall, TablesSayWhereAxesRead) {
  std::mt19937_64 random(13);
  for (const DType t : types_by_bytes) {
    LaidTensor x = numbered(random_layout(stored(t), {2, 3, 4, 5}, random));
    LaidTensor to = random_layout(stored(t), {2, 5, 4, 7}, random);
    const std::vector<tensors::PlaceTable> tables{{}, {-1, 0, 1, 2, -1}, {}, {1, 0, 0, 4, 4, 3, 2}};
    run(tensors::take(x.at, to.at, tables, tensors::filled_with(3, t)), {&x, &to});
    LaidTensor fill = dense_tensor(stored(t), {1});
    set_element(fill, 0, 3);
    for (std::int64_t i = 0; i < element_count(to.at.shape); ++i) {
      const Extents at = index_of(i, to.at.shape);
      const int row = tables[1][static_cast<std::size_t>(at[1])], column = tables[3][static_cast<std::size_t>(at[3])];
      const std::uint64_t expected =
          row < 0 ? bits_of(fill, 0) : bits_of(x, number_of({at[0], row, at[2], column}, x.at.shape));
      ASSERT_EQ(bits_of(to, i), expected) << to_string(t) << " " << i;
    }
  }
}

// A table of an axis of extent 1, and one that leaves the channels to be moved as words
TEST(TensorSmall, TablesOfOtherAxesLeaveLongWords) {
  const ElementType type = stored(DType::bf16);
  LaidTensor x = numbered(channels_last(type, {1, 16, 3, 1})), to = channels_last(type, {1, 16, 5, 2});
  const auto launches = tensors::take(x.at, to.at, {{}, {}, {2, 1, 0, 1, 2}, {0, -1}}, 0);
  EXPECT_EQ(launches->list.at(0).entry, "unisono_move_16");
  run(launches, {&x, &to});
  for (std::int64_t i = 0; i < element_count(to.at.shape); ++i) {
    const Extents at = index_of(i, to.at.shape);
    const std::int64_t row = std::abs(2 - at[2]);
    ASSERT_EQ(bits_of(to, i), at[3] == 1 ? 0 : bits_of(x, number_of({0, at[1], row, 0}, x.at.shape)));
  }
}

TEST(TensorSmall, ReshapesKeepTheOrderOfElements) {
  std::mt19937_64 random(14);
  for (const DType t : types_by_bytes)
    for (const auto& [from, to] : std::vector<std::pair<Extents, Extents>>{
             {{4, 6, 5}, {8, 15}}, {{120}, {2, 3, 4, 5}}, {{2, 3, 4}, {2, 3, 4}}, {{1}, {}}, {{0, 3}, {3, 0}}}) {
      LaidTensor x = numbered(random_layout(stored(t), from, random)), y = random_layout(stored(t), to, random);
      run(tensors::reorder(x.at, y.at), {&x, &y});
      EXPECT_EQ(x.dense(), y.dense()) << to_string(t);
    }
}

// Tiles that hang over at both ends, a batch, and volumes whose planes become one image's rows
TEST(TensorSmall, OrdersOfMemoryThatDiffer) {
  for (const DType t : types_by_bytes) {
    const std::string entry = "unisono_transpose_" + std::to_string(size_of(t));
    for (const Extents& shape : {Extents{2, 70, 3, 67}, Extents{1, 16, 5, 16}, Extents{3, 129, 64, 1}}) {
      LaidTensor x = numbered(dense_tensor(stored(t), shape)), to = channels_last(stored(t), shape);
      const auto there = tensors::move(x.at, to.at);
      EXPECT_EQ(there->list.at(0).entry, entry);
      run(there, {&x, &to});
      EXPECT_EQ(x.dense(), to.dense()) << to_string(t);
      LaidTensor back = dense_tensor(stored(t), shape);
      run(tensors::move(to.at, back.at), {&to, &back});
      EXPECT_EQ(x.dense(), back.dense()) << to_string(t);
    }
    LaidTensor volume = numbered(dense_tensor(stored(t), {2, 24, 3, 5, 32})),
               stacked = channels_last(stored(t), {2, 24, 15, 32});
    const auto stack = tensors::reorder(volume.at, stacked.at);
    EXPECT_EQ(stack->list.at(0).entry, entry);
    run(stack, {&volume, &stacked});
    EXPECT_EQ(volume.dense(), stacked.dense()) << to_string(t);
  }
}

TEST(TensorSmall, TrianglesOfMatricesInAnyLayout) {
  std::mt19937_64 random(15);
  for (const bool upper : {false, true})
    for (const std::int64_t diagonal : {-2, 0, 1, 9}) {
      LaidTensor x = numbered(random_layout(stored(DType::i64), {2, 5, 4}, random));
      LaidTensor to = random_layout(stored(DType::i64), {2, 5, 4}, random);
      run(tensors::triangle({.upper = upper, .diagonal = diagonal}, x.at, to.at), {&x, &to});
      for (std::int64_t i = 0; i < 40; ++i) {
        const std::int64_t right = i % 4 - i / 4 % 5;
        ASSERT_EQ(bits_of(to, i), (upper ? right >= diagonal : right <= diagonal) ? bits_of(x, i) : 0);
      }
    }
}

TEST(TensorSmall, PlacesCountFromZero) {
  std::mt19937_64 random(16);
  LaidTensor to = random_layout(stored(DType::i64), {300}, random);
  run(tensors::range(to.at), {&to});
  for (std::int64_t i = 0; i < 300; ++i) ASSERT_EQ(bits_of(to, i), static_cast<std::uint64_t>(i));
}

}  // namespace
}  // namespace unisono::gpu
