#include "command/model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "media/file.hpp"
#include "support/files.hpp"
#include "unisono/error.hpp"

namespace unisono::command {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

Network two_inputs() {
  NetworkBuilder net;
  const NetworkValue a = net.input("a", {"batch", 3, "size", 4}), b = net.input("b", {"batch", 3, 1, 1});
  net.output(a * b, "y");
  return net.build();
}

TEST(InputShapes, SymbolsAreReplaced) {
  const Shapes shapes = input_shapes(two_inputs(), {{"size", 7}, {"batch", 2}});
  EXPECT_THAT(shapes.at("a"), ElementsAre(2, 3, 7, 4));
  EXPECT_THAT(shapes.at("b"), ElementsAre(2, 3, 1, 1));
}

TEST(InputShapes, BatchIsOneByDefaultAndOthersMustBeGiven) {
  EXPECT_THAT(input_shapes(two_inputs(), {{"size", 7}}).at("a"), ElementsAre(1, 3, 7, 4));
  EXPECT_THAT([] { input_shapes(two_inputs(), {}); },
              ThrowsMessage<UserError>(AllOf(HasSubstr("'a'"), HasSubstr("--dim size=NUMBER"))));
  EXPECT_THAT(input_shapes(two_inputs(), {}, 64).at("a"), ElementsAre(1, 3, 64, 4));
}

TEST(InputShapes, UnknownSymbolsAreRefused) {
  EXPECT_THAT(
      [] {
        input_shapes(two_inputs(), {{"size", 7}, {"width", 3}});
      },
      ThrowsMessage<UserError>(AllOf(HasSubstr("width"), HasSubstr("batch, size"))));
}

TEST(InputShapes, HugeInputsAreRefused) {
  for (const std::int64_t extent :
       {std::int64_t{1} << 27, std::int64_t{1} << 40, std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_THAT(
        [&] {
          input_shapes(two_inputs(), {{"size", extent}});
        },
        ThrowsMessage<UserError>(AllOf(HasSubstr("'a'"), HasSubstr("limit"))));
  }
  EXPECT_EQ(input_shapes(two_inputs(), {{"size", 1 << 20}}).at("a")[2], 1 << 20);
}

/// A folder that lasts as long as the test.
class ModelFolder : public testing::Test {
 protected:
  void describe(std::string_view json) { media::write_file(folder_ / "model.json", json); }

  support::TemporaryFolder temporary_{std::filesystem::temp_directory_path()};
  std::filesystem::path folder_ = temporary_.path();
};

TEST_F(ModelFolder, NeedsADescription) {
  EXPECT_THAT([&] { load_model(folder_); },
              ThrowsMessage<UserError>(AllOf(HasSubstr(folder_.string()), HasSubstr("model.json"))));
}

TEST_F(ModelFolder, DamagedDescriptionIsNamed) {
  for (const std::string_view json : {"", "{", "[]", "{\"file\": 3}", "{}"}) {
    describe(json);
    EXPECT_THAT([&] { load_model(folder_); }, ThrowsMessage<UserError>(HasSubstr("model.json"))) << json;
  }
}

TEST_F(ModelFolder, MissingFileIsNamed) {
  describe("{\"file\": \"absent.onnx\"}");
  EXPECT_THAT([&] { load_model(folder_); }, ThrowsMessage<UserError>(HasSubstr("absent.onnx")));
}

TEST(Model, FoldersAndOnnxFilesAreModels) {
  EXPECT_TRUE(is_model("some/where/net.onnx"));
  EXPECT_TRUE(is_model(testing::TempDir()));
  EXPECT_FALSE(is_model("epilogue.txt"));
  EXPECT_FALSE(is_model("store acc : f32"));
}

}  // namespace
}  // namespace unisono::command
