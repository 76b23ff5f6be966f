#include "bench/peer_program.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <thread>

#include "support/files.hpp"

namespace unisono::bench {
namespace {

using nlohmann::json;

/// A program that listens, says the first line, and gives one answer after another, whatever it is asked.
class Answers {
 public:
  explicit Answers(std::vector<std::string> lines) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path().c_str());
    listening_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::bind(listening_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listening_, 1), 0);
    thread_ = std::thread([this, lines = std::move(lines)] { serve(lines); });
  }
  ~Answers() {
    ::shutdown(listening_, SHUT_RDWR);  // nobody may have come
    thread_.join();
    ::close(listening_);
  }

  std::filesystem::path path() const { return folder_.path() / "s"; }
  /// What it was asked; complete once the other side has gone.
  std::vector<json> asked;

 private:
  void serve(const std::vector<std::string>& lines) {
    const int connection = ::accept(listening_, nullptr, nullptr);
    if (connection < 0) return;
    std::string received;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (i > 0 && !read_line(connection, received)) break;
      const std::string text = lines[i] + "\n";
      ::send(connection, text.data(), text.size(), MSG_NOSIGNAL);
    }
    ::close(connection);
  }

  bool read_line(int connection, std::string& received) {
    std::size_t end = 0;
    while ((end = received.find('\n')) == std::string::npos) {
      std::array<char, 4096> buffer{};
      const ssize_t n = ::recv(connection, buffer.data(), buffer.size(), 0);
      if (n <= 0) return false;
      received.append(buffer.data(), static_cast<std::size_t>(n));
    }
    asked.push_back(json::parse(received.substr(0, end)));
    received.erase(0, end + 1);
    return true;
  }

  support::TemporaryFolder folder_{std::filesystem::temp_directory_path()};
  int listening_ = -1;
  std::thread thread_;
};

constexpr const char* about = R"({"about": {"torch": "2"}})";

TEST(PeerProgram, PreparesTimesAndReleases) {
  Answers there({about, R"({"contenders": [{"peer": "a", "compile_seconds": 2}], "errors": {"b": "why"}})",
                 R"({"us": 1.5})", "{}"});
  {
    PeerProgram program(there.path(), 10);
    EXPECT_EQ(program.about(), (json{{"torch", "2"}}));
    const PeerProgram::Case prepared = program.prepare({{"name", "x"}}, "block");
    ASSERT_EQ(prepared.ready.size(), 1u);
    EXPECT_EQ(prepared.ready[0].peer, "a");
    EXPECT_EQ(prepared.ready[0].compile_seconds, 2);
    ASSERT_EQ(prepared.errors.size(), 1u);
    EXPECT_EQ(prepared.errors[0], (std::pair<std::string, std::string>{"b", "why"}));
    EXPECT_EQ(prepared.ready[0].contender->time(), 1.5);
    program.release();
    ASSERT_EQ(there.asked.size(), 3u);
    EXPECT_EQ(there.asked[0], (json{{"prepare", {{"name", "x"}}}, {"suite", "block"}}));
    EXPECT_EQ(there.asked[1], (json{{"time", "a"}}));
  }
}

void expect_failure(std::vector<std::string> lines, const std::string& what, double limit_s = 10) {
  Answers there(std::move(lines));
  try {
    PeerProgram program(there.path(), limit_s);
    const PeerProgram::Case prepared = program.prepare({{"name", "x"}}, "block");
    for (const auto& ready : prepared.ready) ready.contender->time();
    FAIL() << "expected: " << what;
  } catch (const PeerFailed& error) {
    EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
  }
}

TEST(PeerProgram, WhateverElseItSaysIsItsFailure) {
  const std::string ready = R"({"contenders": [{"peer": "a"}], "errors": {}})";
  expect_failure({"{}"}, "not say what");
  expect_failure({"hello"}, "answered \"hello\"");
  expect_failure({about}, "ended");
  expect_failure({about, R"({"contenders": [{"peer": 3}], "errors": {}})"}, "prepared a case");
  expect_failure({about, R"({"error": "no memory"})"}, "no memory");
  expect_failure({about, ready, R"({"us": "soon"})"}, "gave no time of a");
  expect_failure({about, ready}, "ended");
}

TEST(PeerProgram, DoesNotWaitForEver) {
  const support::TemporaryFolder folder{std::filesystem::temp_directory_path()};
  EXPECT_THROW(PeerProgram(folder.path() / "nobody", 0.2), PeerFailed);
  EXPECT_THROW(PeerProgram(std::string(200, 'x'), 0.2), UserError);
  expect_failure({}, "ended");
}

}  // namespace
}  // namespace unisono::bench
