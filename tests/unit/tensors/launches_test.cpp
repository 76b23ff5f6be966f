// Launches as data: addresses, scratch, tables. What they compute is tested on the emulated GPU
// (tests/gpu/tensor_*_test.cpp).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "support/says.hpp"
#include "tensors/caller.hpp"
#include "tensors/indexed.hpp"
#include "tensors/lines.hpp"
#include "tensors/moves.hpp"
#include "tensors/reduce.hpp"
#include "tensors/text.hpp"
#include "tensors/windows.hpp"
#include "unisono/error.hpp"

namespace unisono::tensors {
namespace {

using Of = Address::Of;

StridedTensor dense(DType t, const Extents& shape) { return {stored(t), shape, row_major_strides(shape), 0, 16}; }

// Every address has a place of its own in the parameters, tables and tensors exist, the entry is in the text
void expect_whole(const Launches& launches, std::size_t tensors) {
  for (const Launch& l : launches.list) {
    EXPECT_THAT(l.source, testing::HasSubstr(l.entry + "(const __grid_constant__ unisono::"));
    EXPECT_GT(l.threads, 0);
    EXPECT_FALSE(l.how.empty());
    std::set<std::size_t> places;
    for (const Address& a : l.addresses) {
      EXPECT_TRUE(places.insert(a.place).second) << l.entry << ": two addresses at " << a.place;
      EXPECT_LE(a.place + 8, l.parameters.size());
      EXPECT_EQ(a.place % 8, 0u);
      EXPECT_TRUE(a.read || a.written);
      if (a.of == Of::tensor) {
        EXPECT_LT(a.number, tensors);
      }
      if (a.of == Of::table) {
        EXPECT_LT(a.number, launches.tables.size());
      }
      if (a.of == Of::scratch) {
        EXPECT_GT(launches.scratch_bytes, 0u);
      }
    }
  }
}

std::vector<std::string> entries(const Launches& launches) {
  std::vector<std::string> list;
  for (const Launch& l : launches.list) list.push_back(l.entry);
  return list;
}

// By words of the type that both have, or as numbers where it is f32 in the network
TEST(Launches, OfTheCallersTensors) {
  const Launches words = enter(dense(DType::boolean, {2, 3, 4})).value();
  expect_whole(words, 2);
  EXPECT_THAT(entries(words), testing::ElementsAre("unisono_enter_1"));
  EXPECT_TRUE(words.list[0].addresses[1].written && !words.list[0].addresses[0].written);
  EXPECT_THAT(entries(leave(dense(DType::f64, {1})).value()), testing::ElementsAre("unisono_leave_8"));
  const StridedTensor element{{DType::f32, DType::f16}, {4}, {1}};
  EXPECT_THAT(entries(leave(element).value()), testing::ElementsAre("unisono_leave_f16"));
  EXPECT_TRUE(enter(dense(DType::i64, {3, 0})).value().list.empty());
  EXPECT_FALSE(enter(dense(DType::i64, Extents(9, 1))));
}

TEST(Launches, AddressesAndTheirNumberAreFilledIn) {
  const StridedTensor x = dense(DType::f32, {9}), indices = dense(DType::i64, {3});
  StridedTensor to = dense(DType::f32, {3});
  to.offset = 5;
  const Launches launches = gather(0, x, indices, to).value();
  expect_whole(launches, 3);
  ASSERT_TRUE(launches.list[0].reports());
  std::byte memory[64];
  const auto parameters = complete(
      launches.list[0], [&](const Address& a) { return a.of == Of::status ? memory + 32 : memory + a.number; }, 7);
  GatherParams p{};
  ASSERT_EQ(parameters.size(), sizeof p);
  std::memcpy(&p, parameters.data(), sizeof p);
  EXPECT_EQ(p.from.memory, memory);
  EXPECT_EQ(p.indices.memory, memory + 1);
  EXPECT_EQ(p.to.memory, memory + 2 + 5 * sizeof(float));
  EXPECT_EQ(static_cast<void*>(p.faults.status), memory + 32);
  EXPECT_EQ(p.faults.launch, 7u);
}

TEST(Launches, FillsAreRepeated) {
  EXPECT_EQ(filled_with(1, DType::boolean), 0x0101010101010101u);
  EXPECT_EQ(filled_with(-2, DType::i16), 0xfffefffefffefffeu);
  EXPECT_EQ(filled_with(1, DType::bf16), 0x3f803f803f803f80u);
  EXPECT_EQ(filled_with(1, DType::f16), 0x3c003c003c003c00u);
  EXPECT_EQ(filled_with(1, DType::f32), 0x3f8000003f800000u);
  EXPECT_EQ(filled_with(-1, DType::i64), ~std::uint64_t{0});
  EXPECT_EQ(filled_with(0.5, DType::f64), 0x3fe0000000000000u);
}

TEST(Launches, TablesGoWithTheirAxes) {
  const StridedTensor x = dense(DType::i32, {2, 3, 4}), to = dense(DType::i32, {2, 5, 4});
  const Launches launches = take(x, to, {{}, {-1, 0, 1, 2, -1}, {}}, filled_with(3, DType::i32)).value();
  expect_whole(launches, 2);
  ASSERT_EQ(launches.tables.size(), 1u);
  EXPECT_EQ(entries(launches), std::vector<std::string>{"unisono_move_16"});
  MoveParams p{};
  std::memcpy(&p, launches.list[0].parameters.data(), sizeof p);
  EXPECT_EQ(p.fill, 0x0000000300000003u);
  EXPECT_EQ(p.space.extents[1], 5u);
  EXPECT_EQ(launches.list[0].addresses[2].place, offsetof(MoveParams, tables) + sizeof(void*));
}

// x is copied, places are cleared and claimed, winners written; or sums are kept in float32 until the end
TEST(Launches, ScattersHaveTheirSteps) {
  const StridedTensor indices = dense(DType::i64, {5, 1});
  Scattered s{dense(DType::f32, {9, 4}), indices, dense(DType::f32, {5, 4}), dense(DType::f32, {9, 4})};
  const Launches replaced = scatter_nd({ScatterReduction::none}, s).value();
  expect_whole(replaced, 4);
  EXPECT_THAT(entries(replaced),
              testing::ElementsAre("unisono_move_16", "unisono_clear", "unisono_claim", "unisono_scatter_16"));
  EXPECT_EQ(replaced.scratch_bytes, 9 * sizeof(u32));
  s.in_place = true;
  EXPECT_THAT(entries(scatter_nd({ScatterReduction::add}, s).value()), testing::ElementsAre("unisono_scatter_lines"));
  s.in_place = false;
  for (StridedTensor* t : {&s.x, &s.updates, &s.to}) t->type = {DType::f32, DType::bf16};
  const Launches summed = scatter_nd({ScatterReduction::add}, s).value();
  expect_whole(summed, 4);
  EXPECT_THAT(entries(summed), testing::ElementsAre("unisono_map", "unisono_scatter_lines", "unisono_map"));
  EXPECT_EQ(summed.scratch_bytes, 36 * sizeof(float));
  EXPECT_THAT(summed.list[1].source, testing::HasSubstr("scatter_lines<float, Bf16, JoinSum>(p)"));
  s.updates.shape = {0, 4}, s.indices.shape = {0, 1};
  EXPECT_THAT(entries(scatter_nd({ScatterReduction::add}, s).value()), testing::ElementsAre("unisono_move_8"));
}

TEST(Launches, PartsOfReductionsMeetInScratch) {
  const StridedTensor x = dense(DType::f32, {40000, 8});
  const Launches parts = reduce({ReduceOp::sum, {0}, true}, x, dense(DType::f32, {1, 8})).value();
  expect_whole(parts, 2);
  EXPECT_THAT(entries(parts), testing::ElementsAre("unisono_reduce", "unisono_join_parts"));
  EXPECT_EQ(parts.scratch_bytes, 8u * 625 * 16);
  EXPECT_THAT(parts.list[0].how, Says("a thread … result, 625 parts"));
  const Launches few =
      reduce({ReduceOp::sum, {0}, true}, dense(DType::f32, {1000, 8}), dense(DType::f32, {1, 8})).value();
  EXPECT_EQ(few.list.at(0).how, "a warp a result");
  const Launches rows = reduce({ReduceOp::sum, {1}, false}, x, dense(DType::f32, {40000})).value();
  EXPECT_THAT(entries(rows), testing::ElementsAre("unisono_reduce"));
  EXPECT_EQ(rows.scratch_bytes, 0u);
}

TEST(Launches, OutputsOfWindowsHaveAThreadEach) {
  const StridedTensor x = dense(DType::f32, {2, 4, 6, 5}), to = dense(DType::f32, {2, 4, 3, 5});
  const Launches product =
      matmul(dense(DType::f32, {2, 6, 7}), dense(DType::f32, {7, 5}), dense(DType::f32, {2, 6, 5})).value();
  expect_whole(product, 3);
  EXPECT_EQ(product.list[0].threads, 60);
  EXPECT_EQ(product.list[0].how, "sums of 7 products, one output a thread");
  operators::PoolNd window{.kernel = {2, 1}, .stride = {2, 1}, .dilation = {1, 1}, .before = {0, 0}, .after = {0, 0}};
  expect_whole(pool(window, x, to).value(), 2);
  const WeightedTaps halves{{0, 2, 3, 5}, {0, 1, 2, 3, 4}, {0.5, 0.5, 1, 0.5, 0.5}};
  const Launches resampled = resample({{}, {}, halves, {}}, 0, x, to).value();
  expect_whole(resampled, 2);
  ASSERT_EQ(resampled.tables.size(), 2u);
  EXPECT_THAT(resampled.tables[0], testing::ElementsAre(0, 1, 2, 2, 3, 4)) << "one tap with half of its weight twice";
  EXPECT_EQ(resampled.tables[1].size(), 12u);  // float64
  const Launches picked = resample({{}, {}, {{0, 1, 2, 3}, {0, 2, 4}, {1, 1, 1}}, {}}, 0, x, to).value();
  EXPECT_THAT(picked.list[0].how, testing::StartsWith("moved, "));
  window.stride[0] = std::int64_t{1} << 30;
  EXPECT_THAT(pool(window, x, to).refusal().text(), testing::HasSubstr("kernels count places to"));
}

// Channels last, 20 of which fit words of 8 bytes; a plane of one line has no axis of its own
TEST(Launches, OutputsOfWindowsAreWordsOfChannels) {
  const operators::PoolNd window{
      .kernel = {3, 1}, .stride = {2, 1}, .dilation = {1, 1}, .before = {1, 0}, .after = {1, 0}};
  const auto image = [](DType memory, std::int64_t channels, std::int64_t height) {
    return StridedTensor{
        {DType::f32, memory}, {2, channels, height, 5}, {height * 5 * channels, 1, 5 * channels, channels}, 0, 16};
  };
  const auto how = [&](DType memory, std::int64_t channels) {
    const Launches made = pool(window, image(memory, channels, 6), image(memory, channels, 3)).value();
    expect_whole(made, 2);
    return made.list[0].how;
  };
  EXPECT_EQ(how(DType::bf16, 16), "windows, 8 outputs a thread");
  EXPECT_EQ(how(DType::f32, 16), "windows, 4 outputs a thread");
  EXPECT_EQ(how(DType::bf16, 20), "windows, 4 outputs a thread");
  EXPECT_EQ(how(DType::bf16, 21), "windows, one output a thread");
  const Launches line = pool(window, image(DType::bf16, 16, 1), image(DType::bf16, 16, 1)).value();
  WindowParams p{};
  std::memcpy(&p, line.list[0].parameters.data(), sizeof p);
  EXPECT_EQ(p.window[0].of, -1);
  EXPECT_EQ(p.window[1].of, 1);
}

// The weight of an output with fewer taps is given to as many as the others have, in parts as large as can be
TEST(Launches, ResamplesHaveAsManyTapsForEachOutput) {
  const StridedTensor x = dense(DType::f32, {4}), to = dense(DType::f32, {2});
  const Launches made = resample({{{0, 1, 5}, {3, 0, 1, 2, 3}, {1, 0.25, 0.25, 0.25, 0.25}}}, 0, x, to).value();
  ASSERT_EQ(made.tables.size(), 2u);
  EXPECT_THAT(made.tables[0], testing::ElementsAre(3, 3, 3, 3, 0, 1, 2, 3));
  std::vector<double> weights(made.tables[1].size() / 2);
  std::memcpy(weights.data(), made.tables[1].data(), weights.size() * sizeof(double));
  EXPECT_THAT(weights, testing::Each(0.25));
  const Launches none = resample({{{0, 0, 1}, {2}, {1}}}, 0, x, to).value();
  EXPECT_THAT(none.tables[0], testing::ElementsAre(0, 2)) << "an output of no taps is 0";
}

// Neighbouring images of one element, whose planes lie words apart: outputs have a thread each all the same
TEST(Launches, ConvolutionsAndPlacesAreNoWords) {
  const StridedTensor pixels{stored(DType::f32), {8, 1, 1, 1, 1}, {1, 8, 8, 8, 8}, 0, 16};
  const operators::Conv3d op{{1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, 1, false};
  EXPECT_EQ(convolve(op, pixels, dense(DType::f32, {1, 1, 1, 1, 1}), nullptr, pixels)->list[0].threads, 8);
  operators::PoolNd window{.kernel = {1}, .stride = {1}, .dilation = {1}, .before = {0}, .after = {0}};
  const StridedTensor lines{stored(DType::f32), {8, 1, 1}, {1, 8, 8}, 0, 16};
  EXPECT_EQ(pool(window, lines, lines)->list[0].threads, 2);
  window.indices = true;
  const StridedTensor places{stored(DType::i64), {8, 1, 1}, {1, 8, 8}, 0, 16};
  EXPECT_EQ(pool(window, lines, places)->list[0].threads, 8);
}

TEST(Launches, WindowsHaveAsManyAxesAsKernels) {
  const Extents ones(9, 1), list(9, 0);
  const operators::PoolNd window{.kernel = ones, .stride = ones, .dilation = ones, .before = list, .after = list};
  const StridedTensor x = dense(DType::f32, Extents(11, 1));
  EXPECT_THAT(pool(window, x, x).refusal().text(), testing::HasSubstr("rank: windows of 9 axes; kernels have 8"));
}

TEST(Launches, VolumesMayHaveABias) {
  operators::Conv3d op{{1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, 2, false};
  const StridedTensor x = dense(DType::f32, {2, 4, 3, 3, 3}), to = dense(DType::f32, {2, 6, 2, 2, 2});
  const StridedTensor filter = dense(DType::f32, {6, 2, 2, 2, 2}), bias = dense(DType::f32, {6});
  for (const StridedTensor* b : {static_cast<const StridedTensor*>(nullptr), &bias}) {
    const Launches launches = convolve(op, x, filter, b, to).value();
    expect_whole(launches, 4);
    EXPECT_EQ(launches.list[0].addresses.size(), b == nullptr ? 3u : 4u);
    VolumeParams p{};
    std::memcpy(&p, launches.list[0].parameters.data(), sizeof p);
    EXPECT_EQ(p.group_channels, 2u);
    EXPECT_EQ(p.group_outputs, 3u);
    EXPECT_EQ(p.filter_group, 3 * 16);
    EXPECT_EQ(p.channel_axis, 1);
    EXPECT_EQ(p.axis[2].of, 4);
  }
}

TEST(Launches, EmptyResultsHaveNone) {
  const StridedTensor x = dense(DType::f32, {0, 4}), indices = dense(DType::i64, {0, 4});
  EXPECT_TRUE(move(x, x)->list.empty());
  EXPECT_TRUE(reorder(x, dense(DType::f32, {4, 0}))->list.empty());
  EXPECT_TRUE(gather_elements(0, dense(DType::f32, {3, 4}), indices, x)->list.empty());
  EXPECT_TRUE(reduce({ReduceOp::sum, {1}, true}, x, dense(DType::f32, {0, 1}))->list.empty());
  EXPECT_TRUE(cumulative_sum({}, x, x)->list.empty());
  EXPECT_TRUE(range(dense(DType::i64, {0}))->list.empty());
}

TEST(Launches, RefusesLinesThatAreTooLongToCompare) {
  const StridedTensor x = dense(DType::f32, {1 << 21}), to = dense(DType::i64, {5});
  EXPECT_THAT(top_k({0, 5, false}, x, to).refusal().text(), testing::HasSubstr("1 lines of 2097152 elements"));
  EXPECT_TRUE(top_k({0, 5, false}, dense(DType::f32, {1 << 18}), to));
}

TEST(Types, WordsAndTags) {
  EXPECT_EQ(tag_of(DType::bf16), "Bf16");
  EXPECT_EQ(number_of(DType::f16), "float");
  EXPECT_EQ(number_of(DType::u16), "u16");
  EXPECT_EQ(word_of(16), "uint4");
  EXPECT_THROW(tag_of(DType::tf32), InternalError);
  EXPECT_THROW(word_of(3), InternalError);
}

}  // namespace
}  // namespace unisono::tensors
