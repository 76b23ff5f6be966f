#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "unisono/error.hpp"
#include "unisono/network.hpp"
#include "unit/weights/file_text.hpp"

namespace unisono {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;
using tests::safetensors_file;

/// f32 values 1, 2, … after a header of tensors of one element each, and `more`.
Safetensors scalars(const std::vector<std::string>& names, const std::string& file = "w.safetensors") {
  std::string header = "{";
  for (std::size_t i = 0; i < names.size(); ++i)
    header += (i == 0 ? "\"" : ",\"") + names[i] + R"(":{"dtype":"F32","shape":[1],"data_offsets":[)" +
              std::to_string(4 * i) + "," + std::to_string(4 * i + 4) + "]}";
  auto bytes = safetensors_file(header + "}", 4 * names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto value = static_cast<float>(i + 1);
    std::memcpy(bytes.data() + bytes.size() - 4 * (names.size() - i), &value, 4);
  }
  return parse_safetensors(std::move(bytes), file);
}

TEST(BuilderWeights, ConstantsByName) {
  NetworkBuilder net;
  net.use_weights(scalars({"down.conv.weight", "down.conv.bias"}));
  const NetworkValue bias = net.weight("down.conv.bias", {1});
  EXPECT_EQ(bias.tensor().name, "down.conv.bias");
  EXPECT_THAT(*bias.tensor().constant, ElementsAre(2));
  EXPECT_EQ(net.weight("down.conv.bias", {1}).id(), bias.id());  // one constant, asked for twice
  EXPECT_THAT(net.unused_weights(), ElementsAre("down.conv.weight"));
  net.weight("down.conv.weight", {1});
  EXPECT_TRUE(net.unused_weights().empty());
}

TEST(BuilderWeights, ShortFloatsBecomeFloat32Exactly) {
  auto bytes = safetensors_file(R"({"h":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},
                                    "b":{"dtype":"BF16","shape":[1],"data_offsets":[4,6]}})",
                                6);
  const std::uint16_t bits[3] = {0x3c00, 0x0001, 0xc000};
  std::memcpy(bytes.data() + bytes.size() - sizeof(bits), bits, sizeof(bits));
  NetworkBuilder net;
  net.use_weights(parse_safetensors(bytes));
  EXPECT_THAT(*net.weight("h", {2}).tensor().constant, ElementsAre(1, 0x1p-24f));
  EXPECT_THAT(*net.weight("b", {1}).tensor().constant, ElementsAre(-2));
  const NetworkValue half = net.weight("h", {2}, DType::f16);
  EXPECT_EQ(half.dtype(), DType::f16);
  EXPECT_EQ(half.tensor().bytes->size(), 4u);
}

TEST(BuilderWeights, OtherConversionsAreRefused) {
  auto bytes = safetensors_file(R"({"d":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},
                                    "i":{"dtype":"I64","shape":[1],"data_offsets":[8,16]}})",
                                16);
  NetworkBuilder net;
  net.use_weights(parse_safetensors(bytes, "w.safetensors"));
  EXPECT_THAT([&] { net.weight("d", {1}); },
              ThrowsMessage<UserError>(AllOf(HasSubstr("'d' is f64 in 'w.safetensors'"), HasSubstr("takes f32"))));
  EXPECT_THROW(net.weight("i", {1}, DType::i32), UserError);
  EXPECT_EQ(net.weight("i", {1}, DType::i64).dtype(), DType::i64);
  EXPECT_EQ(net.weight("d", {1}, DType::f64).dtype(), DType::f64);
}

TEST(BuilderWeights, AMissingNameComesWithThoseNearIt) {
  NetworkBuilder net;
  EXPECT_THAT([&] { net.weight("w", {1}); }, ThrowsMessage<UserError>(HasSubstr("use_weights()")));
  net.use_weights(scalars({"model.down.0.conv.weight", "up.0.conv.weight", "time_embedding.table"}, "one.safetensors"));
  net.use_weights(scalars({"down.1.conv.weight"}, "two.safetensors"));
  // a prefix first, then letters; nothing that is far away
  EXPECT_THAT([&] { net.weight("down.0.conv.weight", {1}); },
              ThrowsMessage<UserError>(
                  AllOf(HasSubstr("none of 'one.safetensors', 'two.safetensors'"),
                        HasSubstr("nearest are 'model.down.0.conv.weight', 'down.1.conv.weight', 'up.0.conv.weight'"),
                        Not(HasSubstr("time_embedding")))));
  EXPECT_THAT([&] { net.weight("q", {1}); }, ThrowsMessage<UserError>(Not(HasSubstr("nearest"))));
}

TEST(BuilderWeights, AnotherShapeIsRefused) {
  NetworkBuilder net;
  net.use_weights(parse_safetensors(
      safetensors_file(R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})", 24), "w.safetensors"));
  EXPECT_THAT([&] { net.weight("w", {6}); },
              ThrowsMessage<UserError>(AllOf(HasSubstr("(2,3)"), HasSubstr("(6)"), HasSubstr("w.safetensors"),
                                             Not(HasSubstr("transpose")))));
  EXPECT_THAT([&] { net.weight("w", {3, 2}); }, ThrowsMessage<UserError>(HasSubstr("transpose")));
  EXPECT_THROW(net.weight("w", {"n", 3}), UserError);
  EXPECT_THAT(net.unused_weights(), ElementsAre("w"));
}

TEST(BuilderWeights, FilesThatShareANameAreRefused) {
  NetworkBuilder net;
  net.use_weights(scalars({"a", "b"}, "one.safetensors"));
  EXPECT_THAT(
      [&] {
        net.use_weights(scalars({"c", "b"}, "two.safetensors"));
      },
      ThrowsMessage<UserError>(AllOf(HasSubstr("'b'"), HasSubstr("one.safetensors"), HasSubstr("two.safetensors"))));
}

}  // namespace
}  // namespace unisono
