// Entries that cannot be used are moved aside and made again.
#include <nlohmann/json.hpp>

#include "fixture.hpp"
#include "jit/maintenance.hpp"

namespace unisono::jit {
namespace {

class DamageTest : public JitTest {
 protected:
  void SetUp() override {
    JitTest::SetUp();
    entry = jit().compile(request()).entry;
  }

  /// The entry in its present state is replaced by a good one.
  void expect_repair() {
    const int before = compiler->count;
    const std::size_t aside = count_in(cache / broken_folder);
    const Binary b = jit().compile(request());
    EXPECT_FALSE(b.cached);
    EXPECT_EQ(b.cubin, expected(request()));
    EXPECT_EQ(compiler->count, before + 1);
    EXPECT_EQ(count_in(cache / broken_folder), aside + 1);
    EXPECT_TRUE(jit().compile(request()).cached);
    EXPECT_TRUE(warnings.empty());
  }

  fs::path entry;
};

TEST_F(DamageTest, TruncatedCubin) {
  for (const std::uintmax_t size : {0, 1, 1000}) {
    fs::resize_file(entry / cubin_file, size);
    expect_repair();
  }
}

TEST_F(DamageTest, LongerCubin) {
  overwrite(entry / cubin_file, contents(entry / cubin_file) + "x");
  expect_repair();
}

TEST_F(DamageTest, ChangedCubin) {
  std::string bytes = contents(entry / cubin_file);
  bytes[bytes.size() / 2] ^= 1;
  overwrite(entry / cubin_file, bytes);
  expect_repair();
}

// A value of so many levels took the stack of whoever printed it
TEST_F(DamageTest, DeeplyNestedInfo) {
  constexpr std::size_t levels = 1 << 20;
  const std::string brackets = std::string(levels, '[') + std::string(levels, ']');
  for (const std::string& text :
       {brackets, R"({"entry": {"format": 1, "x": )" + brackets + R"(}, "hash": "0"})", std::string(levels, '['),
        std::string(levels, '{'), R"({"entry": )" + std::string(1000, '[') + std::string(1000, ']') + "}"}) {
    overwrite(entry / info_file, text);
    const auto parsed = parse_entry(text);
    ASSERT_TRUE(std::holds_alternative<Broken>(parsed));
    EXPECT_NE(std::get<Broken>(parsed).why.find("nests deeper than 64 levels"), std::string::npos);
    expect_repair();
  }
  overwrite(entry / info_file, brackets);
  EXPECT_NE(list_entries(cache).at(0).problem, "");
  EXPECT_NE(verify_entries(cache).at(0).problem, "");
  EXPECT_EQ(prune_entries(cache, {}).removed.size(), 1u);
}

TEST_F(DamageTest, MissingFiles) {
  fs::remove(entry / cubin_file);
  expect_repair();
  fs::remove(entry / info_file);
  expect_repair();
}

TEST_F(DamageTest, EmptyFolder) {
  fs::remove_all(entry);
  fs::create_directory(entry);
  expect_repair();
}

TEST_F(DamageTest, FileInPlaceOfTheFolder) {
  fs::remove_all(entry);
  overwrite(entry, "no folder");
  expect_repair();
}

TEST_F(DamageTest, TruncatedDescription) {
  const std::string text = contents(entry / info_file);
  for (std::size_t size = 0; size + 1 < text.size(); ++size) {
    EXPECT_TRUE(std::holds_alternative<Broken>(parse_entry(text.substr(0, size)))) << size;
  }
  overwrite(entry / info_file, text.substr(0, text.size() / 2));
  expect_repair();
}

TEST_F(DamageTest, EveryChangedByteOfTheDescriptionIsFound) {
  const std::string text = contents(entry / info_file);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);  // 168 registers become 169
    const auto parsed = parse_entry(changed);
    if (!std::holds_alternative<EntryInfo>(parsed)) continue;
    // blanks, and a last digit of the seconds that makes no other number: it says what it said
    EXPECT_EQ(nlohmann::json::parse(changed), nlohmann::json::parse(text)) << "byte " << i << ", '" << text[i] << "'";
  }
}

TEST_F(DamageTest, DescriptionOfAnotherEntry) {
  const Binary other = jit().compile(request("kernel k other"));
  for (const char* name : {info_file, cubin_file}) {
    fs::copy_file(other.entry / name, entry / name, fs::copy_options::overwrite_existing);
  }
  expect_repair();
}

TEST_F(DamageTest, FormatOfAnotherVersion) {
  EXPECT_TRUE(std::holds_alternative<Broken>(parse_entry(R"({"entry": {"format": 999}, "hash": ""})")));
}

TEST_F(DamageTest, BrokenEntriesAreKeptToALimit) {
  for (std::size_t i = 0; i < kept_at_most + 5; ++i) {
    fs::resize_file(entry / cubin_file, 1);
    jit().compile(request());
  }
  EXPECT_EQ(count_in(cache / broken_folder), kept_at_most);
}

}  // namespace
}  // namespace unisono::jit
