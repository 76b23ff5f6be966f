/// What single operators mean where no runtime was there to ask.

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

#include "onnx_model.hpp"
#include "support/says.hpp"

namespace unisono {
namespace {

using test::refusal;
using testing::HasSubstr;
using Model = test::OnnxModel;
using Values = std::vector<float>;

// (1,2,2,2) → (1,8,1,1), in the orders of onnx.reference
TEST(OnnxSpaceToDepth, Modes) {
  const auto channels = [](const char* mode) {
    Model m("SpaceToDepth", 28, {"image"});
    m.proto.mutable_graph()->clear_input();
    m.add_input("image", {1, 2, 2, 2});
    m.set("blocksize", std::int64_t{2});
    if (mode != nullptr) m.attribute("mode", 3)->set_s(mode);
    const Network n = test::parse(m.bytes());
    const test::HostTensors x{{"image", {{1, 2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7}}}};
    const auto outputs = test::run(compile(n), x);
    test::expect_agreement(n, x, outputs);
    return outputs.at("y").data;
  };
  EXPECT_EQ(channels(nullptr), (Values{0, 4, 1, 5, 2, 6, 3, 7}));
  EXPECT_EQ(channels("DCR"), (Values{0, 4, 1, 5, 2, 6, 3, 7}));
  EXPECT_EQ(channels("CRD"), (Values{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(OnnxSpaceToDepth, WhatIsRefused) {
  for (const char* op : {"SpaceToDepth", "DepthToSpace"}) {
    Model m(op, 28);
    m.set("blocksize", std::int64_t{2});
    m.attribute("mode", 3)->set_s("RCD");
    EXPECT_THAT(refusal(m), HasSubstr("mode is 'RCD'; expected DCR or CRD"));
  }
  Model older("SpaceToDepth", 27);
  older.set("blocksize", std::int64_t{2});
  older.attribute("mode", 3)->set_s("CRD");
  EXPECT_THAT(refusal(older), HasSubstr("has no attribute 'mode'; it has blocksize"));
}

Model top_k(const std::string& values, const std::string& places) {
  Model m("TopK", 11, {"x", "k"});
  m.add_integers("k", {2});
  m.node->set_output(0, values);
  m.node->add_output(places);
  m.proto.mutable_graph()->mutable_output(0)->set_name(values.empty() ? places : values);
  return m;
}

TEST(OnnxTopK, EitherOutputMayBeLeftOut) {
  const Network n = test::parse(top_k("", "places").bytes());
  const std::vector<float> x{3, 1, 2, 5, 7, 6};
  std::vector<std::int64_t> places(4);
  compile(n).run({{"x", {x.data(), DType::f32, {2, 3}, {}}}}, {{"places", {places.data(), DType::i64, {2, 2}, {}}}});
  EXPECT_EQ(places, (std::vector<std::int64_t>{0, 2, 1, 2}));
  EXPECT_EQ(test::run(compile(test::parse(top_k("values", "").bytes())), {{"x", {{2, 3}, x}}}).at("values").data,
            (Values{3, 2, 7, 6}));
  Model none = top_k("", "");
  none.proto.mutable_graph()->mutable_output(0)->set_name("x");
  EXPECT_THAT(refusal(none), HasSubstr("has no output"));
}

// A node that names the number of columns of x, n, an extent
void add_extent(Model& m) {
  auto& graph = *m.proto.mutable_graph();
  graph.mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(1)->set_dim_param("n");
  auto* shape = graph.add_node();
  shape->set_op_type("Shape");
  shape->add_input("x");
  shape->add_output("extent");
  auto* first = shape->add_attribute();
  first->set_name("start");
  first->set_type(2);
  first->set_i(1);
}

// What the model, read once, makes of an x of n columns that counts its elements
Values of_columns(const Model& m, std::int64_t n) {
  test::HostTensors x{{"x", {{2, n}, Values(static_cast<std::size_t>(2 * n))}}};
  std::iota(x.at("x").data.begin(), x.at("x").data.end(), 0.0f);
  const Network network = test::parse(m.bytes());
  const auto outputs = test::run(compile(network), x);
  test::expect_agreement(network, x, outputs);
  return outputs.at("y").data;
}

// y = of[:, start : n + more]
Model sliced(const std::string& of, std::int64_t start, std::int64_t more, std::int64_t step = 1) {
  Model m("Slice", 18, {of, "start", "end", "axis", "step"});
  auto& graph = *m.proto.mutable_graph();
  m.add_constant("table", {2, 5}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  m.add_integers("start", {start});
  m.add_integers("more", {more});
  m.add_integers("axis", {1});
  m.add_integers("step", {step});
  const onnx::NodeProto slice = *m.node;
  graph.clear_node();
  add_extent(m);
  auto* add = graph.add_node();
  add->set_op_type("Add");
  add->add_input("extent");
  add->add_input("more");
  add->add_output("end");
  *graph.add_node() = slice;
  return m;
}

// Positions up to the length of a text, and all but the last tokens, as PyTorch exports them with an open length
TEST(OnnxSlice, EndsThatFollowFromExtents) {
  EXPECT_EQ(of_columns(sliced("table", 0, 0), 3), (Values{0, 1, 2, 5, 6, 7}));
  EXPECT_EQ(of_columns(sliced("table", 0, 0), 5), (Values{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(of_columns(sliced("table", 1, 0), 3), (Values{1, 2, 6, 7}));
  EXPECT_EQ(of_columns(sliced("table", 1, 1), 3), (Values{1, 2, 3, 6, 7, 8}));
  EXPECT_EQ(of_columns(sliced("x", 0, -1), 3), (Values{0, 1, 3, 4}));
  EXPECT_EQ(of_columns(sliced("x", -2, 0), 3), (Values{1, 2, 4, 5}));
  EXPECT_EQ(of_columns(sliced("x", 0, 0, 2), 3), (Values{0, 2, 3, 5}));
  EXPECT_THAT(test::user_error([] { of_columns(sliced("table", 0, 0), 6); }), HasSubstr("index 5"));
  EXPECT_THAT(refusal(sliced("table", 0, 0, 2)),
              HasSubstr("its end n follows from extents, its start is 0 and its step 2; expected 0 or more, and 1"));
}

// Every second column, and the last of each three, have the extents that arithmetic on n gives
TEST(OnnxSlice, ExtentsOfSteps) {
  for (const auto& [start, step, extent] :
       {std::tuple{0, 2, "(n+1)/2"}, std::tuple{1, 2, "n/2"}, std::tuple{2, 3, "n/3"}}) {
    const Model m = sliced("x", start, 0, step);
    const Network n = test::parse(m.bytes());
    EXPECT_EQ(to_string(n.tensors[n.outputs[0]].shape[1]), extent);
    for (const std::int64_t columns : {3, 4, 5}) {
      Values expected;
      for (std::int64_t row = 0; row < 2; ++row)
        for (std::int64_t i = start; i < columns; i += step) expected.push_back(static_cast<float>(row * columns + i));
      EXPECT_EQ(of_columns(m, columns), expected) << start << " " << step << " " << columns;
    }
  }
}

TEST(OnnxTile, AsOftenAsAnExtentSays) {
  for (const std::int64_t rows : {1, 2}) {
    Model m("Tile", 18, {"table", "repeats"});
    m.add_constant("table", {rows, 2}, rows == 1 ? Values{1, 2} : Values{1, 2, 3, 4});
    m.add_integers("twice", {2});
    const onnx::NodeProto tile = *m.node;
    auto& graph = *m.proto.mutable_graph();
    graph.clear_node();
    add_extent(m);
    auto* concat = graph.add_node();
    concat->set_op_type("Concat");
    concat->add_input("extent");
    concat->add_input("twice");
    concat->add_output("repeats");
    auto* axis = concat->add_attribute();
    axis->set_name("axis");
    axis->set_type(2);
    *graph.add_node() = tile;
    const Values once = rows == 1 ? Values{1, 2, 1, 2} : Values{1, 2, 1, 2, 3, 4, 3, 4};
    Values all;
    for (int i = 0; i < 3; ++i) all.insert(all.end(), once.begin(), once.end());
    EXPECT_EQ(of_columns(m, 3), all);
    EXPECT_EQ(of_columns(m, 1), once);
  }
}

// x (2,n) → (n,2): the numbers of -1 and of n beside it follow from the factors of both shapes
// A linear layer of an image with its channels last, whose other extents are all open
TEST(OnnxMatMul, RowsOfThreeOpenExtents) {
  Model m("MatMul", 21, {"image", "w"});
  m.proto.mutable_graph()->clear_input();
  m.add_input("image", {1, 1, 1, 2});
  auto& shape = *m.proto.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  for (const int axis : {0, 1, 2}) shape.mutable_dim(axis)->set_dim_param(std::string(1, "nhw"[axis]));
  m.add_constant("w", {2, 3}, {1, 2, 3, -1, 0, 1});
  const Network n = test::parse(m.bytes());
  for (const Shape& image : {Shape{1, 1, 1, 2}, Shape{2, 3, 5, 2}, Shape{3, 1, 4, 2}}) {
    std::vector<std::int64_t> extents;
    std::int64_t count = 1;
    for (const Dim& d : image) extents.push_back(d.value()), count *= d.value();
    Values x(static_cast<std::size_t>(count));
    std::iota(x.begin(), x.end(), -3.0f);
    const test::HostTensors given{{"image", {extents, x}}};
    const auto outputs = test::run(compile(n), given);
    test::expect_agreement(n, given, outputs);
    extents.back() = 3;
    EXPECT_EQ(outputs.at("y").shape, extents);
    EXPECT_EQ(outputs.at("y").data[2], 3 * x[0] + x[1]);
  }
}

TEST(OnnxReshape, WhatIsLeftOfFactors) {
  const auto reshaped = [](std::vector<std::int64_t> first, std::vector<std::int64_t> last) {
    Model m("Reshape", 18, {"pairs", "shape"});
    m.add_integers("two", {2});
    m.add_integers("first", std::move(first));
    m.add_integers("last", std::move(last));
    const onnx::NodeProto reshape = *m.node;
    auto& graph = *m.proto.mutable_graph();
    graph.clear_node();
    add_extent(m);
    const auto add = [&](const char* op, std::vector<std::string> inputs, const char* output) {
      auto* node = graph.add_node();
      node->set_op_type(op);
      for (const auto& name : inputs) node->add_input(name);
      node->add_output(output);
      return node;
    };
    add("Mul", {"extent", "two"}, "twice");
    add("Reshape", {"x", "twice"}, "pairs");  // (n*2)
    auto* axis = add("Concat", {"first", "extent", "last"}, "shape")->add_attribute();
    axis->set_name("axis");
    axis->set_type(2);
    *graph.add_node() = reshape;
    return m;
  };
  const Network n = test::parse(reshaped({1}, {-1}).bytes());
  EXPECT_EQ(n.tensors[n.outputs[0]].shape, (Shape{1, "n", 2}));
  EXPECT_EQ(of_columns(reshaped({1}, {-1}), 3), (Values{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(of_columns(reshaped({-1}, {1}), 3), (Values{0, 1, 2, 3, 4, 5}));
  EXPECT_THAT(refusal(reshaped({4}, {-1})), Says("shape (4,n,-1) of (n*2) … one unknown"));
}

// What a constant condition chooses is no operator, if it has the shape of the result
TEST(OnnxWhere, OfAConstantCondition) {
  const auto chosen = [](std::vector<std::int64_t> shape, std::vector<std::int64_t> of_other, std::string holds) {
    Model m("Where", 18, {"c", "x", "few"});
    m.add_constant("c", std::move(shape))->set_data_type(9);
    m.proto.mutable_graph()->mutable_initializer(0)->set_raw_data(std::move(holds));
    m.add_input("few", std::move(of_other));
    return test::parse(m.bytes());
  };
  const auto selects = [](const Network& n) {
    return std::ranges::count_if(n.operators, [](const Operator& op) {
      const auto* map = std::get_if<operators::Map>(&op.kind);
      return map != nullptr && map->op == MapOp::select;
    });
  };
  const std::string yes(1, '\1'), no(1, '\0');
  EXPECT_EQ(selects(chosen({1}, {3}, yes)), 0);
  EXPECT_EQ(selects(chosen({1}, {2, 3}, no)), 0);
  EXPECT_EQ(selects(chosen({1}, {3}, no)), 1);  // rows of three have to become (2,3)
  EXPECT_EQ(selects(chosen({1}, {4, 2, 3}, yes)), 1);
  EXPECT_EQ(selects(chosen({2, 1}, {2, 3}, yes + no)), 1);
}

}  // namespace
}  // namespace unisono
