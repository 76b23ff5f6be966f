#include "support/hash.hpp"

#include <gtest/gtest.h>

namespace unisono::support {
namespace {

TEST(Hash, IsThatOfTheLibrary) {
  // published test values of XXH3_128bits
  EXPECT_EQ(hash(std::string_view("")), "99aa06d3014798d86001c324468d497f");
}

TEST(Hash, TextAndBytesAgree) {
  const std::string text = "some text";
  EXPECT_EQ(hash(text), hash(std::as_bytes(std::span(text))));
  EXPECT_NE(hash(text), hash(std::string_view("some texu")));
  EXPECT_EQ(hash(text).size(), 32u);
}

TEST(Hasher, FieldsDoNotRunIntoOneAnother) {
  EXPECT_NE(Hasher().field("ab").field("c").digest(), Hasher().field("a").field("bc").digest());
  EXPECT_NE(Hasher().field("a").digest(), Hasher().field("a").field("").digest());
  EXPECT_EQ(Hasher().field("a").field("b").digest(), Hasher().field("a").field("b").digest());
}

TEST(Hasher, DigestMayBeTakenOnTheWay) {
  Hasher h;
  h.field("a");
  const std::string first = h.digest();
  EXPECT_EQ(h.digest(), first);
  EXPECT_NE(h.field("b").digest(), first);
}

}  // namespace
}  // namespace unisono::support
