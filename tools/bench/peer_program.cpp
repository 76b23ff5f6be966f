#include "bench/peer_program.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

namespace unisono::bench {

using nlohmann::json;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// One contender: what time() asks of the program.
class Remote : public Contender {
 public:
  explicit Remote(std::function<double()> ask) : ask_(std::move(ask)) {}
  double time() override { return ask_(); }

 private:
  std::function<double()> ask_;
};

sockaddr_un address_of(const std::filesystem::path& socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string& name = socket.native();
  if (name.empty() || name.size() >= sizeof address.sun_path)
    throw UserError(fmt::format("--beside {}: the path of the socket has {} characters; expected 1 to {}", name,
                                name.size(), sizeof address.sun_path - 1));
  std::memcpy(address.sun_path, name.data(), name.size());
  return address;
}

}  // namespace

PeerProgram::PeerProgram(const std::filesystem::path& socket, double limit_s)
    : limit_s_(limit_s), where_(fmt::format("the program at {}", socket.string())) {
  const sockaddr_un address = address_of(socket);
  socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) throw PeerFailed(fmt::format("{}: no socket: {}", where_, std::strerror(errno)));
  // a program that was started just now, or anew after a case that broke it, takes a while until it listens
  const auto start = Clock::now();
  while (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int error = errno;
    if ((error != ECONNREFUSED && error != ENOENT && error != EINTR) || seconds_since(start) > limit_s_) {
      ::close(socket_);
      throw PeerFailed(fmt::format("{} does not listen: {}", where_, std::strerror(error)));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  try {
    about_ = answer().at("about");
  } catch (const json::exception&) {
    ::close(socket_);
    throw PeerFailed(where_ + " does not say what it is: its first line must have \"about\"");
  } catch (const PeerFailed&) {
    ::close(socket_);
    throw;
  }
}

PeerProgram::~PeerProgram() { ::close(socket_); }

json PeerProgram::answer() {
  const auto start = Clock::now();
  std::size_t end = 0;
  while ((end = received_.find('\n')) == std::string::npos) {
    const double left = limit_s_ - seconds_since(start);
    if (left <= 0) throw PeerFailed(fmt::format("{} did not answer within {:g} s", where_, limit_s_));
    pollfd waiting{socket_, POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(std::min(left, 1000.0) * 1000) + 1) <= 0) continue;
    std::array<char, 65536> buffer{};
    const ssize_t n = ::recv(socket_, buffer.data(), buffer.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw PeerFailed(where_ + " ended");
    received_.append(buffer.data(), static_cast<std::size_t>(n));
  }
  const std::string line = received_.substr(0, end);
  received_.erase(0, end + 1);
  json result = json::parse(line, nullptr, false);
  if (!result.is_object())
    throw PeerFailed(fmt::format("{} answered {:?}, not an object", where_, line.substr(0, 200)));
  if (result.contains("error")) throw PeerFailed(fmt::format("{}: {}", where_, result["error"].dump()));
  return result;
}

json PeerProgram::ask(const json& request) {
  const std::string line = request.dump() + "\n";
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t n = ::send(socket_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw PeerFailed(where_ + " ended");
    sent += static_cast<std::size_t>(n);
  }
  return answer();
}

PeerProgram::Case PeerProgram::prepare(const json& of, const std::string& suite) {
  const json said = ask({{"prepare", of}, {"suite", suite}});
  Case result;
  try {
    for (const json& c : said.at("contenders")) {
      const std::string peer = c.at("peer");
      result.ready.push_back({peer, c.value("compile_seconds", 0.0), std::make_unique<Remote>([this, peer] {
                                const json time = ask({{"time", peer}});
                                if (!time.contains("us") || !time["us"].is_number())
                                  throw PeerFailed(where_ + " gave no time of " + peer);
                                return time["us"].get<double>();
                              })});
    }
    for (const auto& [peer, why] : said.at("errors").items()) result.errors.emplace_back(peer, why.get<std::string>());
  } catch (const json::exception& error) {
    throw PeerFailed(fmt::format("{} prepared a case and said {}: {}", where_, said.dump(), error.what()));
  }
  return result;
}

void PeerProgram::release() { ask({{"release", true}}); }

}  // namespace unisono::bench
