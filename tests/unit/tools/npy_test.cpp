#include "media/npy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>

#include "media/npy_header.hpp"
#include "unisono/error.hpp"

namespace unisono {
namespace {

using media::Array;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Bytes = std::vector<std::uint8_t>;

/// A .npy file of any version from its header's text and its data.
Bytes npy_file(std::string_view header, const Bytes& data, int version = 1) {
  Bytes file{0x93, 'N', 'U', 'M', 'P', 'Y', static_cast<std::uint8_t>(version), 0};
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) file.push_back(static_cast<std::uint8_t>(header.size() >> (8 * i)));
  file.insert(file.end(), header.begin(), header.end());
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

template <class T>
std::vector<T> elements(const Bytes& bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes out(values.size() * sizeof(T));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

TEST(Npy, RoundTripOfEveryTypeAndShape) {
  for (const DType type : {DType::f16, DType::f32, DType::f64, DType::boolean, DType::i8, DType::i16, DType::i32,
                           DType::i64, DType::u8, DType::u16, DType::u32, DType::u64}) {
    for (const std::vector<std::int64_t>& shape :
         std::vector<std::vector<std::int64_t>>{{}, {5}, {2, 3, 4}, {3, 0, 2}}) {
      Array array{type, shape, {}};
      array.bytes.resize(static_cast<std::size_t>(element_count(shape)) * size_of(array.type));
      for (std::size_t i = 0; i < array.bytes.size(); ++i) array.bytes[i] = i % 2;
      const Bytes file = media::encode_npy(array);
      EXPECT_EQ((file.size() - array.bytes.size()) % 64, 0u);
      const Array back = media::decode_npy(file, "x.npy");
      EXPECT_EQ(back.type, array.type);
      EXPECT_EQ(back.shape, shape);
      EXPECT_EQ(back.bytes, array.bytes);
    }
  }
}

TEST(Npy, HeaderIsNumPysOwn) {
  EXPECT_EQ(media::print_npy_header({"<f4", false, {7}}), "{'descr': '<f4', 'fortran_order': False, 'shape': (7,), }");
  EXPECT_EQ(media::print_npy_header({"|b1", true, {7, 2}}),
            "{'descr': '|b1', 'fortran_order': True, 'shape': (7, 2), }");
  EXPECT_EQ(media::print_npy_header({"<f8", false, {}}), "{'descr': '<f8', 'fortran_order': False, 'shape': (), }");
}

TEST(Npy, VersionsTwoAndThree) {
  for (const int version : {1, 2, 3}) {
    const Array array =
        media::decode_npy(npy_file("{'descr':'|u1','fortran_order':False,'shape':(2,)}\n", {8, 9}, version), "x");
    EXPECT_THAT(array.bytes, ElementsAre(8, 9));
  }
}

TEST(Npy, FortranOrderIsTurned) {
  // shape (2, 3), columns one after the other: x[0,0] x[1,0] x[0,1] x[1,1] x[0,2] x[1,2]
  const Array two =
      media::decode_npy(npy_file("{'descr':'|u1','fortran_order':True,'shape':(2,3)}", {0, 10, 1, 11, 2, 12}), "x");
  EXPECT_THAT(two.bytes, ElementsAre(0, 1, 2, 10, 11, 12));
  Bytes data;
  for (std::uint8_t k = 0; k < 4; ++k) {
    for (std::uint8_t j = 0; j < 3; ++j) {
      for (std::uint8_t i = 0; i < 2; ++i) data.push_back(static_cast<std::uint8_t>(100 * i + 10 * j + k));
    }
  }
  const Array three = media::decode_npy(npy_file("{'descr':'|u1','fortran_order':True,'shape':(2,3,4)}", data), "x");
  for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(three.bytes[i], 100 * (i / 12) + 10 * (i / 4 % 3) + i % 4);
  const Array empty = media::decode_npy(npy_file("{'descr':'<f8','fortran_order':True,'shape':(2,0,4)}", {}), "x");
  EXPECT_TRUE(empty.bytes.empty());
}

TEST(Npy, HeaderSyntaxIsPythons) {
  const auto header =
      media::parse_npy_header("  { \"shape\" : ( 3L , 4 ) ,'fortran_order':True , 'descr' : '<i4' , } \n", "x");
  EXPECT_EQ(header.descr, "<i4");
  EXPECT_TRUE(header.fortran_order);
  EXPECT_THAT(header.shape, ElementsAre(3, 4));
}

TEST(Npy, DamagedHeadersAreQuoted) {
  for (const std::string_view text : {
           "",
           "{",
           "{'descr': '<f4', 'fortran_order': False}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2)",
           "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
           "{'descr': '<f4, 'fortran_order': False, 'shape': (2,)}",
           "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} + {}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}",
           "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2,)}",
           "{'descr': '<f4' 'fortran_order': False, 'shape': (2,)}",
       }) {
    EXPECT_THAT([&] { media::parse_npy_header(text, "bad.npy"); },
                ThrowsMessage<UserError>(AllOf(HasSubstr("bad.npy"), HasSubstr("expected"))))
        << text;
  }
}

TEST(Npy, OtherTypesAreNamed) {
  for (const char* descr : {">f4", ">u2", "<c8", "|O", "|S5", "<f16", ""}) {
    const std::string header = std::string("{'descr':'") + descr + "','fortran_order':False,'shape':(1,)}";
    EXPECT_THAT(
        [&] {
          media::decode_npy(npy_file(header, {0, 0, 0, 0}), "odd.npy");
        },
        ThrowsMessage<UserError>(
            AllOf(HasSubstr("odd.npy"), HasSubstr(std::string("'") + descr + "'"), HasSubstr("<f4"))));
  }
}

TEST(Npy, HugeShapesAreRefusedBeforeMemoryIsTaken) {
  for (const char* shape :
       {"(4294967296,4294967296)", "(9223372036854775807,)", "(268435457,)", "(65536,65536,65536,65536)"}) {
    const std::string header = std::string("{'descr':'<f4','fortran_order':False,'shape':") + shape + "}";
    EXPECT_THAT([&] { media::decode_npy(npy_file(header, {}), "huge.npy"); },
                ThrowsMessage<UserError>(HasSubstr("limit")));
  }
  // an extent of 0 makes any shape empty
  EXPECT_TRUE(
      media::decode_npy(npy_file("{'descr':'<f4','fortran_order':True,'shape':(4294967296,4294967296,0)}", {}), "x")
          .bytes.empty());
}

TEST(Npy, EveryTruncationAndSurplusIsRefused) {
  Bytes file = media::encode_npy({DType::f32, {2, 2}, Bytes(16)});
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_THAT(
        [&] {
          media::decode_npy({file.data(), size}, "cut.npy");
        },
        ThrowsMessage<UserError>(HasSubstr("cut.npy")))
        << size;
  }
  file.push_back(0);
  EXPECT_THAT([&] { media::decode_npy(file, "long.npy"); },
              ThrowsMessage<UserError>(AllOf(HasSubstr("17 bytes"), HasSubstr("(2, 2)"), HasSubstr("needs 16"))));
}

TEST(Npy, FlippedBitsGiveAnArrayOrAUserError) {
  Bytes file = media::encode_npy({DType::i32, {3}, Bytes(12, 1)});
  for (std::size_t bit = 0; bit < 8 * file.size(); ++bit) {
    file[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
    try {
      const Array array = media::decode_npy(file, "bad.npy");
      EXPECT_EQ(array.bytes.size(), static_cast<std::size_t>(element_count(array.shape)) * size_of(array.type));
    } catch (const UserError&) {
    }
    file[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
  }
}

TEST(Npy, BoolsAreNormalised) {
  EXPECT_THAT(media::decode_npy(npy_file("{'descr':'|b1','fortran_order':False,'shape':(3,)}", {0, 2, 255}), "x").bytes,
              ElementsAre(0, 1, 1));
}

TEST(Npy, TensorsOfBfloat16BecomeFloat32) {
  const std::vector<std::uint16_t> bf16{0x3f80, 0xc000};
  const Array array = media::to_array({bf16.data(), DType::bf16, {2}, {}});
  EXPECT_EQ(array.type, DType::f32);
  EXPECT_THAT(elements<float>(array.bytes), ElementsAre(1.0f, -2.0f));
  const std::vector<std::uint16_t> f16{0x3c00};
  EXPECT_EQ(media::to_array({f16.data(), DType::f16, {}, {}}).type, DType::f16);
  const std::vector<std::int64_t> wide{std::numeric_limits<std::int64_t>::max()};
  EXPECT_EQ(elements<std::int64_t>(media::to_array({wide.data(), DType::i64, {1}, {}}).bytes), wide);
  EXPECT_TRUE(media::to_array({nullptr, DType::f32, {0, 3}, {}}).bytes.empty());
}

}  // namespace
}  // namespace unisono
