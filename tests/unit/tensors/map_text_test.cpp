// What is written of elementwise computations. What they compute is tested on the emulated GPU:
// tests/gpu/tensor_map_test.cpp.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tensors/map.hpp"
#include "unisono/error.hpp"

namespace unisono::tensors {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr ElementType in_bf16{DType::f32, DType::bf16};

std::string source_of(const MapProgram& program) { return map_text(program, 4).kernel.source; }

TEST(MapText, ElementsAreLoadedByTheirTypeInMemory) {
  const std::string source =
      source_of(program_of({MapOp::less}, {in_bf16, stored(DType::f32)}, stored(DType::boolean)));
  EXPECT_THAT(source, HasSubstr("const auto x0 = load_chunk<4, Bf16>(p.tensors[0], offsets[0], here);"));
  EXPECT_THAT(source, HasSubstr("load_chunk<4, float>(p.tensors[1]"));
  EXPECT_THAT(source, HasSubstr("const bool v2 = x0.of[k] < x1.of[k];"));
  EXPECT_THAT(source, HasSubstr("store_chunk<4, bool>(p.tensors[2], offsets[2], here, y0);"));
  EXPECT_THAT(source, HasSubstr("kTensors = 3, kElements = 4;"));
}

TEST(MapText, ChoicesConversionsAndEpilogues) {
  const MapProgram program{{stored(DType::boolean), in_bf16, stored(DType::i64)},
                           {{operators::Map{MapOp::cast, DType::f32}, {2}},
                            {operators::Map{MapOp::select}, {0, 1, 3}},
                            {operators::Elementwise{Op::relu, {}}, {4}}},
                           {{5, in_bf16}}};
  const std::string source = source_of(program);
  EXPECT_THAT(source, HasSubstr("const float v3 = converted<float>(x2.of[k]);"));
  EXPECT_THAT(source, HasSubstr("const float v4 = x0.of[k] ? x1.of[k] : v3;"));
  EXPECT_THAT(source, HasSubstr("const float v5 = math::relu(v4);"));
  EXPECT_EQ(source, source_of(program));
}

TEST(MapText, OnlyIntegersTellFaults) {
  const auto reports = [](MapOp op, DType t) {
    return map_text(program_of({op}, {stored(t), stored(t)}, stored(t)), 4).reports;
  };
  EXPECT_TRUE(reports(MapOp::div, DType::i32));
  EXPECT_TRUE(reports(MapOp::mod, DType::u8));
  EXPECT_TRUE(reports(MapOp::pow, DType::i64));
  EXPECT_FALSE(reports(MapOp::div, DType::f32));
  EXPECT_FALSE(reports(MapOp::add, DType::i32));
}

TEST(MapText, RefusesTypesThatAnOperatorDoesNotTake) {
  const auto text = [](MapOp op, DType x, DType y, DType result) {
    return map_text(program_of({op}, {stored(x), stored(y)}, stored(result)), 4);
  };
  EXPECT_THROW(text(MapOp::add, DType::f32, DType::i32, DType::f32), InternalError);
  EXPECT_THROW(text(MapOp::add, DType::boolean, DType::boolean, DType::boolean), InternalError);
  EXPECT_THROW(text(MapOp::add, DType::f16, DType::f16, DType::f16), InternalError);
  EXPECT_THROW(text(MapOp::bit_and, DType::f32, DType::f32, DType::f32), InternalError);
  EXPECT_THROW(text(MapOp::logical_and, DType::i32, DType::i32, DType::boolean), InternalError);
  EXPECT_THROW(text(MapOp::less, DType::f32, DType::f32, DType::f32), InternalError);
  EXPECT_THROW(text(MapOp::sqrt, DType::f32, DType::f32, DType::f32), InternalError);
  EXPECT_NO_THROW(text(MapOp::equal, DType::boolean, DType::boolean, DType::boolean));
}

StridedTensor dense(ElementType type, const Extents& shape) { return {type, shape, row_major_strides(shape)}; }

MapTensor tensor_at(const Launch& launch, std::size_t i) {
  MapTensor tensor{};
  std::memcpy(&tensor, launch.parameters.data() + sizeof(MapHead) + i * sizeof(MapTensor), sizeof tensor);
  return tensor;
}

TEST(Map, ThreadsHaveChunksOfTheInnermostAxis) {
  const ElementType f32 = stored(DType::f32);
  const StridedTensor tensors[] = {dense(f32, {6, 10}), dense(f32, {10}), dense(f32, {6, 10})};
  const Launches launches = map(program_of({MapOp::add}, {f32, f32}, f32), tensors).value();
  ASSERT_EQ(launches.list.size(), 1u);
  const Launch& launch = launches.list[0];
  MapHead head{};
  std::memcpy(&head, launch.parameters.data(), sizeof head);
  EXPECT_EQ(head.space.axes, 2u);
  EXPECT_EQ(head.space.extents[1], 3u);  // chunks of 4, the last of 2
  EXPECT_EQ(head.length, 10u);
  EXPECT_EQ(launch.threads, 18);
  EXPECT_EQ(tensor_at(launch, 0).view.strides[0], 10);
  EXPECT_EQ(tensor_at(launch, 0).view.strides[1], 4);
  EXPECT_EQ(tensor_at(launch, 1).view.strides[0], 0);
  EXPECT_EQ(tensor_at(launch, 2).step, 1);
  EXPECT_FALSE(launch.reports());
  ASSERT_EQ(launch.addresses.size(), 3u);
  EXPECT_TRUE(launch.addresses[1].read && !launch.addresses[1].written);
  EXPECT_TRUE(launch.addresses[2].written && !launch.addresses[2].read);
}

TEST(Map, EmptyResultsHaveNoLaunch) {
  const StridedTensor tensors[] = {dense(in_bf16, {0, 3}), dense(in_bf16, {0, 3})};
  EXPECT_TRUE(map({{in_bf16}, {}, {{0, in_bf16}}}, tensors)->list.empty());
}

TEST(Map, RefusesMoreTensorsThanALaunchHas) {
  const ElementType f32 = stored(DType::f32);
  MapProgram program{std::vector<ElementType>(most_map_tensors, f32), {}, {{0, f32}}};
  const std::vector<StridedTensor> tensors(most_map_tensors + 1, dense(f32, {3}));
  EXPECT_THAT(map(program, tensors).refusal().text(), HasSubstr("tensors: 49; one launch has 48"));
}

}  // namespace
}  // namespace unisono::tensors
