#include "command/inputs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>

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

TEST(Numbers, AreTheWholeTextWithAName) {
  EXPECT_EQ(number_of({"alpha", "-0.5"}), -0.5);
  EXPECT_EQ(number_of({"alpha", "1e3"}), 1000);
  EXPECT_EQ(number_of({"alpha", "-inf"}), -std::numeric_limits<double>::infinity());
  for (const InputFile& file : {InputFile{"", "0.5"}, InputFile{"a", "./0.5"}, InputFile{"a", "0.5.npy"}})
    EXPECT_EQ(number_of(file), std::nullopt) << file.path;
}

TEST(Numbers, BindToScalars) {
  NetworkBuilder net;
  const NetworkValue x = net.input("x", {3}), slope = net.input("slope", {}), n = net.input("n", {}, DType::i64);
  net.output(x * slope, "y"), net.output(n, "z");
  const Network network = net.build();
  RunOptions options;
  options.inputs = {{"slope", "0.1"}, {"n", "7"}};
  const Inputs inputs = random_inputs(options, network);
  const auto& bytes = inputs.tensors.at("slope").bytes;
  float slope_read = 0;
  ASSERT_EQ(bytes.size(), sizeof slope_read);
  std::memcpy(&slope_read, bytes.data(), sizeof slope_read);
  EXPECT_EQ(slope_read, 0.1F);
  EXPECT_EQ(inputs.tensors.at("n").bytes.at(0), 7);
  EXPECT_TRUE(inputs.notes.empty()) << "nobody has to be told that 0.1 is rounded";
  EXPECT_EQ(inputs.tensors.at("x").bytes, random_inputs({}, network).tensors.at("x").bytes);
  const auto refusal = [&](const InputFile& input) -> std::string {
    try {
      options.inputs = {input};
      random_inputs(options, network);
    } catch (const UserError& e) {
      return e.what();
    }
    return "not refused";
  };
  EXPECT_THAT(refusal({"n", "0.5"}), HasSubstr("input 'n' is given the number 0.5, which int64 cannot represent"));
  EXPECT_THAT(refusal({"x", "1"}), HasSubstr("expected float32 (3)"));
  EXPECT_THAT(refusal({"slop", "1"}), HasSubstr("no input 'slop'"));
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
