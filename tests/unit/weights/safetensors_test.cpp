#include "unisono/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/files.hpp"
#include "unisono/error.hpp"
#include "unit/weights/file_text.hpp"

namespace unisono {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using tests::safetensors_file;

void expect_refused(const std::vector<std::byte>& file, std::string_view words, const SafetensorsLimits& limits = {}) {
  EXPECT_THAT([&] { parse_safetensors(file, "bad.safetensors", limits); },
              ThrowsMessage<UserError>(AllOf(HasSubstr("bad.safetensors"), HasSubstr(std::string(words)))))
      << words;
}

/// A header with one tensor 'w'.
std::string one(const std::string& fields) { return "{\"w\":{" + fields + "}}"; }

TEST(SafetensorsFile, EntriesInTheOrderOfTheirElements) {
  const Safetensors file = parse_safetensors(safetensors_file(
      R"({"__metadata__":{"format":"pt"},
          "b":{"dtype":"I64","shape":[],"data_offsets":[7,15]},
          "a":{"data_offsets":[0,6],"shape":[3,1],"dtype":"BF16"},
          "empty":{"dtype":"F32","shape":[4,0],"data_offsets":[15,15]},
          "mask":{"dtype":"BOOL","shape":[1],"data_offsets":[6,7]}}   )",
      15));
  ASSERT_EQ(file.entries().size(), 4u);
  EXPECT_EQ(file.entries()[0].name, "a");
  EXPECT_EQ(file.entries()[0].dtype, DType::bf16);
  EXPECT_THAT(file.entries()[0].shape, ElementsAre(3, 1));
  EXPECT_EQ(file.entries()[1].name, "mask");
  EXPECT_EQ(file.find("b")->dtype, DType::i64);
  EXPECT_TRUE(file.find("b")->shape.empty());
  EXPECT_EQ(file.find("c"), nullptr);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_THAT(file.read(*file.find("mask")), ElementsAre(std::byte{6}));
  EXPECT_EQ(file.read(*file.find("b"))[7], std::byte{14});
  EXPECT_TRUE(file.read(*file.find("empty")).empty());
  EXPECT_TRUE(parse_safetensors(safetensors_file("{}", 0)).entries().empty());
}

TEST(SafetensorsFile, EveryDtypeHasItsSize) {
  for (const auto& [name, bytes] : std::vector<std::pair<std::string, int>>{{"F64", 8},
                                                                            {"F32", 4},
                                                                            {"F16", 2},
                                                                            {"BF16", 2},
                                                                            {"F8_E4M3", 1},
                                                                            {"F8_E5M2", 1},
                                                                            {"I64", 8},
                                                                            {"I32", 4},
                                                                            {"I16", 2},
                                                                            {"I8", 1},
                                                                            {"U64", 8},
                                                                            {"U32", 4},
                                                                            {"U16", 2},
                                                                            {"U8", 1},
                                                                            {"BOOL", 1}}) {
    const std::string end = std::to_string(2 * bytes);
    const Safetensors file = parse_safetensors(
        safetensors_file(one("\"dtype\":\"" + name + "\",\"shape\":[2],\"data_offsets\":[0," + end + "]"), 2 * bytes));
    EXPECT_EQ(size_of(file.entries().at(0).dtype), static_cast<std::size_t>(bytes)) << name;
  }
}

TEST(SafetensorsFile, HeadersThatAreNoneAreRefused) {
  expect_refused({}, "has 0 bytes");
  expect_refused(safetensors_file("", 0), "'{'");
  expect_refused(safetensors_file(" {}", 0), "'{'");
  expect_refused(safetensors_file("{", 0), "JSON");
  expect_refused(safetensors_file("{} {}", 0), "JSON");
  expect_refused(safetensors_file("{\"\xff\":{}}", 0), "JSON");
  expect_refused(safetensors_file("{\"w\":[]}", 0), "expected an object");
  expect_refused(safetensors_file("{\"w\":1}", 0), "expected an object");
  expect_refused(safetensors_file(R"({"__metadata__":{"a":1}})", 0), "expected a text");
  expect_refused(safetensors_file(R"({"__metadata__":{"a":"1","a":"2"}})", 0), "twice");
  expect_refused(safetensors_file(R"({"__metadata__":{},"__metadata__":{}})", 0), "twice");
  auto cut = safetensors_file("{}", 0);
  cut[0] = std::byte{3};
  expect_refused(cut, "cut short");
  cut[5] = std::byte{1};
  expect_refused(cut, "limit is 100000000");
}

TEST(SafetensorsFile, FieldsAreCheckedOneByOne) {
  const std::string dtype = R"("dtype":"U8",)", shape = R"("shape":[2],)", offsets = R"("data_offsets":[0,2])";
  const auto refuse = [](const std::string& fields, std::string_view words) {
    expect_refused(safetensors_file(one(fields), 2), words);
  };
  EXPECT_NO_THROW(parse_safetensors(safetensors_file(one(dtype + shape + offsets), 2)));
  refuse(dtype + offsets, "not complete");
  refuse(shape + offsets, "not complete");
  refuse(dtype + R"("shape":[2])", "not complete");
  refuse(dtype + shape + R"("data_offsets":[2])", "not complete");
  refuse(dtype + shape + R"("data_offsets":[0,1,2])", "more than two");
  refuse(dtype + dtype + shape + offsets, "'dtype' twice");
  refuse(dtype + shape + shape + offsets, "'shape' twice");
  refuse(dtype + shape + offsets + "," + offsets, "'data_offsets' twice");
  refuse(R"("strides":[1],)" + dtype + shape + offsets, "'strides'");
  refuse(R"("dtype":"Q4",)" + shape + offsets, "'Q4'; expected one of F64, F32");
  refuse(R"("dtype":8,)" + shape + offsets, "expected a text such as");
  refuse(dtype + R"("shape":[-2],)" + offsets, "number -2");
  refuse(dtype + R"("shape":[2.0],)" + offsets, "number 2.0");
  refuse(dtype + R"("shape":[18446744073709551616],)" + offsets, "number 18446744073709551616");
  refuse(dtype + R"("shape":[9223372036854775808],)" + offsets, "less than 2^63");
  refuse(dtype + R"("shape":[[2]],)" + offsets, "a list");
  refuse(dtype + R"("shape":2,)" + offsets, "a number");
}

