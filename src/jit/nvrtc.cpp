// NVRTC: the compiler as a library, in this process, several compilations at once.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <mutex>
#include <optional>

#include "jit/compiler.hpp"
#include "jit/cubin_resources.hpp"
#include "jit/full_names.hpp"
#include "jit/nvrtc_library.hpp"
#include "unisono/error.hpp"

namespace unisono::jit {
namespace {

/// A program of NVRTC's, for as long as it lives.
class Program {
 public:
  Program(const NvrtcFunctions& nvrtc, const Request& request) : nvrtc_(nvrtc) {
    for (const Header& h : request.headers) {
      header_names_.emplace_back(h.name);
      header_texts_.push_back(with_full_names(h, request.headers));
    }
    std::vector<const char*> names, texts;
    names.reserve(header_names_.size()), texts.reserve(header_texts_.size());
    for (const std::string& n : header_names_) names.push_back(n.c_str());
    for (const std::string& t : header_texts_) texts.push_back(t.c_str());
    const int result = nvrtc_.CreateProgram(&program_, request.source.c_str(), source_name,
                                            static_cast<int>(names.size()), texts.data(), names.data());
    if (result != 0) throw CompileError(fmt::format("'{}': NVRTC: {}", request.title, nvrtc_.GetErrorString(result)));
  }
  ~Program() { nvrtc_.DestroyProgram(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// The error's text, or nothing.
  std::optional<std::string> compile(const std::vector<std::string>& options) {
    std::vector<const char*> texts;
    texts.reserve(options.size());
    for (const std::string& o : options) texts.push_back(o.c_str());
    const int result = nvrtc_.CompileProgram(program_, static_cast<int>(texts.size()), texts.data());
    return result == 0 ? std::nullopt : std::optional<std::string>(nvrtc_.GetErrorString(result));
  }

  std::string log() const {
    std::size_t bytes = 0;
    if (nvrtc_.GetProgramLogSize(program_, &bytes) != 0 || bytes <= 1) return "";
    std::string text(bytes, '\0');
    if (nvrtc_.GetProgramLog(program_, text.data()) != 0) return "";
    text.resize(bytes - 1);  // without the zero at its end
    return text;
  }

  std::vector<std::byte> cubin() const {
    std::size_t bytes = 0;
    if (nvrtc_.GetCUBINSize(program_, &bytes) != 0) return {};
    std::vector<std::byte> image(bytes);
    if (nvrtc_.GetCUBIN(program_, reinterpret_cast<char*>(image.data())) != 0) return {};
    return image;
  }

 private:
  const NvrtcFunctions& nvrtc_;
  NvrtcProgram* program_ = nullptr;
  std::vector<std::string> header_names_, header_texts_;
};

class Nvrtc final : public Compiler {
 public:
  explicit Nvrtc(std::filesystem::path library) : given_(std::move(library)) {}

  std::string identity() override { return "nvrtc " + file().build; }

  std::string description() override {
    int major = 0, minor = 0;
    functions().Version(&major, &minor);
    return fmt::format("NVRTC {}.{} ({})", major, minor, file().path.string());
  }

  std::vector<std::string> options(const std::string& arch) const override {
    return {"--gpu-architecture=" + arch, "--std=c++17", "-default-device", "--ptxas-options=-v"};
  }

  Compiled compile(const Request& request) override {
    std::vector<std::string> given = all_options(*this, request);
    if (keeps_results()) given.emplace_back("--no-cache");
    Program program(functions(), request);
    const auto error = program.compile(given);
    Compiled result{.accepted = !error, .cubin = {}, .log = program.log(), .kernels = {}, .command = {}};
    result.command = fmt::format("{} {} {}", description(), fmt::join(given, " "), source_name);
    if (error) {
      result.log += *error + "\n";
      return result;
    }
    result.cubin = program.cubin();
    result.kernels = resources_of(result.cubin, result.log);
    if (result.kernels.empty()) result.log += "the compiler made no binary with a kernel in it\n";
    return result;
  }

 private:
  // From 12.9 on NVRTC keeps results beside those of the driver. One that it finds there has no log, so that the
  // registers and spills of the assembler are missing.
  bool keeps_results() {
    int major = 0, minor = 0;
    functions().Version(&major, &minor);
    return std::pair(major, minor) >= std::pair(12, 9);
  }

  const NvrtcFile& file() {
    const std::lock_guard lock(mutex_);
    if (!file_) file_ = find_nvrtc(given_);
    return *file_;
  }

  const NvrtcFunctions& functions() {
    const std::filesystem::path path = file().path;
    const std::lock_guard lock(mutex_);
    if (!functions_) functions_ = load_nvrtc(path);
    return *functions_;
  }

  std::filesystem::path given_;
  std::mutex mutex_;
  std::optional<NvrtcFile> file_;
  std::optional<NvrtcFunctions> functions_;
};

}  // namespace

std::shared_ptr<Compiler> make_nvrtc(const std::filesystem::path& library) { return std::make_shared<Nvrtc>(library); }

}  // namespace unisono::jit
