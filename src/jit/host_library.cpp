// Shared objects of host functions and the kernels that they launch: nvcc, with CUTLASS's headers.
#include <fmt/format.h>

#include <mutex>
#include <optional>
#include <system_error>

#include "jit/compile_error.hpp"
#include "jit/compiler.hpp"
#include "jit/cubin_resources.hpp"
#include "jit/cutlass.hpp"
#include "jit/nvcc_program.hpp"
#include "support/files.hpp"
#include "unisono/error.hpp"

namespace unisono::jit {
namespace {

namespace fs = std::filesystem;

/// "--gpu-architecture" for machine code of "sm_90a", or the portable code of "compute_80".
std::string code_option(const std::string& arch) {
  const std::string number = arch.substr(arch.find('_') + 1);
  return fmt::format("-gencode=arch=compute_{},code={}", number, arch);
}

class HostLibraryCompiler final : public Compiler {
 public:
  HostLibraryCompiler(fs::path nvcc, fs::path cutlass) : program_(std::move(nvcc)), given_(std::move(cutlass)) {}

  std::string identity() override {
    return fmt::format("nvcc {}, CUTLASS {}", program_.found().version, cutlass().version);
  }
  std::string description() override {
    return fmt::format("nvcc {} ({}) with CUTLASS {} ({})", program_.found().version, program_.found().path.string(),
                       cutlass().version, cutlass().include.string());
  }
  // Without NDEBUG an assertion in CUTLASS is a call, around which matrix instructions wait for one another
  std::vector<std::string> options(const std::string& arch) const override {
    return {"--shared",
            "-Xcompiler=-fPIC,-fvisibility=hidden",
            code_option(arch),
            "--std=c++17",
            "-O2",
            "-DNDEBUG",
            "--expt-relaxed-constexpr",
            "--ptxas-options=-v"};
  }
  std::vector<std::string> environment() const override { return NvccProgram::environment(); }

  Compiled compile(const Request& request) override try {
    const support::TemporaryFolder folder(compile_parent());
    write_headers(folder.path(), request.headers);
    support::write_file(folder.path() / source_name, request.source);
    std::vector<std::string> command{program_.found().path.string()};
    for (const std::string& o : all_options(*this, request)) command.push_back(o);
    for (const std::string& o :
         {std::string("--keep"), std::string("-I."), "-I" + cutlass().include.string(),
          "-I" + cutlass().utilities().string(), std::string("-o"), std::string("kernel.so"), std::string(source_name)})
      command.push_back(o);
    const support::Outcome outcome = run_nvcc(command, folder.path());
    Compiled result{.accepted = outcome.exit_code == 0,
                    .cubin = {},
                    .log = outcome.output,
                    .kernels = {},
                    .command = command_text(command)};
    if (outcome.signal != 0) result.log += fmt::format("nvcc was ended by signal {}\n", outcome.signal);
    if (outcome.exit_code != 0) return result.log += lacking(result.log), result;
    result.cubin = bytes_of(folder.path() / "kernel.so");
    if (result.cubin.empty()) return result;
    result.kernels[request.entry] = kernel_of(folder.path(), result.log);
    return result;
  } catch (const std::system_error& error) {
    throw CompileError(fmt::format("'{}': nvcc cannot be run: {}", request.title, error.what()));
  }

 private:
  // CUTLASS's convolutions include a header beside its include/, which is not there where that folder alone was copied
  std::string lacking(const std::string& log) {
    static constexpr const char* header = "cutlass/util/packed_stride.hpp";
    if (log.find(fmt::format("{}: No such file", header)) == log.npos) return "";
    return fmt::format("{} is not there; CUTLASS's convolutions need it next to {}: expected a whole CUTLASS\n",
                       (cutlass().utilities() / header).string(), cutlass().include.string());
  }

  // The resources of the one kernel, which has a long name; portable code has none yet
  static Resources kernel_of(const fs::path& folder, const std::string& log) {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
      const std::string name = entry.path().filename().string();
      if (!name.ends_with(".cubin") || name.find("dlink") != name.npos) continue;
      const auto kernels = resources_of(bytes_of(entry.path()), log);
      if (!kernels.empty()) return kernels.begin()->second;
    }
    return {};
  }

  const Cutlass& cutlass() {
    const std::lock_guard lock(mutex_);
    if (!found_) found_ = find_cutlass(given_);
    return *found_;
  }

  NvccProgram program_;
  fs::path given_;
  std::mutex mutex_;
  std::optional<Cutlass> found_;
};

}  // namespace

std::shared_ptr<Compiler> make_host_library_compiler(const fs::path& nvcc, const fs::path& cutlass) {
  return std::make_shared<HostLibraryCompiler>(nvcc, cutlass);
}

}  // namespace unisono::jit
