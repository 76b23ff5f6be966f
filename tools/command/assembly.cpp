#include "command/assembly.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "jit/compile_error.hpp"
#include "jit/jit.hpp"
#include "jit/nvcc_program.hpp"
#include "media/file.hpp"
#include "network/kernel_numbers.hpp"
#include "support/cuda_places.hpp"
#include "support/environment.hpp"
#include "support/files.hpp"
#include "support/subprocess.hpp"
#include "unisono/error.hpp"

namespace unisono::command {
namespace {

namespace fs = std::filesystem;

constexpr const char* disassembler_advice =
    "Install it: `pip install nvidia-cuda-nvdisasm` (its program is in nvidia/cu13/bin of the Python packages), or the "
    "package cuda-nvdisasm of NVIDIA's repositories or of conda-forge; the CUDA toolkit has it, too; then put its "
    "folder on PATH, or set CUDA_HOME to the folder that has bin/nvdisasm.";

fs::path find_nvdisasm() {
  std::vector<fs::path> places = support::executable_folders();
  for (const fs::path& toolkit : support::cuda_folders()) places.push_back(toolkit / "bin");
  for (const fs::path& package : support::python_library_folders()) places.push_back(package.parent_path() / "bin");
  std::vector<std::string> looked_at;
  for (const fs::path& place : places) {
    const fs::path program = place / "nvdisasm";
    std::error_code failed;
    if (fs::is_regular_file(program, failed) && ::access(program.c_str(), X_OK) == 0) return fs::absolute(program);
    looked_at.push_back(program.string());
  }
  throw CompileError(jit::message_of_missing_compiler("nvdisasm", looked_at, disassembler_advice));
}

/// An ELF file's e_machine is EM_CUDA.
bool is_cubin(const std::vector<std::byte>& binary) {
  constexpr std::size_t machine_at = 18;
  constexpr unsigned char em_cuda = 190;
  return binary.size() > machine_at + 1 && std::memcmp(binary.data(), "\x7f\x45\x4c\x46", 4) == 0 &&
         std::to_integer<unsigned char>(binary[machine_at]) == em_cuda &&
         std::to_integer<unsigned char>(binary[machine_at + 1]) == 0;
}

void check_is_cubin(const jit::Request& request, const jit::Binary& binary) {
  if (request.host_library)
    throw Unsupported(fmt::format(
        "--asm: '{}' is a shared object with a kernel of CUTLASS's, not a cubin; `cuobjdump -sass` reads it{}",
        request.title, binary.entry.empty() ? "" : " in " + binary.entry.string()));
  if (!is_cubin(binary.cubin))
    throw Unsupported(
        fmt::format("--asm: '{}' was compiled to code of this machine's CPU, for an emulated GPU; SASS "
                    "needs NVIDIA's NVRTC or nvcc",
                    request.title));
}

std::string disassembled(const fs::path& nvdisasm, const jit::Binary& binary) try {
  const support::TemporaryFolder work(jit::compile_parent());
  const fs::path file = work.path() / "kernel.cubin", text = work.path() / "kernel.sass";
  support::write_file(file, std::string_view(reinterpret_cast<const char*>(binary.cubin.data()), binary.cubin.size()));
  const std::vector<std::string> command = {
      "/bin/sh", "-c", R"(exec "$1" -c "$2" >"$3")", "sh", nvdisasm.string(), file.string(), text.string()};
  const support::Outcome outcome = support::run({.arguments = command, .folder = work.path()});
  const auto sass = support::read_file(text);
  if (outcome.exit_code != 0 || !sass || sass->empty())
    throw CompileError(
        fmt::format("{} -c KERNEL.cubin: exit code {}; it printed:\n{}\nA kernel of a newer GPU or "
                    "compiler needs an nvdisasm of that release.",
                    nvdisasm.string(), outcome.exit_code, outcome.output));
  return *sass;
} catch (const std::system_error& error) {
  throw CompileError(fmt::format("nvdisasm cannot be run: {}", error.what()));
}

/// A binary, and all launches that it serves.
struct Shown {
  const jit::Request* request;
  const jit::Binary* binary;
  std::string launches;
};

std::string text_of(const Shown& shown, const fs::path& nvdisasm) {
  const jit::Resources& r = shown.binary->resources;
  return fmt::format("// {}\n{}// kernel {} for {}: {} registers, {} bytes of spills, {} bytes of stack\n{}\n",
                     shown.request->title, shown.launches, shown.request->entry, shown.request->arch, r.registers,
                     r.spill_store_bytes + r.spill_load_bytes, r.stack_bytes, disassembled(nvdisasm, *shown.binary));
}

}  // namespace

std::vector<Listed> with_launches(std::vector<jit::Request> requests, const DeviceReport& report) {
  const network::KernelNumbers numbers(report.fusion);
  std::vector<std::string> launches;
  for (const LaunchReport& l : report.launches) {
    if (l.on_host || l.how.find("cuDNN") != std::string::npos) continue;
    const int number = numbers.of(l.name);
    launches.push_back(number > 0 ? fmt::format("{}: {} -> {}", number, l.what, l.name)
                                  : fmt::format("{} -> {}", l.what, l.name));
  }
  std::vector<Listed> kernels;
  for (std::size_t i = 0; i < requests.size(); ++i)
    kernels.push_back({std::move(requests[i]), launches.size() == requests.size() ? launches[i] : ""});
  return kernels;
}

void write_assembly(const fs::path& file, const std::vector<Listed>& kernels) {
  const fs::path nvdisasm = find_nvdisasm();
  std::vector<jit::Request> requests;
  for (const Listed& kernel : kernels) requests.push_back(kernel.request);
  const std::vector<jit::Binary> binaries = jit::Jit().compile(requests);
  std::map<std::string, std::size_t> places;
  std::vector<Shown> all;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    check_is_cubin(requests[i], binaries[i]);
    const auto [place, is_new] = places.emplace(binaries[i].key + requests[i].entry, all.size());
    if (is_new) all.push_back({&requests[i], &binaries[i], ""});
    if (!kernels[i].launch.empty()) all[place->second].launches += "// launch " + kernels[i].launch + "\n";
  }
  std::string text;
  for (const Shown& shown : all) text += text_of(shown, nvdisasm);
  media::write_file(file, text);
}

}  // namespace unisono::command
