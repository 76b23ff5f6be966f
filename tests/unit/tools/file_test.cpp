#include "media/file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "support/files.hpp"
#include "unisono/error.hpp"

namespace unisono {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class File : public testing::Test {
 protected:
  support::TemporaryFolder temporary{std::filesystem::temp_directory_path()};
  std::filesystem::path folder = temporary.path();
};

TEST_F(File, RoundTripAndEmpty) {
  const std::filesystem::path path = folder / "unisono_file_test";
  for (const std::size_t size : {0u, 1u, 4095u, 4096u, 100000u}) {
    std::vector<std::uint8_t> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(i * 31);
    media::write_file(path, bytes);
    EXPECT_EQ(media::read_file(path), bytes);
  }
}

TEST_F(File, LimitIsInclusive) {
  const std::filesystem::path path = folder / "unisono_file_limit";
  media::write_file(path, std::string_view("12345"));
  EXPECT_EQ(media::read_file(path, {.bytes = 5}).size(), 5u);
  EXPECT_THAT([&] { media::read_file(path, {.bytes = 4}); },
              ThrowsMessage<UserError>(HasSubstr("larger than 4 bytes")));
}

TEST_F(File, DevicesAndPipesAreRefused) {
  EXPECT_THAT([&] { media::read_file("/dev/zero", {.bytes = 100000}); },
              ThrowsMessage<UserError>(HasSubstr("is a character device")));
  const std::filesystem::path fifo = folder / "unisono_fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT([&] { media::read_file(fifo); },
              ThrowsMessage<UserError>(AllOf(HasSubstr("unisono_fifo' is a FIFO"), HasSubstr("write what comes out"))));
}

TEST_F(File, AFailedWriteLeavesTheLastResult) {
  const std::filesystem::path path = folder / "unisono_file_kept";
  media::write_file(path, std::string_view("good"));
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{1000, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THAT([&] { media::write_file(path, std::string(2000, 'x')); },
              ThrowsMessage<UserError>(HasSubstr("File too large")));
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(media::read_file(path).size(), 4u);
}

TEST_F(File, FoldersAndMissingFilesAreRefused) {
  EXPECT_THAT([&] { media::read_file(folder); }, ThrowsMessage<UserError>(HasSubstr("Is a directory")));
  EXPECT_THAT([&] { media::read_file(folder / "unisono_no_such_file"); },
              ThrowsMessage<UserError>(HasSubstr("No such file")));
  EXPECT_THAT([&] { media::write_file(folder / "unisono_no_such_folder" / "x", std::string_view("x")); },
              ThrowsMessage<UserError>(HasSubstr("unisono_no_such_folder")));
}

TEST_F(File, FullDiskIsReported) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full on this machine";
  EXPECT_THAT([&] { media::write_file("/dev/full", std::string_view("x")); },
              ThrowsMessage<UserError>(HasSubstr("No space")));
}

TEST_F(File, FolderIsMadeOrRefused) {
  const std::filesystem::path deep = folder / "unisono_deep" / "er";
  media::make_folder(deep);
  media::make_folder(deep);
  EXPECT_TRUE(std::filesystem::is_directory(deep));
  media::write_file(deep / "file", std::string_view("x"));
  EXPECT_THAT([&] { media::make_folder(deep / "file"); }, ThrowsMessage<UserError>(HasSubstr("file")));
  EXPECT_THAT([&] { media::make_folder(deep / "file" / "below"); }, ThrowsMessage<UserError>(HasSubstr("below")));
}

}  // namespace
}  // namespace unisono
