#include "worker.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <random>

#include "support/fake_compiler.hpp"

namespace unisono::storm {
namespace {

/// Lines that are whole even if the process is killed in the middle.
class Log {
 public:
  explicit Log(const std::filesystem::path& path)
      : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {}
  void line(const std::string& text) const { [[maybe_unused]] const auto n = ::write(file_, text.data(), text.size()); }

 private:
  int file_;
};

/// Tells when a compilation starts, whichever compiler it is.
class Logged : public jit::Compiler {
 public:
  Logged(std::shared_ptr<jit::Compiler> inner, const Log& log) : inner_(std::move(inner)), log_(log) {}
  std::string identity() override { return inner_->identity(); }
  std::string description() override { return inner_->description(); }
  std::vector<std::string> options(const std::string& arch) const override { return inner_->options(arch); }
  jit::Compiled compile(const jit::Request& request) override {
    log_.line("start " + request.title + "\n");
    return inner_->compile(request);
  }

 private:
  std::shared_ptr<jit::Compiler> inner_;
  const Log& log_;
};

std::shared_ptr<jit::Compiler> compiler_of(const Options& options) {
  if (options.compiler == "nvrtc") return jit::make_nvrtc({});
  auto fake = std::make_shared<testing::FakeCompiler>();
  fake->on_compile = [](const jit::Request&) {
    thread_local std::minstd_rand random(static_cast<unsigned>(::getpid()));
    std::this_thread::sleep_for(std::chrono::microseconds(2000 + random() % 6000));
  };
  return fake;
}

void wait_for_start() {
  char byte;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
}

/// What is wrong with a result; empty if nothing is.
std::string check(const Options& options, const jit::Request& request, const jit::Binary& binary) {
  if (options.compiler == "fake") {
    if (binary.cubin != testing::FakeCompiler::result(request, "1").cubin) return "another binary than expected";
  } else {
    const std::string marker = "storm_" + request.title;  // the kernel's name is in the binary
    const std::string_view bytes(reinterpret_cast<const char*>(binary.cubin.data()), binary.cubin.size());
    if (bytes.find(marker) == std::string_view::npos) return "a binary without its kernel";
  }
  return binary.resources.registers > 0 ? "" : "no registers";
}

}  // namespace

std::vector<jit::Request> requests(const Options& options) {
  std::vector<jit::Request> all;
  for (int i = 0; i < options.kernels; ++i) {
    const std::string title = std::to_string(i), entry = "storm_" + title;
    const std::string source =
        options.compiler == "fake"
            ? "kernel " + entry
            : fmt::format(
                  "extern \"C\" __global__ void {}(float* x) {{ x[threadIdx.x] = x[threadIdx.x] * {}.0f + 1.0f; }}\n",
                  entry, i);
    all.push_back({.source = source, .headers = {}, .entry = entry, .title = title, .arch = "sm_90a"});
  }
  return all;
}

int work(const Options& options, const std::filesystem::path& folder, const std::filesystem::path& log_path) {
  const Log log(log_path);
  const auto all = requests(options);
  wait_for_start();
  std::string problem;
  jit::Settings settings;
  settings.cache = folder;
  settings.jobs = 2;
  settings.warn = [&](const std::string& text) { problem = "warning: " + text; };
  jit::Jit jit(settings, std::make_shared<Logged>(compiler_of(options), log));
  const auto binaries =
      jit.compile(all, [&](std::size_t, std::size_t, const std::string& title) { log.line("done " + title + "\n"); });
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string wrong = check(options, all[i], binaries[i]);
    if (!wrong.empty()) problem = all[i].title + ": " + wrong;
  }
  if (!problem.empty()) fmt::print(stderr, "process {}: {}\n", ::getpid(), problem);
  return problem.empty() ? 0 : 1;
}

}  // namespace unisono::storm