TEST(SafetensorsFile, OffsetsMustFitAndCoverTheFile) {
  const auto tensor = [](const std::string& name, const std::string& shape, int begin, int end) {
    return "\"" + name + "\":{\"dtype\":\"U8\",\"shape\":[" + shape + "],\"data_offsets\":[" + std::to_string(begin) +
           "," + std::to_string(end) + "]}";
  };
  expect_refused(safetensors_file("{" + tensor("w", "3", 0, 2) + "}", 2), "shape (3) of u8 takes 3");
  expect_refused(safetensors_file("{" + tensor("w", "2", 0, 2) + "}", 1), "the file has 1 bytes");
  expect_refused(safetensors_file("{" + tensor("w", "2", 2, 0) + "}", 2), "[2, 0]");
  expect_refused(safetensors_file("{" + tensor("w", "2", 0, 2) + "}", 3), "the file has 3");
  expect_refused(safetensors_file("{" + tensor("w", "2", 1, 3) + "}", 3), "leave a hole");
  expect_refused(safetensors_file("{" + tensor("v", "2", 0, 2) + "," + tensor("w", "2", 1, 3) + "}", 3), "overlap");
  expect_refused(safetensors_file("{" + tensor("v", "1", 0, 1) + "," + tensor("w", "1", 2, 3) + "}", 3), "hole");
  expect_refused(safetensors_file("{" + tensor("w", "1", 0, 1) + "," + tensor("w", "1", 1, 2) + "}", 2), "given twice");
  // products that overflow
  expect_refused(safetensors_file("{" + tensor("w", "4294967296,4294967296", 0, 0) + "}", 0), "more than 2^64");
  expect_refused(safetensors_file("{" + tensor("w", "4294967296,4294967297", 0, 1) + "}", 1), "more than 2^64");
  EXPECT_NO_THROW(parse_safetensors(safetensors_file("{" + tensor("w", "4294967296,4294967296,0", 0, 0) + "}", 0)));
}

TEST(SafetensorsFile, LimitsHold) {
  expect_refused(safetensors_file(std::string("{") + std::string(100, ' ') + "}", 0), "limit is 50",
                 {.header_bytes = 50});
  std::string many = "{";
  for (int i = 0; i < 5; ++i)
    many += (i == 0 ? "\"" : ",\"") + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  expect_refused(safetensors_file(many + "}", 0), "more than 4 tensors", {.tensors = 4});
  std::string axes = "0";
  for (int i = 0; i < 40; ++i) axes += ",1";
  expect_refused(safetensors_file(one(R"("dtype":"U8","data_offsets":[0,0],"shape":[)" + axes + "]"), 0), "32 axes");
  // nesting costs nothing: the first level that does not belong is refused
  expect_refused(safetensors_file("{\"w\":" + std::string(1'000'000, '['), 0), "expected an object");
}

TEST(SafetensorsFile, EveryTruncationAndFlippedBitGivesAFileOrAUserError) {
  const auto good = safetensors_file(
      R"({"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[],"data_offsets":[4,5]}})",
      5);
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_THROW(parse_safetensors({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}), UserError)
        << size;
  auto file = good;
  for (std::size_t bit = 0; bit < 8 * file.size(); ++bit) {
    file[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    try {
      const Safetensors read = parse_safetensors(file);
      for (const SafetensorsEntry& e : read.entries()) EXPECT_EQ(read.read(e).size(), e.end - e.begin);
    } catch (const UserError&) {
    }
    file[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
}

TEST(SafetensorsFile, FilesOfTheDisk) {
  const support::TemporaryFolder folder(std::filesystem::temp_directory_path());
  const std::string path = (folder.path() / "w.safetensors").string();
  const auto bytes = safetensors_file(one(R"("dtype":"U8","shape":[3],"data_offsets":[0,3])"), 3);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  const Safetensors file = open_safetensors(path);
  EXPECT_EQ(file.name(), path);
  EXPECT_THAT(file.read(*file.find("w")), ElementsAre(std::byte{0}, std::byte{1}, std::byte{2}));
  std::filesystem::resize_file(path, bytes.size() - 1);  // while it is open
  EXPECT_THAT([&] { file.read(*file.find("w")); }, ThrowsMessage<UserError>(HasSubstr("it had")));
  EXPECT_THAT([&] { open_safetensors(folder.path().string()); }, ThrowsMessage<UserError>(HasSubstr("regular file")));
  EXPECT_THAT([&] { open_safetensors(path + "x"); }, ThrowsMessage<UserError>(HasSubstr("No such file")));
}

}  // namespace
}  // namespace unisono
