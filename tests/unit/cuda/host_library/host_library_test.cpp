// Libraries that launch their own kernels are loaded from memory, and what they report is passed on.

#include "runtime/cuda/host_library.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "support/files.hpp"
#include "unisono/error.hpp"

namespace unisono::cuda {
namespace {

using testing::HasSubstr;

jit::Binary binary(const std::string& key = "") {
  const std::string text = support::read_file(UNISONO_FAKE_LIBRARY).value();
  jit::Binary b;
  b.key = key;
  b.cubin.resize(text.size());
  std::memcpy(b.cubin.data(), text.data(), text.size());
  return b;
}

template <class Error, class Act>
std::string error_of(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(HostLibrary, RunsAndReports) {
  const HostLibrary library(binary(), "fake", 16);
  long long words[2] = {0, 0};
  library.run(words, nullptr, "a launch");
  library.run(words, nullptr, "a launch");
  EXPECT_EQ(words[1], 2);
  words[0] = 7;
  EXPECT_EQ(error_of<DeviceError>([&] { library.run(words, nullptr, "launching it"); }),
            "launching it: the seventh reason (7)");
}

// Each load is a library of its own, although all come from descriptors of the process
TEST(HostLibrary, TwoAreTwo) {
  const HostLibrary one(binary(), "fake", 16), other(binary(), "fake", 16);
  long long words[2] = {0, 0}, others[2] = {0, 0};
  one.run(words, nullptr, ""), one.run(words, nullptr, "");
  other.run(others, nullptr, "");
  EXPECT_EQ(words[1], 2);
  EXPECT_EQ(others[1], 1);
}

TEST(HostLibrary, IsSharedByItsKey) {
  const auto one = load_library(binary("some key"), "fake", 16), other = load_library(binary("some key"), "fake", 16);
  EXPECT_EQ(one, other);
  EXPECT_NE(load_library(binary("another key"), "fake", 16), one);
}

TEST(HostLibrary, IsCheckedWhenItIsLoaded) {
  EXPECT_THAT(error_of<InternalError>([] { HostLibrary(binary(), "fake", 24); }),
              HasSubstr("takes a parameter of 16 bytes, and 24 were prepared"));
  EXPECT_THAT(error_of<InternalError>([] { HostLibrary(binary(), "other", 16); }), HasSubstr("no function other_"));
  jit::Binary broken = binary();
  broken.cubin.resize(100);
  EXPECT_THAT(error_of<DeviceError>([&] { HostLibrary(broken, "fake", 16); }), HasSubstr("cannot be loaded"));
}

}  // namespace
}  // namespace unisono::cuda
