// Elementwise kernels on tensors of any type: every row of the table in every type that it takes, casts, broadcasts.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

#include "gpu/tensor_problem.hpp"
#include "runtime/cpu/ops/map.hpp"
#include "tensors/map.hpp"
#include "unisono/error.hpp"

namespace unisono::gpu {
namespace {

using tensors::MapNode;
using tensors::MapOutput;
using tensors::MapProgram;

struct Row {
  const char* name;
  MapOp op;
  int operands;
  double roundings;
  bool divides;  // by its second operand, or by its first if it is a power
};
constexpr Row rows[] = {
#define UNISONO_MAP(NAME, OPERANDS, TYPES, CPU, CUDA, REFERENCE, ROUNDINGS, ...) \
  {#NAME, MapOp::NAME, OPERANDS, ROUNDINGS, std::string_view(CUDA).find("faults") != std::string_view::npos},
#include "unisono/network/maps.def"
};

constexpr DType computed[] = {DType::boolean, DType::u8,  DType::i8,  DType::u16, DType::i16, DType::u32,
                              DType::i32,     DType::u64, DType::i64, DType::f32, DType::f64};
constexpr DType all_types[] = {DType::boolean, DType::u8,  DType::i8,  DType::u16,  DType::i16, DType::u32, DType::i32,
                               DType::u64,     DType::i64, DType::f16, DType::bf16, DType::f32, DType::f64};

std::vector<StridedTensor> views(const std::vector<LaidTensor*>& tensors) {
  std::vector<StridedTensor> list;
  for (const LaidTensor* t : tensors) list.push_back(t->at);
  return list;
}

// On the GPU; the tensors are the program's
void run(const MapProgram& program, const std::vector<LaidTensor*>& tensors, std::string* fault = nullptr) {
  const auto launches = tensors::map(program, views(tensors));
  ASSERT_TRUE(launches) << launches.refusal().text();
  run_on_gpu(*launches, tensors, fault);
}

// One operator by the CPU, of dense operands of one shape
LaidTensor on_cpu(MapOp op, std::vector<LaidTensor> operands, DType result) {
  LaidTensor to = dense_tensor(stored(result), operands[0].at.shape);
  std::vector<cpu::Strided> inputs;
  for (LaidTensor& x : operands) inputs.push_back(x.view());
  cpu::map(op, inputs, to.view(), cpu::serial);
  return to;
}

// Whether the kernel's writer takes it, and the dtype of its result
std::optional<DType> result_of(const Row& row, DType t) {
  for (const DType result : {t, DType::boolean}) {
    MapProgram program{{stored(t), stored(t)}, {{operators::Map{row.op}, {0, 1}}}, {{2, stored(result)}}};
    if (row.operands == 1) program.nodes[0].operands.pop_back();
    try {
      tensors::map_text(program, 4);
      return result;
    } catch (const InternalError&) {
    }
  }
  return {};
}

// Inputs are x, y without zeros, and z
struct Sweep {
  MapProgram program;
  std::vector<const Row*> rows;
};
Sweep sweep_of(DType t) {
  Sweep s;
  s.program.inputs.assign(3, stored(t));
  for (const Row& row : rows) {
    const auto result = result_of(row, t);
    if (!result) continue;
    MapNode node{operators::Map{row.op}, {0}};
    if (row.operands == 2) node.operands.push_back(row.divides ? 1 : 2);
    if (row.op == MapOp::pow) node.operands = {1, 2};  // 1/x of negative exponents
    s.program.outputs.push_back({3 + s.program.nodes.size(), stored(*result)});
    s.program.nodes.push_back(std::move(node));
    s.rows.push_back(&row);
  }
  return s;
}

TEST(TensorSmall, EveryRowOfTheTableInEveryTypeIsTheCpus) {
  std::mt19937_64 random(1);
  for (const DType t : computed) {
    const Sweep s = sweep_of(t);
    ASSERT_GT(s.rows.size(), 4u) << to_string(t);
    const Extents shape{37, 29};
    std::vector<LaidTensor> tensors(3, dense_tensor(stored(t), shape));
    fill_with_edges(tensors[0], random), fill_with_edges(tensors[1], random, false),
        fill_with_edges(tensors[2], random);
    for (const MapOutput& output : s.program.outputs) tensors.push_back(dense_tensor(output.type, shape));
    std::vector<LaidTensor*> list;
    for (LaidTensor& x : tensors) list.push_back(&x);
    run(s.program, list);
    for (std::size_t i = 0; i < s.rows.size(); ++i) {
      const Row& row = *s.rows[i];
      std::vector<LaidTensor> operands;
      for (const std::size_t o : s.program.nodes[i].operands) operands.push_back(tensors[o]);
      const LaidTensor expected = on_cpu(row.op, operands, s.program.outputs[i].type.value);
      EXPECT_EQ(difference(tensors[3 + i], expected, 2 * row.roundings), "") << row.name << " of " << to_string(t);
    }
  }
}

// From some types to every type, in one launch
void expect_casts(std::span<const DType> from, std::mt19937_64& random) {
  MapProgram program;
  std::vector<LaidTensor> tensors;
  for (const DType t : from) {
    program.inputs.push_back(stored(t));
    tensors.push_back(dense_tensor(stored(t), {999}));
    fill_with_edges(tensors.back(), random);
  }
  for (std::size_t i = 0; i < from.size(); ++i)
    for (const DType to : all_types) {
      program.outputs.push_back({from.size() + program.nodes.size(), stored(to)});
      program.nodes.push_back({operators::Map{MapOp::cast, to}, {i}});
      tensors.push_back(dense_tensor(stored(to), {999}));
    }
  std::vector<LaidTensor*> list;
  for (LaidTensor& x : tensors) list.push_back(&x);
  run(program, list);
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const std::size_t input = program.nodes[i].operands[0];
    const DType to = program.outputs[i].type.value;
    const LaidTensor expected = on_cpu(MapOp::cast, {tensors[input]}, to);
    EXPECT_EQ(difference(tensors[from.size() + i], expected), "") << to_string(from[input]) << " to " << to_string(to);
  }
}

// Rounded once to 16 bits, cut off at the ends of integers
TEST(TensorSmall, CastsFromDoublesAreTheCpus) {
  std::mt19937_64 random(2);
  const DType from[] = {DType::f64};
  expect_casts(from, random);
}

TEST(TensorSmall, CastsFromOtherTypesToEveryTypeAreTheCpus) {
  std::mt19937_64 random(2);
  std::vector<DType> from(std::begin(all_types), std::end(all_types));
  from.erase(std::find(from.begin(), from.end(), DType::f64));
  for (std::size_t i = 0; i < from.size(); i += 3)
    expect_casts(std::span(from).subspan(i, std::min<std::size_t>(3, from.size() - i)), random);
}

// A dense tensor of the shape to which x broadcasts, in the network's type
LaidTensor spread(const LaidTensor& x, const Extents& shape) {
  LaidTensor wide = x;
  wide.at = tensors::broadcast(x.at, shape);
  return as_valued(wide);
}

// Some axes of the shape; leading ones may be missing
Extents part_of(const Extents& shape, std::mt19937_64& random) {
  Extents part = shape;
  for (auto& extent : part)
    if (random() % 3 == 0) extent = 1;
  part.erase(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(random() % (part.size() + 1)));
  return part;
}

// where(a < b, a + b, float of k), f32 in 16 bits and integers
TEST(TensorSmall, OperandsBroadcastInAnyLayout) {
  std::mt19937_64 random(3);
  const ElementType types[] = {stored(DType::f32), {DType::f32, DType::bf16}, {DType::f32, DType::f16}};
  for (int time = 0; time < 12; ++time) {
    Extents shape;
    for (std::uint64_t rank = time % 7; rank > 0; --rank) shape.push_back(1 + static_cast<std::int64_t>(random() % 6));
    const ElementType type = types[time % 3];
    std::vector<LaidTensor> tensors{
        random_layout(type, part_of(shape, random), random), random_layout(stored(DType::f32), shape, random),
        random_layout(stored(DType::i64), part_of(shape, random), random), random_layout(type, shape, random),
        random_layout(stored(DType::boolean), shape, random)};
    for (std::size_t i = 0; i < 3; ++i) fill_between(tensors[i], random, -9, 9);
    const MapProgram program{{type, stored(DType::f32), stored(DType::i64)},
                             {{operators::Map{MapOp::less}, {0, 1}},
                              {operators::Map{MapOp::add}, {0, 1}},
                              {operators::Map{MapOp::cast, DType::f32}, {2}},
                              {operators::Map{MapOp::select}, {3, 4, 5}}},
                             {{6, type}, {3, stored(DType::boolean)}}};
    std::vector<LaidTensor*> list;
    for (LaidTensor& x : tensors) list.push_back(&x);
    run(program, list);
    const LaidTensor a = spread(tensors[0], shape), b = spread(tensors[1], shape), k = spread(tensors[2], shape);
    const LaidTensor less = on_cpu(MapOp::less, {a, b}, DType::boolean);
    const LaidTensor sum = on_cpu(MapOp::add, {a, b}, DType::f32), real = on_cpu(MapOp::cast, {k}, DType::f32);
    EXPECT_EQ(difference(tensors[4], less), "") << time;
    LaidTensor expected = dense_tensor(stored(DType::f32), shape);
    for (std::int64_t i = 0; i < element_count(shape); ++i)
      set_bits(expected, i, bits_of(bits_of(less, i) != 0 ? sum : real, i));
    EXPECT_EQ(difference(tensors[3], expected), "") << time;
  }
}

TEST(TensorSmall, OperationsOfEpiloguesAreAmongThem) {
  std::mt19937_64 random(4);
  const ElementType type{DType::f32, DType::bf16};
  std::vector<LaidTensor> tensors{channels_last(type, {2, 13, 3, 5}), channels_last(type, {2, 13, 3, 5}),
                                  channels_last(type, {2, 13, 3, 5})};
  fill_between(tensors[0], random, -4, 4);
  Attributes clamp;
  clamp.lower = -1, clamp.upper = 1.5;
  const MapProgram program{{type},
                           {{operators::Elementwise{Op::relu, {}}, {0}},
                            {operators::Elementwise{Op::mul, {}}, {1, 0}},
                            {operators::Elementwise{Op::clamp, clamp}, {0}}},
                           {{2, type}, {3, type}}};
  run(program, {&tensors[0], &tensors[1], &tensors[2]});
  LaidTensor square = as_valued(tensors[0]), clamped = square;
  for (std::int64_t i = 0; i < element_count(square.at.shape); ++i) {
    const double x = real_of(tensors[0], i);
    set_element(square, i, x > 0 ? x * x : 0), set_element(clamped, i, std::clamp(x, -1.0, 1.5));
  }
  EXPECT_EQ(difference(tensors[1], square), "");
  EXPECT_EQ(difference(tensors[2], clamped), "");
}

TEST(TensorSmall, ADivisionByZeroIsTold) {
  for (const MapOp op : {MapOp::div, MapOp::mod, MapOp::fmod}) {
    std::vector<LaidTensor> tensors(3, dense_tensor(stored(DType::i32), {100}));
    for (std::int64_t i = 0; i < 100; ++i) set_element(tensors[0], i, 7), set_element(tensors[1], i, i == 93 ? 0 : 2);
    const ElementType i32 = stored(DType::i32);
    const MapProgram program = tensors::program_of(operators::Map{op}, {i32, i32}, i32);
    std::string fault;
    run(program, {&tensors[0], &tensors[1], &tensors[2]}, &fault);
    EXPECT_EQ(fault, "integers are divided by 0");
    EXPECT_EQ(bits_of(tensors[2], 93), 0u);
    EXPECT_EQ(bits_of(tensors[2], 94), op == MapOp::div ? 3u : 1u);
    set_element(tensors[1], 93, 5);
    run(program, {&tensors[0], &tensors[1], &tensors[2]}, &fault);
    EXPECT_EQ(fault, "");
  }
}

}  // namespace
}  // namespace unisono::gpu
