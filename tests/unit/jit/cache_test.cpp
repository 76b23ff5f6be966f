#include "fixture.hpp"

namespace unisono::jit {
namespace {

using ::testing::HasSubstr;

using CacheTest = JitTest;

TEST_F(CacheTest, MissThenHit) {
  const Request r = request("kernel k kernel other");
  const Binary cold = jit().compile(r);
  EXPECT_FALSE(cold.cached);
  EXPECT_EQ(cold.cubin, expected(r));
  EXPECT_EQ(cold.entry, cache / cold.key);
  const Binary warm = jit().compile(r);
  EXPECT_TRUE(warm.cached);
  EXPECT_EQ(warm.cubin, cold.cubin);
  EXPECT_EQ(warm.key, cold.key);
  EXPECT_EQ(warm.entry, cold.entry);
  EXPECT_EQ(warm.resources.registers, 1);
  EXPECT_EQ(warm.resources.spill_store_bytes, 8u);
  EXPECT_EQ(warm.resources.spill_load_bytes, 4u);
  EXPECT_EQ(warm.resources.stack_bytes, 16u);
  EXPECT_EQ(warm.resources.static_shared_bytes, 32u);
  EXPECT_EQ(warm.resources.injected_waits, 2u);
  EXPECT_GT(warm.seconds, 0);
  EXPECT_EQ(compiler->count, 1);
  EXPECT_TRUE(warnings.empty());
}

TEST_F(CacheTest, EntryHasSourceBinaryLogAndDescription) {
  const Binary b = jit().compile(request());
  EXPECT_EQ(contents(b.entry / "source.cu"), "kernel k");
  EXPECT_EQ(contents(b.entry / "kernel.cubin").size(), b.cubin.size());
  EXPECT_EQ(contents(b.entry / "compile.log"), "fake log of title\n");
  const auto info = std::get<EntryInfo>(load_info(b.entry));
  EXPECT_EQ(info.title, "title");
  EXPECT_EQ(info.compiler, "Fake 1");
  EXPECT_EQ(info.options, (std::vector<std::string>{"--fake", "--arch=sm_90a"}));
  EXPECT_EQ(info.files.size(), 3u);
  EXPECT_EQ(count_in(cache / making_folder), 0u);
}

TEST_F(CacheTest, OtherKernelOfTheSameBinaryIsAHitWithItsOwnResources) {
  Request r = request("kernel k kernel other");
  jit().compile(r);
  r.entry = "other";
  const Binary b = jit().compile(r);
  EXPECT_TRUE(b.cached);
  EXPECT_EQ(b.resources.registers, 5);
}

// The device's: none is taken for granted
TEST_F(CacheTest, ARequestSaysWhatItIsCompiledFor) {
  Request r = request();
  r.arch.clear();
  EXPECT_THROW(jit().compile(r), InternalError);
  EXPECT_THROW(jit().compile(std::vector{r}), InternalError);
  r.arch = "sm_80";
  EXPECT_EQ(jit().compile(r).cached, false);
}

TEST_F(CacheTest, TwoCompilerVersionsLiveSideBySide) {
  const auto second = std::make_shared<testing::FakeCompiler>("2");
  const Binary one = jit().compile(request()), two = Jit(settings(), second).compile(request());
  EXPECT_NE(one.key, two.key);
  EXPECT_EQ(one.cubin, expected(request(), "1"));
  EXPECT_EQ(two.cubin, expected(request(), "2"));
  EXPECT_TRUE(jit().compile(request()).cached);
  EXPECT_TRUE(Jit(settings(), second).compile(request()).cached);
  EXPECT_EQ(compiler->count + second->count, 2);
}

TEST_F(CacheTest, WithoutCacheNothingIsWritten) {
  Settings s = settings();
  s.use_cache = false;
  Jit jit(s, compiler);
  const Binary b = jit.compile(request());
  EXPECT_TRUE(b.entry.empty());
  EXPECT_FALSE(jit.compile(request()).cached);
  EXPECT_EQ(compiler->count, 2);
  EXPECT_FALSE(fs::exists(cache));
  EXPECT_TRUE(warnings.empty());
}

TEST_F(CacheTest, TitlesThatAreNoUtf8AreKept) {
  Request r = request();
  r.title = "\xff title";
  r.options = {"-DX=\xfe"};
  jit().compile(r);
  EXPECT_TRUE(jit().compile(r).cached);
}

TEST_F(CacheTest, EmptyTextsAreFine) {
  Request r = request();
  const Header empty{"empty.cuh", ""};
  r.headers = {&empty, 1};
  r.title = "";
  jit().compile(r);
  EXPECT_TRUE(jit().compile(r).cached);
}

TEST_F(CacheTest, FolderComesFromTheEnvironment) {
  Settings s = settings();
  s.cache.clear();
  ::setenv("UNISONO_CACHE_DIR", (root / "from_environment").c_str(), 1);
  EXPECT_EQ(Jit(s, compiler).compile(request()).entry.parent_path(), root / "from_environment");
  ::unsetenv("UNISONO_CACHE_DIR");
}

TEST_F(CacheTest, UnknownKernelIsAnErrorThatListsThoseThere) {
  for (int i = 0; i < 2; ++i) {  // cold and warm
    Request r = request("kernel k kernel other");
    r.entry = "third";
    try {
      jit().compile(r);
      FAIL();
    } catch (const CompileError& e) {
      EXPECT_THAT(e.what(), HasSubstr("'third'"));
      EXPECT_THAT(e.what(), HasSubstr("k, other"));
    }
  }
  EXPECT_EQ(compiler->count, 1);
}

}  // namespace
}  // namespace unisono::jit
