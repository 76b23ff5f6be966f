#include "media/npz.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zip.h>

#include "unisono/error.hpp"

namespace unisono::media {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Bytes = std::vector<std::uint8_t>;

struct File {
  std::string name;
  Bytes contents;
  int method = ZIP_CM_DEFLATE;
};

/// An archive of any members, written by libzip itself.
Bytes archive(const std::vector<File>& files) {
  zip_source_t* target = zip_source_buffer_create(nullptr, 0, 0, nullptr);
  zip_source_keep(target);
  zip_t* zip = zip_open_from_source(target, ZIP_TRUNCATE, nullptr);
  for (const File& f : files) {
    zip_source_t* data = zip_source_buffer(zip, f.contents.data(), f.contents.size(), 0);
    const auto index = static_cast<zip_uint64_t>(zip_file_add(zip, f.name.c_str(), data, ZIP_FL_ENC_UTF_8));
    zip_set_file_compression(zip, index, f.method, 0);
  }
  EXPECT_EQ(zip_close(zip), 0);
  zip_stat_t stat;
  zip_source_stat(target, &stat);
  Bytes bytes(stat.size);
  zip_source_open(target);
  zip_source_read(target, bytes.data(), bytes.size());
  zip_source_close(target);
  zip_source_free(target);
  return bytes;
}

Array counting(DType type, std::vector<std::int64_t> shape) {
  Array a{type, std::move(shape), {}};
  a.bytes.resize(static_cast<std::size_t>(element_count(a.shape)) * size_of(type));
  for (std::size_t i = 0; i < a.bytes.size(); ++i) a.bytes[i] = static_cast<std::uint8_t>(i % 2);
  return a;
}

File member(const std::string& name, int method = ZIP_CM_DEFLATE) {
  return {name, encode_npy(counting(DType::i64, {2, 3})), method};
}

void expect_refused(const Bytes& file, std::string_view words, const Limits& limits = {}) {
  EXPECT_THAT([&] { decode_npz(file, "bad.npz", limits); },
              ThrowsMessage<UserError>(AllOf(HasSubstr("bad.npz"), HasSubstr(std::string(words)))));
}

TEST(Npz, RoundTripKeepsNamesTypesAndOrder) {
  const NamedArrays arrays{{"x", counting(DType::f32, {2, 3})},
                           {"input/ids:0", counting(DType::i64, {})},
                           {"größe", counting(DType::boolean, {0, 4})}};
  const Bytes file = encode_npz(arrays);
  EXPECT_EQ(file, encode_npz(arrays));  // no clock, no chance
  const NamedArrays back = decode_npz(file, "x.npz");
  ASSERT_EQ(back.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(back[i].first, arrays[i].first);
    EXPECT_EQ(back[i].second.type, arrays[i].second.type);
    EXPECT_EQ(back[i].second.shape, arrays[i].second.shape);
    EXPECT_EQ(back[i].second.bytes, arrays[i].second.bytes);
  }
  EXPECT_TRUE(decode_npz(encode_npz({}), "x.npz").empty());
}

TEST(Npz, StoredAndDeflatedMembers) {
  const NamedArrays arrays = decode_npz(archive({member("a.npy", ZIP_CM_STORE), member("b.npy")}), "x.npz");
  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays[0].first, "a");
  EXPECT_EQ(arrays[0].second.bytes, arrays[1].second.bytes);
}

TEST(Npz, NamesThatAreNoneAreRefused) {
  expect_refused(archive({member("readme.txt")}), "not an .npy file");
  expect_refused(archive({member(".npy")}), "empty name");
  expect_refused(archive({member("/etc/a.npy")}), "absolute");
  expect_refused(archive({member("..\\a.npy")}), "backslash");
  expect_refused(archive({member("a/../../b.npy")}), "'..'");
  expect_refused(archive({member("a\nb.npy")}), "control characters");
}

TEST(Npz, ANameThatIsGivenTwiceIsRefused) {
  Bytes file = archive({member("a.npy"), member("b.npy")});
  for (std::size_t i = 0; i + 5 <= file.size(); ++i)
    if (std::equal(file.begin() + static_cast<std::ptrdiff_t>(i), file.begin() + static_cast<std::ptrdiff_t>(i) + 5,
                   "b.npy"))
      file[i] = 'a';
  expect_refused(file, "two members");
}

TEST(Npz, BombsAreRefusedBeforeTheyAreDecoded) {
  const Bytes zeros(20 << 20);
  const Bytes file = archive({{"a.npy", zeros}});
  ASSERT_LT(file.size(), zeros.size() / 500);
  expect_refused(file, "limit", {.bytes = 1 << 20});
  // of many members the sum counts
  const File part{"a.npy", encode_npy(counting(DType::u8, {1000}))};
  expect_refused(archive({part, {"b.npy", part.contents}}), "limit", {.bytes = 1500});
}

TEST(Npz, WrongChecksumsAndSizesAreRefused) {
  const Bytes good = archive({member("a.npy", ZIP_CM_STORE)});
  Bytes file = good;
  file[100] ^= 1;  // within the data
  expect_refused(file, "damaged");
  for (const std::size_t size : {std::size_t{0}, std::size_t{20}, good.size() / 2, good.size() - 1})
    expect_refused({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}, "not an .npz file");
}

TEST(Npz, FlippedBitsGiveArraysOrAUserError) {
  Bytes file = archive({member("a.npy"), member("b.npy", ZIP_CM_STORE)});
  for (std::size_t bit = 0; bit < 8 * file.size(); ++bit) {
    file[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
    try {
      for (const auto& [name, array] : decode_npz(file, "bad.npz", {.bytes = 1 << 20}))
        EXPECT_EQ(array.bytes.size(), static_cast<std::size_t>(element_count(array.shape)) * size_of(array.type));
    } catch (const UserError&) {
    }
    file[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
  }
}

TEST(Npz, TheLargeFormAndManyMembersAreRefused) {
  std::vector<File> files;
  for (int i = 0; i < 10'001; ++i) files.push_back({std::to_string(i) + ".npy", {}, ZIP_CM_STORE});
  expect_refused(archive(files), "limit is 10000");
  Bytes file = archive({member("a.npy")});
  const Bytes locator{'P', 'K', 6, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0};
  file.insert(file.end() - 22, locator.begin(), locator.end());
  expect_refused(file, "zip64");
}

TEST(Npz, MembersAreCheckedAsNpyFiles) { expect_refused(archive({{"a.npy", {1, 2, 3}}}), "bad.npz:a.npy"); }

}  // namespace
}  // namespace unisono::media
