/// What `unisono train` is made of: configurations, examples, schedules.

#include "training/data.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "../network/cases.hpp"
#include "training/config.hpp"
#include "training/schedule.hpp"

namespace unisono::training {
namespace {

namespace fs = std::filesystem;
using test::user_error;
using ::testing::HasSubstr;

TEST(Shuffling, IsAPermutationThatSeedAndEpochDecide) {
  auto order = shuffled(1000, 3, 5);
  EXPECT_EQ(order, shuffled(1000, 3, 5));
  EXPECT_NE(order, shuffled(1000, 3, 6));
  EXPECT_NE(order, shuffled(1000, 4, 5));
  std::sort(order.begin(), order.end());
  for (std::int64_t i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(shuffled(1, 0, 0), std::vector<std::int64_t>{0});
}

// Each of 4 places equally often: of 24000 draws 6000 ± 5 standard deviations
TEST(Shuffling, IsFair) {
  std::array<int, 4> times{};
  for (std::uint64_t seed = 0; seed < 24000; ++seed) ++times[static_cast<std::size_t>(shuffled(4, seed, 0)[0])];
  for (const int t : times) EXPECT_NEAR(t, 6000, 340);
}

TEST(Schedules, RiseAndFall) {
  const Schedule constant{.rate = 0.5, .warm_up = 4, .steps = 10};
  EXPECT_DOUBLE_EQ(learning_rate(constant, 1), 0.125);
  EXPECT_DOUBLE_EQ(learning_rate(constant, 4), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(constant, 10), 0.5);
  const Schedule cosine{.kind = Schedule::Kind::cosine, .rate = 1, .final_rate = 0.2, .warm_up = 2, .steps = 12};
  EXPECT_DOUBLE_EQ(learning_rate(cosine, 2), 1);
  EXPECT_DOUBLE_EQ(learning_rate(cosine, 7), 0.6);
  EXPECT_NEAR(learning_rate(cosine, 12), 0.2, 1e-12);
}

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("training_data_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  template <class T>
  static media::Array array(DType type, std::vector<std::int64_t> shape, const std::vector<T>& values) {
    media::Array a{type, std::move(shape), std::vector<std::uint8_t>(values.size() * sizeof(T))};
    std::memcpy(a.bytes.data(), values.data(), a.bytes.size());
    return a;
  }
  fs::path shard(const std::string& name, const media::NamedArrays& arrays) const {
    media::write_npz(folder_ / name, arrays);
    return folder_ / name;
  }
  Config config(const std::string& text) const {
    std::ofstream(folder_ / "c.json") << text;
    return read_config(folder_ / "c.json");
  }

  fs::path folder_;
  const std::map<std::string, std::vector<std::int64_t>> shapes_{{"image", {2, 3}}, {"label", {2}}};
  const std::map<std::string, DType> types_{{"image", DType::f32}, {"label", DType::i64}};
};

TEST_F(Files, ExamplesOfSeveralShards) {
  const auto a = shard("a.npz", {{"images", array<std::uint8_t>(DType::u8, {2, 3}, {0, 10, 20, 30, 40, 50})},
                                 {"label", array<std::int8_t>(DType::i8, {2}, {7, -1})}});
  const auto b = shard("b.npz", {{"images", array<float>(DType::f32, {1, 3}, {600, 700, 800})},
                                 {"label", array<std::int64_t>(DType::i64, {1}, {9})}});
  const Examples e({a, b}, {{"image", {"images", 0.5}}}, shapes_, types_);
  EXPECT_EQ(e.count(), 3);
  std::map<std::string, std::vector<std::byte>> batch;
  e.gather({2, 1}, batch);
  std::vector<float> image(6);
  std::vector<std::int64_t> label(2);
  std::memcpy(image.data(), batch.at("image").data(), batch.at("image").size());
  std::memcpy(label.data(), batch.at("label").data(), batch.at("label").size());
  EXPECT_EQ(image, (std::vector<float>{300, 350, 400, 15, 20, 25}));
  EXPECT_EQ(label, (std::vector<std::int64_t>{9, -1}));
}

TEST_F(Files, ErrorsNameShardAndArray) {
  const auto images = array<float>(DType::f32, {2, 3}, std::vector<float>(6));
  const auto error = [&](const media::NamedArrays& arrays) {
    const auto path = shard("x.npz", arrays);
    return user_error([&] { Examples({path}, {}, shapes_, types_); });
  };
  EXPECT_THAT(error({{"image", images}}), HasSubstr("x.npz: has no array 'label'"));
  EXPECT_THAT(error({{"image", images}, {"label", array<std::int64_t>(DType::i64, {3}, {1, 2, 3})}}),
              HasSubstr("'label' has 3 examples, another one 2"));
  EXPECT_THAT(error({{"image", images}, {"label", array<float>(DType::f32, {2}, {1, 2})}}),
              HasSubstr("takes integers"));
  EXPECT_THAT(error({{"image", array<float>(DType::f32, {2, 4}, std::vector<float>(8))},
                     {"label", array<std::int64_t>(DType::i64, {2}, {1, 2})}}),
              HasSubstr("'image' has shape (2, 4); input 'image' takes (examples, 3)"));
}

constexpr const char* good = R"({"model": "m.onnx", "folder": "out", "batch": 4, "steps": 10,
  "data": {"training": ["a.npz"], "inputs": {"image": {"scale": 0.5}}},
  "loss": {"kind": "dice", "smooth": 0.5}, "learning_rate": {"rate": 0.1, "schedule": "cosine", "warm_up": 2}})";

TEST_F(Files, ConfigurationsAreRead) {
  const Config c = config(good);
  EXPECT_EQ(c.model, folder_ / "m.onnx");
  EXPECT_EQ(c.inputs.at("image").array, "image");
  EXPECT_EQ(c.schedule.warm_up, 2);
  EXPECT_EQ(c.trainer.optimiser.kind, Optimiser::Kind::adamw);
}

TEST_F(Files, ErrorsOfConfigurationsNameTheKey) {
  const auto error = [&](std::string_view from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return user_error([&] { (void)config(text); });
  };
  EXPECT_THAT(error("\"batch\": 4", "\"batch\": 0"), HasSubstr("c.json: batch is 0; expected an integer from 1"));
  EXPECT_THAT(error("\"batch\": 4", "\"batch\": 2.5"), HasSubstr("batch is 2.5"));
  EXPECT_THAT(error("\"batch\": 4, ", ""), HasSubstr("batch is missing"));
  EXPECT_THAT(error("\"batch\": 4", "\"batch\": 4, \"bach\": 1"), HasSubstr("bach is not known"));
  EXPECT_THAT(error("dice", "dise"), HasSubstr("loss.kind is \"dise\"; expected one of"));
  EXPECT_THAT(error("\"rate\": 0.1", "\"rate\": \"0.1\""),
              HasSubstr("learning_rate.rate is \"0.1\"; expected a number"));
  EXPECT_THAT(error("\"scale\": 0.5", "\"scal\": 0.5"), HasSubstr("data.inputs.image.scal is not known"));
  EXPECT_THAT(error("[\"a.npz\"]", "[]"), HasSubstr("data.training"));
  EXPECT_THAT(error("\"warm_up\": 2", "\"warm_up\": 11"), HasSubstr("learning_rate.warm_up is 11"));
  EXPECT_THAT(error("\"steps\": 10", "\"steps\": " + std::string(1000, '[')), HasSubstr("nests deeper"));
  EXPECT_THAT(error("\"steps\": 10,", "\"steps\": 10,,"), HasSubstr("c.json: parse error at line 1"));
}

}  // namespace
}  // namespace unisono::training
