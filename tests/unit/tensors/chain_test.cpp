// What is written of chains of operators, and what is refused. What they compute is tested on the emulated GPU:
// tests/gpu/chain_networks.cpp.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensors/chain.hpp"
#include "unisono/tensor.hpp"

namespace unisono::tensors {
namespace {

using Kind = ChainNode::Kind;
using testing::HasSubstr;
using testing::Not;

StridedTensor in_bf16(const Extents& shape) {
  return {{DType::f32, DType::bf16}, shape, row_major_strides(shape), 0, 256};
}

// Nodes of a program that reads one tensor
struct Program {
  ChainProgram made{.nodes = {}, .inputs = 1, .results = {0}};
  Extents given;

  explicit Program(const Extents& shape) : given(shape) {
    made.nodes.push_back({.kind = Kind::tensor, .shape = shape});
  }
  std::size_t add(ChainNode node) {
    made.nodes.push_back(std::move(node));
    made.results = {made.nodes.size() - 1};
    return made.nodes.size() - 1;
  }
  std::size_t map(Op op, std::vector<std::size_t> operands, Extents shape) {
    return add({.kind = Kind::map,
                .shape = std::move(shape),
                .operands = std::move(operands),
                .op = operators::Elementwise{op}});
  }
  std::size_t range(std::size_t of, Extents shape, Extents begin, Extents step) {
    ChainNode node{.kind = Kind::range, .shape = std::move(shape), .operands = {of}};
    node.begin = std::move(begin), node.step = std::move(step);
    return add(std::move(node));
  }
  plan::Expected<Launches> launches() const {
    const StridedTensor all[] = {in_bf16(given), in_bf16(made.nodes.back().shape)};
    return chain(made, all);
  }
  std::string source() const { return launches().value().list.at(0).source; }
};

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// Halves change places: a word of each, no element by itself
TEST(Chain, HalvesAreReadInWords) {
  Program p({6, 64});
  const std::size_t high = p.range(0, {6, 32}, {0, 32}, {1, 1}), low = p.range(0, {6, 32}, {0, 0}, {1, 1});
  const std::size_t turned = p.map(Op::neg, {high}, {6, 32});
  p.add({.kind = Kind::join, .shape = {6, 64}, .operands = {turned, low}, .axis = 1});
  const std::string source = p.source();
  EXPECT_EQ(count(source, "load_word<8, Bf16>"), 2u) << source;
  EXPECT_THAT(source, Not(HasSubstr("load<")));
  EXPECT_THAT(source, HasSubstr("if (i1 < 4) {"));
  EXPECT_THAT(source, HasSubstr("store_word<8, Bf16>(p.tensors[1], 64 * i0 + 8 * i1"));
  EXPECT_EQ(source, p.source());
}

// Neighbours change places: one word has all that a thread reads
TEST(Chain, PairsAreReadOnce) {
  Program p({6, 64});
  const std::size_t odd = p.range(0, {6, 32}, {0, 1}, {1, 2}), even = p.range(0, {6, 32}, {0, 0}, {1, 2});
  std::vector<std::size_t> columns;
  for (const std::size_t x : {odd, even})
    columns.push_back(p.add({.kind = Kind::reshape, .shape = {6, 32, 1}, .operands = {x}}));
  const std::size_t both = p.add({.kind = Kind::join, .shape = {6, 32, 2}, .operands = columns, .axis = 2});
  p.add({.kind = Kind::reshape, .shape = {6, 64}, .operands = {both}});
  const std::string source = p.source();
  EXPECT_EQ(count(source, "load_word<8, Bf16>"), 1u) << source;
  EXPECT_THAT(source, Not(HasSubstr("if (")));
}

TEST(Chain, ALineIsFoldedByItsTeam) {
  Program p({6, 32});
  const std::size_t length =
      p.add({.kind = Kind::reduce, .shape = {6, 1}, .operands = {0}, .axis = 1, .reduction = ReduceOp::l2});
  p.map(Op::div, {0, length}, {6, 32});
  const std::string source = p.source();
  EXPECT_THAT(source, HasSubstr("sqrtf(over_team<4, LineSquares>("));
  EXPECT_EQ(count(source, "load_word<8, Bf16>"), 1u) << "read once for the length and the quotients\n" << source;
  EXPECT_EQ(p.launches()->list[0].threads, 24);
  EXPECT_EQ(p.launches()->list[0].how, "chain, 4 threads a line");
}

// What the second branch of a concatenation folds stands ahead of the first
TEST(Chain, FoldsAheadOfBranches) {
  Program p({6, 64});
  const std::size_t length =
      p.add({.kind = Kind::reduce, .shape = {6, 1}, .operands = {0}, .axis = 1, .reduction = ReduceOp::l2});
  const std::size_t low = p.range(0, {6, 32}, {0, 0}, {1, 1});
  const std::size_t quotients = p.map(Op::div, {low, length}, {6, 32});
  p.add({.kind = Kind::join, .shape = {6, 64}, .operands = {low, quotients}, .axis = 1});
  const std::string source = p.source();
  EXPECT_LT(source.find("over_team<"), source.find("if (")) << source;
}

TEST(Chain, RefusesOtherLines) {
  Program across({6, 32});
  const std::size_t sum = across.add({.kind = Kind::reduce, .shape = {1, 32}, .operands = {0}, .axis = 0});
  across.map(Op::sub, {0, sum}, {6, 32});
  EXPECT_THAT(across.launches().refusal().first(), HasSubstr("other lines than those"));
  Program square({32, 32});
  const std::size_t other = square.add({.kind = Kind::reduce, .shape = {1, 32}, .operands = {0}, .axis = 0});
  square.map(Op::sub, {0, other}, {32, 32});
  EXPECT_THAT(square.launches().refusal().first(), HasSubstr("across lines"));
  Program wide({2, 8192});
  const std::size_t most = wide.add({.kind = Kind::reduce, .shape = {2, 1}, .operands = {0}, .axis = 1});
  wide.map(Op::sub, {0, most}, {2, 8192});
  EXPECT_THAT(wide.launches().refusal().first(), HasSubstr("it reduces 8192 elements"));
}

TEST(Chain, RefusesWhatIsTooLarge) {
  Program p({std::int64_t{1} << 16, std::int64_t{1} << 15});
  p.map(Op::neg, {0}, p.given);
  EXPECT_THAT(p.launches().refusal().first(), HasSubstr("2147483648 places"));
}

TEST(Chain, RefusesLongText) {
  Program p({6, 64});
  p.map(Op::neg, {0}, p.given);
  p.made.most_lines = 18;  // a word, 8 numbers, a chunk of 8, and that it is stored: 19
  EXPECT_THAT(p.launches().refusal().first(), HasSubstr("more than 18 lines"));
  p.made.most_lines = 19;
  EXPECT_TRUE(p.launches());
}

// Eight threads have 5 chunks of 8 elements: three of them ask for a place of the table that it has
TEST(Chain, ThreadsWithoutElementsReadNothingOutside) {
  Program p({6, 40});
  p.made.nodes.push_back({.kind = Kind::tensor, .shape = {40}, .tensor = 1});
  p.made.inputs = 2;
  const std::size_t picked = p.add({.kind = Kind::pick, .shape = {6, 40}, .operands = {0}, .tensor = 1, .axis = 1});
  const std::size_t sum =
      p.add({.kind = Kind::reduce, .shape = {6, 1}, .operands = {picked}, .axis = 1, .reduction = ReduceOp::sum});
  p.map(Op::sub, {picked, sum}, {6, 40});
  const StridedTensor all[] = {in_bf16({6, 40}), {{DType::i64, DType::i64}, {40}, {1}, 0, 256}, in_bf16({6, 40})};
  const std::string source = chain(p.made, all).value().list.at(0).source;
  EXPECT_THAT(source, HasSubstr("load<i64>(p.tensors[1], inside(8 * i1 + 7, 40))")) << source;
}

// Functions that any type has take what tells of faults, which floats have none of
TEST(Chain, RemaindersOfFloats) {
  Program p({6, 40});
  ChainNode node{.kind = Kind::map, .shape = {6, 40}, .operands = {0, 0}};
  node.op = operators::Map{MapOp::fmod};
  p.add(std::move(node));
  EXPECT_THAT(p.source(), HasSubstr("const FaultReport faults{};"));
  p.map(Op::exp, {1}, {6, 40});
  EXPECT_THAT(p.source(), HasSubstr("const FaultReport faults{};"));
  Program q({6, 40});
  q.map(Op::exp, {0}, {6, 40});
  EXPECT_THAT(q.source(), Not(HasSubstr("faults")));
}

}  // namespace
}  // namespace unisono::tensors
