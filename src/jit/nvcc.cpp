// nvcc: the toolkit's command, in a process of its own.
#include <fmt/format.h>

#include <system_error>

#include "jit/compile_error.hpp"
#include "jit/compiler.hpp"
#include "jit/cubin_resources.hpp"
#include "jit/nvcc_program.hpp"
#include "support/files.hpp"
#include "unisono/error.hpp"

namespace unisono::jit {
namespace {

class Nvcc final : public Compiler {
 public:
  explicit Nvcc(std::filesystem::path nvcc) : program_(std::move(nvcc)) {}

  std::string identity() override { return "nvcc " + program_.found().version; }

  std::string description() override {
    return fmt::format("nvcc {} ({})", program_.found().version, program_.found().path.string());
  }

  std::vector<std::string> options(const std::string& arch) const override {
    return {"--cubin", "--gpu-architecture=" + arch, "--std=c++17", "--expt-relaxed-constexpr", "--ptxas-options=-v"};
  }

  std::vector<std::string> environment() const override { return NvccProgram::environment(); }

  Compiled compile(const Request& request) override try {
    const support::TemporaryFolder folder(compile_parent());
    write_headers(folder.path(), request.headers);
    support::write_file(folder.path() / source_name, request.source);

    std::vector<std::string> command{program_.found().path.string()};
    for (const std::string& o : all_options(*this, request)) command.push_back(o);
    for (const char* o : {"-I.", "-o", "kernel.cubin", source_name}) command.emplace_back(o);
    const support::Outcome outcome = run_nvcc(command, folder.path());

    Compiled result{.accepted = outcome.exit_code == 0,
                    .cubin = {},
                    .log = outcome.output,
                    .kernels = {},
                    .command = command_text(command)};
    if (outcome.signal != 0) result.log += fmt::format("nvcc was ended by signal {}\n", outcome.signal);
    if (!result.accepted) return result;
    result.cubin = bytes_of(folder.path() / "kernel.cubin");
    result.kernels = resources_of(result.cubin, result.log);
    if (result.kernels.empty()) result.log += "the compiler made no binary with a kernel in it\n";
    return result;
  } catch (const std::system_error& error) {
    throw CompileError(fmt::format("'{}': nvcc cannot be run: {}", request.title, error.what()));
  }

 private:
  NvccProgram program_;
};

}  // namespace

std::shared_ptr<Compiler> make_nvcc(const std::filesystem::path& nvcc) { return std::make_shared<Nvcc>(nvcc); }

}  // namespace unisono::jit
