#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "../network/cases.hpp"
#include "unisono/safetensors_writer.hpp"
#include "unisono/training.hpp"

namespace unisono {
namespace {

namespace fs = std::filesystem;
using test::user_error;

class CheckpointFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("checkpoint_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    path_ = (folder_ / "c.safetensors").string();
  }
  void TearDown() override { fs::remove_all(folder_); }
  static TrainerState state() {
    return {.steps = 12,
            .updates = 6,
            .values = {{"w", {1, 2, 3, 4, 5, 6}}, {"b", {}}, {"ä\n\"", {0.5f}}},
            .shapes = {{"w", {2, 3}}, {"b", {0}}, {"ä\n\"", {}}}};
  }
  std::string file() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(CheckpointFile, IsReadBack) {
  save_checkpoint(path_, state(), {{"seed", "7"}});
  const Checkpoint c = load_checkpoint(path_);
  EXPECT_EQ(c.state.values, state().values);
  EXPECT_EQ(c.state.shapes, state().shapes);
  EXPECT_EQ(c.state.steps, 12);
  EXPECT_EQ(c.state.updates, 6);
  EXPECT_EQ(c.metadata, (std::map<std::string, std::string>{{"seed", "7"}}));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(CheckpointFile, KeepsTheLossScale) {
  TrainerState s = state();
  EXPECT_FALSE((save_checkpoint(path_, s), load_checkpoint(path_)).state.loss_scale);
  s.loss_scale = {.scale = 1.0 / 3, .good = 17, .skipped = 3, .spoilt = true};
  save_checkpoint(path_, s, {{"seed", "7"}});
  EXPECT_EQ(load_checkpoint(path_).state.loss_scale, s.loss_scale);
  EXPECT_EQ(load_checkpoint(path_).metadata.size(), 1);
  save_checkpoint(path_, state(), {{"unisono.loss_scale", "much"}});
  EXPECT_THAT(user_error([&] { (void)load_checkpoint(path_); }), ::testing::HasSubstr("loss_scale is 'much'"));
}

TEST_F(CheckpointFile, EveryCutIsAnError) {
  save_checkpoint(path_, state());
  const std::string whole = file();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << whole.substr(0, size);
    EXPECT_THROW((void)load_checkpoint(path_), UserError) << size;
  }
}

TEST_F(CheckpointFile, OtherFilesAreNone) {
  const std::vector<float> x{1};
  save_safetensors(path_, {{"x", DType::f32, {1}, std::as_bytes(std::span(x))}});
  EXPECT_THAT(user_error([&] { (void)load_checkpoint(path_); }), ::testing::HasSubstr("not a checkpoint"));
  save_safetensors(path_, {}, {{"unisono.steps", "-3"}, {"unisono.updates", "0"}});
  EXPECT_THAT(user_error([&] { (void)load_checkpoint(path_); }), ::testing::HasSubstr("unisono.steps is '-3'"));
}

TEST_F(CheckpointFile, AnEarlierOneStaysWhereItCannotBeWritten) {
  save_checkpoint(path_, state());
  const std::string before = file();
  EXPECT_THROW(save_safetensors(path_, {{"x", DType::f32, {2}, {}}}), UserError);
  EXPECT_EQ(file(), before);
  EXPECT_THROW(save_checkpoint((folder_ / "none" / "c").string(), state()), UserError);
}

}  // namespace
}  // namespace unisono
