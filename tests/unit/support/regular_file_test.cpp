// Only regular files are opened, and opening never waits.
#include "support/regular_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "support/files.hpp"
#include "unisono/error.hpp"

namespace unisono::support {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;

class RegularFileTest : public ::testing::Test {
 protected:
  static std::string error_of(const fs::path& path) {
    try {
      const RegularFile file(path);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }
  TemporaryFolder folder{fs::temp_directory_path()};
};

TEST_F(RegularFileTest, ReadsAnyPart) {
  write_file(folder.path() / "file", "0123456789");
  const RegularFile file(folder.path() / "file");
  EXPECT_EQ(file.size(), 10u);
  EXPECT_TRUE(file.is_own());
  std::vector<std::byte> part(4);
  EXPECT_EQ(file.read(8, part), 2u);
  EXPECT_EQ(static_cast<char>(part[1]), '9');
  EXPECT_EQ(file.read(100, part), 0u);
  EXPECT_EQ(file.read_all(10), "0123456789");
  EXPECT_FALSE(file.read_all(9));
}

TEST_F(RegularFileTest, EverythingElseIsRefusedByItsKind) {
  const fs::path fifo = folder.path() / "fifo", socket = folder.path() / "socket";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(socket.string().size(), sizeof address.sun_path);
  std::strcpy(address.sun_path, socket.c_str());
  const int server = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(server, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_THAT(error_of(fifo), AllOf(HasSubstr("'" + fifo.string() + "' is a FIFO"), HasSubstr("write what comes out")));
  EXPECT_THAT(error_of(socket), HasSubstr("is a socket; expected a regular file"));
  EXPECT_THAT(error_of("/dev/zero"), HasSubstr("is a character device"));
  EXPECT_THAT(error_of(folder.path()), HasSubstr("Is a directory"));
  EXPECT_THAT(error_of(folder.path() / "absent"), HasSubstr("No such file"));
  EXPECT_THAT(why_not_regular(fifo), HasSubstr("is a FIFO"));
  EXPECT_EQ(why_not_regular(folder.path() / "absent"), "");
  EXPECT_FALSE(read_file(fifo));  // did wait for a writer
  ::close(server);
}

TEST_F(RegularFileTest, LinksCanBeRefused) {
  write_file(folder.path() / "file", "x");
  fs::create_symlink("file", folder.path() / "link");
  std::string why;
  EXPECT_TRUE(RegularFile::attempt(folder.path() / "link", why));
  EXPECT_FALSE(RegularFile::attempt(folder.path() / "link", why, RegularFile::Links::refuse));
  EXPECT_THAT(why, HasSubstr("is a symbolic link"));
}

TEST_F(RegularFileTest, WhatOthersMayWriteIsNotOwn) {
  write_file(folder.path() / "file", "x");
  ASSERT_EQ(::chmod((folder.path() / "file").c_str(), 0666), 0);
  EXPECT_FALSE(RegularFile(folder.path() / "file").is_own());
}

TEST_F(RegularFileTest, FilesOfProcAreReadThoughTheySayThatTheyAreEmpty) {
  const RegularFile file("/proc/self/status");
  EXPECT_EQ(file.size(), 0u);
  EXPECT_THAT(read_file("/proc/self/status").value_or(""), HasSubstr("Pid:"));
  EXPECT_FALSE(file.read_all(10));
}

TEST_F(RegularFileTest, StreamsAreReadToTheirEnd) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::string text(10000, 'x');
  ASSERT_EQ(::write(ends[1], text.data(), text.size()), 10000);
  ::close(ends[1]);
  EXPECT_EQ(read_stream(ends[0], 10000, "a pipe"), text);
  ::close(ends[0]);
  EXPECT_THROW(read_stream(ends[0], 10000, "a pipe"), std::system_error);
}

TEST_F(RegularFileTest, NamesAreShownWithoutEscapes) {
  EXPECT_THAT(error_of(folder.path() / "\x1b[31m"), AllOf(HasSubstr("\\x1b[31m"), Not(HasSubstr("\x1b"))));
}

}  // namespace
}  // namespace unisono::support
