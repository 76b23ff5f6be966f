/// Files of a few bytes that ask for much memory, or for a division by zero.

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "onnx_model.hpp"
#include "support/files.hpp"
#include "support/says.hpp"

namespace unisono {
namespace {

using test::accepted;
using test::refusal;
using testing::HasSubstr;
using Model = test::OnnxModel;

constexpr std::uint64_t small = 1 << 20;

// 400 constants of 2^17 elements, none of which is used
TEST(OnnxLimits, ConstantsThatAreComputedWhileReading) {
  Model m("Relu");
  m.add_integers("s", {1 << 17});
  for (int i = 0; i < 400; ++i) {
    auto* node = m.proto.mutable_graph()->add_node();
    node->set_op_type("ConstantOfShape");
    node->set_name("n" + std::to_string(i));
    node->add_input("s");
    node->add_output("c" + std::to_string(i));
  }
  EXPECT_THAT(refusal(m, {.computed_bytes = small}),
              Says("m.onnx: ConstantOfShape 'n1' (opset 21): constants … 1 MB and more, and the limit is 1 MB "
                   "(--memory-limit or OnnxLimits::computed_bytes raises it)"));
  EXPECT_EQ(refusal(m), accepted);
}

// Reads as float, in a chain of which each step is as large as the constant
TEST(OnnxLimits, WhatIsMadeOfStoredConstantsCountsOnceAsThey) {
  Model m("Neg", 21, {"w0"});
  m.proto.mutable_graph()->clear_node();
  m.add_constant("w0", {1 << 16}, std::vector<float>(1 << 16, 1));
  for (int i = 0; i < 8; ++i) {
    auto* node = m.proto.mutable_graph()->add_node();
    node->set_op_type("Neg");
    node->add_input("w" + std::to_string(i));
    node->add_output(i == 7 ? "y" : "w" + std::to_string(i + 1));
  }
  EXPECT_EQ(refusal(m, {.computed_bytes = 8 << 18}), accepted);
  EXPECT_THAT(refusal(m, {.computed_bytes = small}), HasSubstr("Neg 'w6' (opset 21): constants that are computed"));
}

// The memory is not taken before the limit is asked
TEST(OnnxLimits, ScalesOfGroups) {
  Model m("GroupNormalization", 18, {"x", "s", "s"});
  m.proto.mutable_graph()->clear_input();
  m.add_input("x", {1, std::int64_t{1} << 31, 1, 1});
  m.add_constant("s", {1}, {1});
  m.set("num_groups", std::int64_t{1});
  EXPECT_THAT(refusal(m), Says("m.onnx: GroupNormalization 'n' (opset 18): constants … 8192 MB and more, and the limit "
                               "is 1024 MB (--memory-limit or OnnxLimits::computed_bytes raises it)"));
}

TEST(OnnxLimits, NoGroups) {
  Model m("InstanceNormalization", 17, {"r", "s", "s"});
  m.proto.mutable_graph()->clear_input();
  m.add_input("x", {1, 4, 0, 2});
  m.add_integers("shape", {1, 0, 8});
  m.add_constant("s", {0});
  auto& graph = *m.proto.mutable_graph();
  const onnx::NodeProto last = graph.node(0);
  graph.clear_node();
  auto* reshape = graph.add_node();
  reshape->set_op_type("Reshape");
  reshape->add_input("x");
  reshape->add_input("shape");
  reshape->add_output("r");
  auto* allow = reshape->add_attribute();
  allow->set_name("allowzero");
  allow->set_type(2);
  allow->set_i(1);
  *graph.add_node() = last;
  EXPECT_THAT(refusal(m), Says("m.onnx: InstanceNormalization 'n' (opset 17): 4 channels … fall into 0 equal groups"));
}

// Most of the machine's memory, of which a sparse file takes none
TEST(OnnxLimits, StoredConstantsAreCounted) {
  const support::TemporaryFolder temporary(std::filesystem::temp_directory_path());
  const std::filesystem::path folder = temporary.path();
  std::ofstream(folder / "w.bin").close();
  std::filesystem::resize_file(folder / "w.bin", std::uintmax_t{3} << 30);
  Model m("Add", 21, {"x", "c"});
  auto* c = m.add_constant("c", {std::int64_t{3} << 28});
  c->set_data_location(1);
  auto* entry = c->add_external_data();
  entry->set_key("location");
  entry->set_value("w.bin");
  const std::string path = (folder / "m.onnx").string();
  std::ofstream(path, std::ios::binary) << m.bytes();
  EXPECT_THAT(test::user_error([&] { load_onnx(path, OnnxLimits{.constant_bytes = std::uint64_t{1} << 30}); }),
              Says(path + ": tensor 'c': … limit of 268435456 …"));
}

TEST(OnnxLimits, FilesThatProtobufCannotRead) {
  const support::TemporaryFolder temporary(std::filesystem::temp_directory_path());
  const auto path = temporary.path() / "large.onnx";
  std::ofstream(path).close();
  std::filesystem::resize_file(path, std::uintmax_t{5} << 30);
  EXPECT_EQ(test::user_error([&] { load_onnx(path.string()); }),
            path.string() + ": has 5368709120 bytes; the limit is 2147483648");
  EXPECT_THAT(test::user_error([&] { load_onnx(path.string(), OnnxLimits{.file_bytes = ~std::uint64_t{0}}); }),
              Says(path.string() + ": has 5368709120 bytes, … smaller than 2 GiB; save … external data"));
}

// An extent without a name beside one that has the name which it would get
TEST(OnnxSymbols, ExtentsWithoutNamesClashWithNone) {
  Model m("Add", 21, {"x", "z"});
  m.add_input("z", {2, 3});
  auto& graph = *m.proto.mutable_graph();
  const auto extent = [&](int input) {
    return graph.mutable_input(input)->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0);
  };
  extent(0)->clear_value();
  extent(1)->set_dim_param("x_0");
  const Network n = test::parse(m.bytes());
  EXPECT_EQ(n[n.inputs[0]].shape[0], Dim("x_0_"));
  EXPECT_EQ(n[n.inputs[1]].shape[0], Dim("x_0"));
}

}  // namespace
}  // namespace unisono
