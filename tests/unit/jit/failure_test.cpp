// Sources that do not compile.
#include "fixture.hpp"

namespace unisono::jit {
namespace {

using ::testing::HasSubstr;

class FailureTest : public JitTest {
 protected:
  std::string message(Jit jit, const Request& r) {
    try {
      jit.compile(r);
    } catch (const CompileError& e) {
      return e.what();
    }
    ADD_FAILURE() << "no CompileError";
    return "";
  }
  /// The path after "source:" in a message.
  static fs::path source_in(const std::string& text) {
    const std::size_t at = text.find("source:  ") + 9;
    return text.substr(at, text.find('\n', at) - at);
  }
};

TEST_F(FailureTest, MessageHasTitleCommandLogAndSource) {
  const std::string text = message(jit(), request("broken"));
  for (const char* words : {"'title'", "command: fake", "source.cu(1): error: broken"})
    EXPECT_THAT(text, HasSubstr(words));
  EXPECT_EQ(contents(source_in(text)), "broken");
  EXPECT_EQ(source_in(text).parent_path().parent_path(), cache / failed_folder);
  EXPECT_THAT(contents(source_in(text).parent_path() / log_file), HasSubstr("error: broken"));
}

TEST_F(FailureTest, LeavesNoEntryAndIsTriedAgain) {
  message(jit(), request("broken"));
  message(jit(), request("broken"));
  EXPECT_EQ(compiler->count, 2);
  for (const auto& item : fs::directory_iterator(cache)) EXPECT_FALSE(is_key(item.path().filename().string()));
  EXPECT_EQ(count_in(cache / failed_folder), 1u);
}

TEST_F(FailureTest, FailedSourcesAreKeptToALimit) {
  for (std::size_t i = 0; i < kept_at_most + 5; ++i) message(jit(), request("broken " + std::to_string(i)));
  EXPECT_EQ(count_in(cache / failed_folder), kept_at_most);
}

TEST_F(FailureTest, SourceIsKeptElsewhereIfThereIsNoCache) {
  Settings s = settings();
  s.use_cache = false;
  const fs::path source = source_in(message(Jit(s, compiler), request("broken")));
  EXPECT_EQ(contents(source), "broken");
  EXPECT_TRUE(source.string().starts_with((root / "tmp").string()));
}

TEST_F(FailureTest, SourceThatCannotBeKeptIsSaid) {
  Settings s = settings();
  s.use_cache = false;
  ::setenv("TMPDIR", (root / "absent").c_str(), 1);
  EXPECT_THAT(message(Jit(s, compiler), request("broken")), HasSubstr("source:  not kept: "));
}

TEST_F(FailureTest, LongLogsKeepTheirBeginningAndEnd) {
  Compiled compiled{.accepted = false,
                    .cubin = {},
                    .log = "first\n" + std::string(100000, 'x') + "\nlast",
                    .kernels = {},
                    .command = "c"};
  const std::string text = message_of_failure(request(), compiled, {"/path", ""});
  EXPECT_THAT(text, HasSubstr("first"));
  EXPECT_THAT(text, HasSubstr("last"));
  EXPECT_THAT(text, HasSubstr("bytes left out"));
  EXPECT_LT(text.size(), 20000u);
}

TEST_F(FailureTest, OfABatchIsThrownAfterTheOthersHaveEnded) {
  const std::vector<Request> requests{request("kernel k 1"), request("broken 2"), request("broken 1"),
                                      request("kernel k 2")};
  Settings s = settings();
  s.jobs = 2;
  Jit jit(s, compiler);
  std::size_t ended = 0;
  try {
    jit.compile(requests, [&](std::size_t done, std::size_t, const std::string&) { ended = done; });
    FAIL();
  } catch (const CompileError& e) {
    EXPECT_EQ(contents(source_in(e.what())), "broken 2");  // the first request, whichever thread was faster
  }
  EXPECT_EQ(ended, 4u);
  EXPECT_TRUE(jit.compile(requests[0]).cached);
  EXPECT_TRUE(jit.compile(requests[3]).cached);
}

}  // namespace
}  // namespace unisono::jit
