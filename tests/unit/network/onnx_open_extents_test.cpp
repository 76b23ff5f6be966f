/// Operators whose result follows from an extent that only the run knows, and what ONNX Runtime takes besides.

#include <gmock/gmock.h>

#include <numeric>
#include <span>

#include "onnx_model.hpp"
#include "reference/onnx/evaluate.hpp"
#include "support/says.hpp"

namespace unisono {
namespace {

using test::refusal;
using testing::AllOf;
using testing::HasSubstr;
using Model = test::OnnxModel;
using Values = std::vector<float>;

// x (n,3), which counts its elements
void open_rows(const Model& m) {
  auto& input = *const_cast<onnx::ModelProto&>(m.proto).mutable_graph()->mutable_input(0);
  input.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_param("n");
}

test::HostTensor of_rows(const Model& m, std::int64_t n) {
  test::HostTensors x{{"x", {{n, 3}, Values(static_cast<std::size_t>(3 * n))}}};
  std::iota(x.at("x").data.begin(), x.at("x").data.end(), 0.0f);
  const Network network = test::parse(m.bytes());
  return test::run(compile(network), x).at("y");
}

Model sliced(std::int64_t start, std::int64_t end) {
  Model m("Slice", 18, {"x", "start", "end"});
  open_rows(m);
  m.add_integers("start", {start});
  m.add_integers("end", {end});
  return m;
}

constexpr std::int64_t to_the_end = std::numeric_limits<std::int64_t>::max();

TEST(OnnxOpenSlice, IsCutOffWhereTheAxisEnds) {
  EXPECT_EQ(of_rows(sliced(0, 100), 2).data, (Values{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(of_rows(sliced(0, 2), 3).data, (Values{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(of_rows(sliced(1, 100), 2).data, (Values{3, 4, 5}));
  EXPECT_EQ(of_rows(sliced(-2, to_the_end), 1).data, (Values{0, 1, 2}));
  EXPECT_EQ(of_rows(sliced(-2, to_the_end), 3).data, (Values{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(of_rows(sliced(2, 5), 1).shape, (std::vector<std::int64_t>{0, 3}));
  EXPECT_EQ(of_rows(sliced(0, 1), 2).data, (Values{0, 1, 2}));
}

// One element broadcasts, and tokens ahead of an open number of others are surely there
TEST(OnnxOpenSlice, HasANumberWhereTheAxisIsLongEnough) {
  const auto rows = [](const Model& m) {
    const Network n = test::parse(m.bytes());
    return to_string(n[n.outputs[0]].shape[0]);
  };
  EXPECT_EQ(rows(sliced(0, 1)), "1");
  EXPECT_EQ(rows(sliced(-1, to_the_end)), "1");
  EXPECT_EQ(rows(sliced(0, 2)), "n[0:2:1]");
  Model m = sliced(1, 5);
  m.node->set_input(0, "longer");
  m.add_constant("tokens", {4, 3}, Values(12, 1.0f));
  const onnx::NodeProto slice = *m.node;
  onnx::NodeProto& concat = *m.proto.mutable_graph()->mutable_node(0);
  *m.proto.mutable_graph()->add_node() = slice;
  concat.Clear();
  concat.set_op_type("Concat");
  concat.add_input("tokens");
  concat.add_input("x");
  concat.add_output("longer");
  auto* axis = concat.add_attribute();
  axis->set_name("axis");
  axis->set_type(2);
  EXPECT_EQ(rows(m), "4");
  EXPECT_EQ(of_rows(m, 1).data, (Values{1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 2}));
}

// The parts of n rows of three elements, as the run and the definition in float64 have them
std::vector<Values> split_rows(std::int64_t opset, int count, std::int64_t n, std::vector<std::int64_t> lengths = {},
                               bool open = true) {
  Model m("Split", opset);
  if (open) open_rows(m);
  if (!open)
    m.proto.mutable_graph()
        ->mutable_input(0)
        ->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(0)
        ->set_dim_value(n);
  if (!lengths.empty()) m.add_integers("lengths", lengths), m.node->add_input("lengths");
  if (lengths.empty() && opset >= 18) m.set("num_outputs", std::int64_t{count});
  for (int i = 1; i < count; ++i) {
    m.node->add_output("y" + std::to_string(i));
    m.proto.mutable_graph()->add_output()->set_name("y" + std::to_string(i));
  }
  test::HostTensors x{{"x", {{n, 3}, Values(static_cast<std::size_t>(3 * n))}}};
  std::iota(x.at("x").data.begin(), x.at("x").data.end(), 0.0f);
  const std::string bytes = m.bytes();
  const Network network = test::parse(bytes);
  const auto y = test::run(compile(network), x);
  const Values& data = x.at("x").data;
  const float64::Tensor64 x64{{n, 3}, {data.begin(), data.end()}, std::vector<double>(data.size(), 0.0)};
  const auto defined = float64::OnnxModel::parse(std::as_bytes(std::span(bytes))).evaluate({{"x", x64}});
  std::vector<Values> parts;
  for (const auto& output : m.proto.graph().output()) {
    parts.push_back(y.at(output.name()).data);
    EXPECT_EQ(parts.back(), Values(defined.at(output.name()).value.begin(), defined.at(output.name()).value.end()));
  }
  return parts;
}

TEST(OnnxOpenSplit, IntoEqualParts) {
  EXPECT_EQ(split_rows(17, 2, 2), (std::vector<Values>{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(split_rows(18, 3, 3), (std::vector<Values>{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}}));
  EXPECT_EQ(split_rows(18, 2, 2), (std::vector<Values>{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(split_rows(18, 2, 3), (std::vector<Values>{{0, 1, 2, 3, 4, 5}, {6, 7, 8}}));
  EXPECT_EQ(split_rows(18, 2, 1), (std::vector<Values>{{0, 1, 2}, {}}));
  EXPECT_NE(test::user_error([] { split_rows(17, 2, 3); }), test::accepted);  // ONNX forbids it
}

// From opset 18 on the last part may be shorter
TEST(OnnxOpenSplit, IntoUnequalParts) {
  EXPECT_EQ(split_rows(18, 3, 5), (std::vector<Values>{{0, 1, 2, 3, 4, 5}, {6, 7, 8, 9, 10, 11}, {12, 13, 14}}));
  EXPECT_EQ(split_rows(18, 3, 4), (std::vector<Values>{{0, 1, 2, 3, 4, 5}, {6, 7, 8, 9, 10, 11}, {}}));
  EXPECT_EQ(split_rows(18, 3, 0), (std::vector<Values>{{}, {}, {}}));
  EXPECT_THAT(test::user_error([] { split_rows(18, 4, 5); }), Says("5 elements … 4 parts of 2 … shorter"));
}

// Lengths that are given and differ say how long the axis is
TEST(OnnxOpenSplit, IntoPartsOfGivenLengths) {
  for (const bool open : {true, false})
    EXPECT_EQ(split_rows(17, 3, 3, {1, 0, 2}, open), (std::vector<Values>{{0, 1, 2}, {}, {3, 4, 5, 6, 7, 8}}));
  EXPECT_NE(test::user_error([] { split_rows(17, 2, 4, {1, 2}); }), test::accepted);
  EXPECT_NE(test::user_error([] { split_rows(17, 2, 2, {1, 2}); }), test::accepted);
}

// Elements are neither dropped nor missing in silence
TEST(OnnxOpenSplit, OnlyTheLastOfPartsOfOneLengthMayBeShorter) {
  for (const std::int64_t n : {4, 5, 6}) EXPECT_EQ(split_rows(17, 2, n, {3, 3}).at(0).size(), 9u);
  EXPECT_EQ(split_rows(17, 2, 2, {1, 1}), (std::vector<Values>{{0, 1, 2}, {3, 4, 5}}));
  for (const std::int64_t n : {2, 3, 7, 12})
    EXPECT_THAT(test::user_error([n] {
                  split_rows(17, 2, n, {3, 3});
                }),
                AllOf(HasSubstr("axis 0 of (" + std::to_string(n) + ",3) has " + std::to_string(n) + " elements"),
                      Says("its 2 parts of 3 have 6 … 4")));
  for (const std::int64_t n : {1, 3})
    EXPECT_NE(test::user_error([n] { split_rows(17, 2, n, {1, 1}); }), test::accepted);
}

// PyTorch writes pieces of 8 where it does not know that there are 2 elements: as in diffusers' AutoencoderKLMochi
TEST(OnnxSplit, TheLastOfPartsOfOneLengthEndsWithTheAxis) {
  for (const bool open : {true, false}) {
    EXPECT_EQ(split_rows(17, 1, 2, {8}, open), (std::vector<Values>{{0, 1, 2, 3, 4, 5}}));
    EXPECT_EQ(split_rows(17, 2, 3, {2, 2}, open), (std::vector<Values>{{0, 1, 2, 3, 4, 5}, {6, 7, 8}}));
  }
  EXPECT_THAT(test::user_error([] { split_rows(17, 2, 2, {2, 2}, false); }), Says("parts have 4 … axis 2"));
  EXPECT_THAT(test::user_error([] { split_rows(17, 2, 2, {1, 2}, false); }), Says("parts have 3 … axis 2"));
}

// Range(start, rows of x as `type`, delta), or from there down
template <class T>
std::vector<T> range_to_rows(int type, float start, float delta, std::int64_t n) {
  Model m("Range", 18, {"start", "rows", "delta"});
  open_rows(m);
  if (delta < 0) *m.node->mutable_input(0) = "rows", *m.node->mutable_input(1) = "start";
  auto& graph = *m.proto.mutable_graph();
  const onnx::NodeProto range = *m.node;
  graph.clear_node();
  const auto add = [&](const char* op, std::vector<std::string> inputs, const char* output) -> onnx::NodeProto& {
    auto* node = graph.add_node();
    node->set_op_type(op);
    for (const auto& name : inputs) node->add_input(name);
    node->add_output(output);
    return *node;
  };
  const auto attribute = [](onnx::NodeProto& node, const char* name, std::int64_t value) {
    auto* a = node.add_attribute();
    a->set_name(name);
    a->set_type(2);
    a->set_i(value);
  };
  m.add_integers("first", {0});
  m.add_constant("start_f32", {}, {start});
  m.add_constant("delta_f32", {}, {delta});
  add("Shape", {"x"}, "shape");
  attribute(add("Gather", {"shape", "first"}, "extent"), "axis", 0);
  add("Squeeze", {"extent"}, "scalar");
  attribute(add("Cast", {"scalar"}, "rows"), "to", type);
  attribute(add("Cast", {"start_f32"}, "start"), "to", type);
  attribute(add("Cast", {"delta_f32"}, "delta"), "to", type);
  *graph.add_node() = range;
  const Network network = test::parse(m.bytes());
  const auto run = compile(network);
  std::vector<T> y(static_cast<std::size_t>(run.output_shapes({{"x", {n, 3}}}).at("y").at(0)));
  const Values x(static_cast<std::size_t>(3 * n));
  const DType dtype = network[network.outputs[0]].dtype;
  run.run({{"x", {x.data(), DType::f32, {n, 3}, {}}}}, {{"y", {y.data(), dtype, {std::ssize(y)}, {}}}});
  return y;
}

TEST(OnnxOpenRange, OfAnyType) {
  EXPECT_EQ(range_to_rows<float>(1, 0, 1, 3), (Values{0, 1, 2}));
  EXPECT_EQ(range_to_rows<float>(1, 1, 2, 6), (Values{1, 3, 5}));
  EXPECT_EQ(range_to_rows<double>(11, 0, 3, 7), (std::vector<double>{0, 3, 6}));
  EXPECT_EQ(range_to_rows<float>(1, -1, -2, 2), (Values{2, 0}));
  EXPECT_EQ(range_to_rows<std::int64_t>(7, 4, 1, 6), (std::vector<std::int64_t>{4, 5}));
  EXPECT_EQ(range_to_rows<std::int64_t>(7, 4, 1, 2), (std::vector<std::int64_t>{}));
  EXPECT_EQ(range_to_rows<std::int32_t>(6, 0, 2, 5), (std::vector<std::int32_t>{0, 2, 4}));
  EXPECT_EQ(range_to_rows<std::int16_t>(5, 0, -1, 2), (std::vector<std::int16_t>{2, 1}));
  EXPECT_THAT(test::user_error([] { range_to_rows<float>(1, 0, 0.5f, 3); }),
              Says("input 1 … fraction; expected a constant"));
}

TEST(OnnxMean, OfTensorsThatBroadcast) {
  Model m("Mean", 13, {"x", "row", "x"});
  m.add_constant("row", {3}, {1, 2, 6});
  EXPECT_THAT(of_rows(m, 2).data, testing::Pointwise(testing::FloatEq(), Values{1.0f / 3, 4.0f / 3, 10.0f / 3, 7.0f / 3,
                                                                                10.0f / 3, 16.0f / 3}));
}

// ONNX stores the mean of integers as one: towards zero
TEST(OnnxReduceMean, OfIntegers) {
  for (const bool open : {false, true}) {
    Model m("ReduceMean", 18, {"x", "axes"});
    if (open) open_rows(m);
    m.proto.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(7);
    m.add_integers("axes", {0});
    const Network n = test::parse(m.bytes());
    const std::vector<std::int64_t> x{-4, 5, std::int64_t{1} << 60, -1, 0, (std::int64_t{1} << 60) + 2};
    std::vector<std::int64_t> y(3);
    compile(n).run({{"x", {x.data(), DType::i64, {2, 3}, {}}}}, {{"y", {y.data(), DType::i64, {1, 3}, {}}}});
    EXPECT_EQ(y, (std::vector<std::int64_t>{-2, 2, (std::int64_t{1} << 60) + 1}));
  }
}

TEST(OnnxLpPool, CountsWhatCeilModeAdds) {
  Model m("LpPool", 22, {"image"});
  m.proto.mutable_graph()->clear_input();
  m.add_input("image", {1, 1, 3, 3});
  m.set("kernel_shape", std::vector<std::int64_t>{2, 2});
  m.set("strides", std::vector<std::int64_t>{2, 2});
  m.set("ceil_mode", std::int64_t{1});
  m.set("p", std::int64_t{1});
  const test::HostTensors x{{"image", {{1, 1, 3, 3}, {1, -2, 3, 4, 5, -6, 7, 8, 9}}}};
  const auto y = test::run(compile(test::parse(m.bytes())), x).at("y");
  EXPECT_EQ(y.shape, (std::vector<std::int64_t>{1, 1, 2, 2}));
  EXPECT_EQ(y.data, (Values{12, 9, 15, 9}));
}

TEST(OnnxPad, CropsAheadOfWhatItRepeats) {
  const auto padded = [](const std::string& mode) {
    Model m("Pad", 19, {"x", "pads"});
    open_rows(m);
    m.add_integers("pads", {0, -1, 1, 1});
    m.attribute("mode", 3)->set_s(mode);
    return of_rows(m, 2).data;
  };
  EXPECT_EQ(padded("edge"), (Values{1, 2, 2, 4, 5, 5, 4, 5, 5}));
  EXPECT_EQ(padded("reflect"), (Values{1, 2, 1, 4, 5, 4, 1, 2, 1}));
  EXPECT_EQ(padded("wrap"), (Values{1, 2, 1, 4, 5, 4, 1, 2, 1}));
}

}  // namespace
}  // namespace unisono
