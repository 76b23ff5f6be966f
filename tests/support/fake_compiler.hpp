#pragma once
/// A compiler for tests of what stands around the compiler. Its "binary" is a function of the request.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <sstream>
#include <string>
#include <thread>

#include "jit/compiler.hpp"
#include "unisono/error.hpp"

namespace unisono::testing {

/// Source for it: words. "kernel NAME" makes a kernel; "broken" does not compile.
class FakeCompiler : public jit::Compiler {
 public:
  explicit FakeCompiler(std::string version = "1") : version_(std::move(version)) {}

  std::string identity() override {
    if (missing) throw CompileError("no fake compiler was found");
    return "fake " + version_;
  }
  std::string description() override { return "Fake " + version_; }
  std::vector<std::string> options(const std::string& arch) const override { return {"--fake", "--arch=" + arch}; }
  std::vector<std::string> environment() const override { return variables; }

  jit::Compiled compile(const jit::Request& request) override {
    const int now = ++running;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    ++count;
    if (on_compile) on_compile(request);
    std::this_thread::sleep_for(duration);
    --running;
    return result(request, version_);
  }

  /// What compile() gives.
  static jit::Compiled result(const jit::Request& request, const std::string& version) {
    jit::Compiled compiled{.cubin = {}, .log = "fake log of " + request.title + "\n", .kernels = {}, .command = "fake"};
    if (request.source.find("broken") != std::string::npos)
      return compiled.log += "source.cu(1): error: broken\n", compiled;
    std::istringstream words(request.source);
    for (std::string word; words >> word;) {
      if (word != "kernel" || !(words >> word)) continue;
      compiled.kernels[word] = {.registers = static_cast<int>(word.size()),
                                .spill_store_bytes = 8,
                                .spill_load_bytes = 4,
                                .stack_bytes = 16,
                                .static_shared_bytes = 32,
                                .injected_waits = 2};
    }
    std::string text = version + request.arch;
    for (const std::string& o : request.options) text += o;
    while (text.size() < 3000) text += request.source;  // more than one page
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    compiled.cubin.assign(bytes, bytes + text.size());
    return compiled;
  }

  std::chrono::milliseconds duration{0};
  std::function<void(const jit::Request&)> on_compile;
  bool missing = false;
  std::vector<std::string> variables;              ///< of the environment, that a binary depends on
  std::atomic<int> count{0}, running{0}, most{0};  ///< compilations; those under way; the most at once

 private:
  std::string version_;
};

}  // namespace unisono::testing
