#include "command/inputs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "media/npz.hpp"
#include "support/files.hpp"
#include "unisono/error.hpp"

namespace unisono::command {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class InputFiles : public testing::Test {
 protected:
  InputFiles() {
    NetworkBuilder net;
    const NetworkValue x = net.input("x", {"batch", 2}), ids = net.input("ids", {"batch"}, DType::i64);
    net.output(relu(x), "y");
    net.output(ids, "z");
    network_ = net.build();
  }

  std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }

  template <class T>
  static media::Array array(DType type, std::vector<std::int64_t> shape, const std::vector<T>& values) {
    return media::to_array({values.data(), type, std::move(shape), {}});
  }

  void expect_refused(const std::vector<InputFile>& files, const std::vector<std::string>& says) const {
    try {
      read_inputs(files, network_);
      ADD_FAILURE() << "not refused";
    } catch (const UserError& e) {
      for (const std::string& words : says) EXPECT_THAT(e.what(), HasSubstr(words));
      EXPECT_THAT(e.what(), AllOf(HasSubstr("x: float32 (batch,2)"), HasSubstr("ids: int64 (batch)")));
    }
  }

  support::TemporaryFolder folder_{std::filesystem::temp_directory_path()};
  Network network_;
  const media::Array x_ = array<float>(DType::f32, {1, 2}, {1, 2});
  const media::Array ids_ = array<std::int32_t>(DType::i32, {1}, {7});
};

TEST_F(InputFiles, MembersBindByName) {
  media::write_npz(path("in.npz"), {{"ids", ids_}, {"x", x_}});
  const Inputs inputs = read_inputs({{"", path("in.npz")}}, network_);
  EXPECT_EQ(inputs.tensors.at("x").bytes, x_.bytes);
  EXPECT_EQ(inputs.tensors.at("ids").type, DType::i64);
  ASSERT_EQ(inputs.notes.size(), 1u);
  EXPECT_THAT(inputs.notes[0],
              AllOf(HasSubstr("'ids'"), HasSubstr("int32 becomes int64"), HasSubstr("in.npz:ids.npy")));
}

TEST_F(InputFiles, ANamedInputTakesItsMemberOrTheOnlyOne) {
  media::write_npz(path("more.npz"), {{"x", x_}, {"other", ids_}});
  media::write_npz(path("one.npz"), {{"arr_0", ids_}});
  const Inputs inputs = read_inputs({{"x", path("more.npz")}, {"ids", path("one.npz")}}, network_);
  EXPECT_EQ(inputs.tensors.size(), 2u);
  expect_refused({{"ids", path("more.npz")}}, {"no member 'ids'", "x, other"});
  expect_refused({{"", path("more.npz")}}, {"holds 'other'", "no such input"});
}

TEST_F(InputFiles, WhatDoesNotFitIsRefused) {
  media::write_npy(path("x.npy"), x_);
  media::write_npy(path("wide.npy"), array<float>(DType::f32, {1, 3}, {1, 2, 3}));
  expect_refused({{"x", path("x.npy")}}, {"'ids' is not given"});
  expect_refused({{"", path("x.npy")}}, {"which input"});
  expect_refused({{"y", path("x.npy")}}, {"no input 'y'"});
  expect_refused({{"x", path("wide.npy")}}, {"float32 (1,3)", "expected float32 (batch,2)", "wide.npy"});
  media::write_npz(path("x.npz"), {{"x", x_}});
  expect_refused({{"x", path("x.npy")}, {"", path("x.npz")}}, {"given twice"});
}

TEST_F(InputFiles, RandomIntegersAreAnnounced) {
  RunOptions options;
  options.dims = {{"batch", 3}};
  const Inputs inputs = random_inputs(options, network_);
  EXPECT_EQ(inputs.tensors.at("ids").bytes.size(), 24u);
  ASSERT_EQ(inputs.notes.size(), 1u);
  EXPECT_THAT(inputs.notes[0], HasSubstr("zeros and ones"));
}

}  // namespace
}  // namespace unisono::command
