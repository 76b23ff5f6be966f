/// What single operators mean where no runtime was there to ask.

#include <gmock/gmock.h>

#include "onnx_model.hpp"

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

}  // namespace
}  // namespace unisono
