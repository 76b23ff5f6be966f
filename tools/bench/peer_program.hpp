#pragma once
/// Contenders of another program on the same GPU, such as bench/peers/torch_gpu.py: it prepares a case, and times one
/// execution whenever it is asked to, so that its contenders and this program's take turns in one duty cycle.
///
/// The program listens at a Unix socket. Each request and each answer is a line of JSON:
///
///     ← {"about": {...}}                                     at first: what a suite's results say of the program
///     → {"prepare": CASE, "suite": NAME}   ← {"contenders": [{"peer": P, "compile_seconds": S}…], "errors": {P: WHY}}
///     → {"time": P}                        ← {"us": T}       one replay's time, of one execution
///     → {"release": true}                  ← {}              the case's memory is free
///
/// An answer {"error": WHY} stands for any of these.

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/contender.hpp"
#include "unisono/error.hpp"

namespace unisono::bench {

/// The program ended, answered with something else, or not in time.
class PeerFailed : public UserError {
 public:
  using UserError::UserError;
};

class PeerProgram {
 public:
  struct Ready {
    std::string peer;
    double compile_seconds = 0;
    std::unique_ptr<Contender> contender;  ///< until the next case is prepared; time() throws PeerFailed
  };
  struct Case {
    std::vector<Ready> ready;
    std::vector<std::pair<std::string, std::string>> errors;  ///< peer, why it does not take part
  };

  /// `limit_s`: how long an answer may take. Throws PeerFailed if nobody comes to listen at `socket` within it.
  PeerProgram(const std::filesystem::path& socket, double limit_s);
  ~PeerProgram();
  PeerProgram(const PeerProgram&) = delete;
  PeerProgram& operator=(const PeerProgram&) = delete;

  const nlohmann::json& about() const { return about_; }
  /// Throws PeerFailed.
  Case prepare(const nlohmann::json& of, const std::string& suite);
  /// Throws PeerFailed.
  void release();

 private:
  nlohmann::json ask(const nlohmann::json& request);
  nlohmann::json answer();

  int socket_ = -1;
  double limit_s_ = 0;
  std::string received_, where_;
  nlohmann::json about_;
};

}  // namespace unisono::bench
