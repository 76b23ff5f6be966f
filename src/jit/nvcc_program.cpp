#include "jit/nvcc_program.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "jit/compile_error.hpp"
#include "support/environment.hpp"
#include "support/files.hpp"
#include "support/subprocess.hpp"
#include "unisono/error.hpp"

namespace unisono::jit {

namespace fs = std::filesystem;

namespace {

constexpr const char* advice =
    "Install the CUDA toolkit 12.3 or later (package cuda-nvcc), or set CUDA_HOME to its folder, or choose NVRTC as "
    "the "
    "compiler; kernels that are in a pack or in the cache need none.";

bool is_program(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

fs::path find_nvcc(const fs::path& given) {
  if (!given.empty()) {
    if (is_program(given)) return fs::absolute(given);
    throw CompileError(fmt::format("{}: expected nvcc; there is no executable file of that name", given.string()));
  }
  std::vector<fs::path> places = support::executable_folders();
  for (const fs::path& toolkit : support::cuda_folders()) places.push_back(toolkit / "bin");
  std::vector<std::string> looked_at;
  for (const fs::path& place : places) {
    if (is_program(place / "nvcc")) return fs::absolute(place / "nvcc");
    looked_at.push_back((place / "nvcc").string());
  }
  throw CompileError(message_of_missing_compiler("nvcc", looked_at, advice));
}

// nvcc reads these as if they stood on its command line
constexpr const char* flag_variables[] = {"NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN"};

// The host compiler, which runs as the preprocessor, takes headers and programs from the places that these name, or
// writes files: the value would not tell what is there, so nvcc does not see them.
constexpr const char* hidden_variables[] = {
    "CPATH",         "C_INCLUDE_PATH",      "CPLUS_INCLUDE_PATH",  "OBJC_INCLUDE_PATH",    "GCC_EXEC_PREFIX",
    "COMPILER_PATH", "DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES", "CCC_OVERRIDE_OPTIONS", "SOURCE_DATE_EPOCH"};

/// "V13.0.88, Build cuda_13.0.r13.0/compiler.36424714_0" from what `nvcc --version` prints.
std::string version_of(const fs::path& nvcc) try {
  const support::Outcome outcome = support::run({.arguments = {nvcc.string(), "--version"}, .folder = {}});
  const std::string& text = outcome.output;
  const std::size_t release = text.find(", V"), build = text.find("Build ");
  if (outcome.exit_code != 0 || release == std::string::npos) {
    throw CompileError(fmt::format("{} --version: exit code {}, expected a line with the release; it printed:\n{}",
                                   nvcc.string(), outcome.exit_code, text));
  }
  const auto line_at = [&](std::size_t at) { return text.substr(at, text.find('\n', at) - at); };
  return line_at(release + 2) + (build == std::string::npos ? "" : ", " + line_at(build));
} catch (const std::system_error& error) {
  throw CompileError(fmt::format("nvcc cannot be run: {}", error.what()));
}

}  // namespace

const NvccProgram::Found& NvccProgram::found() {
  const std::lock_guard lock(mutex_);
  if (!found_) {
    const fs::path path = find_nvcc(given_);
    found_ = Found{path, version_of(path)};
  }
  return *found_;
}

std::vector<std::string> NvccProgram::environment() {
  std::vector<std::string> set;
  for (const char* name : flag_variables)
    if (const auto value = support::compiler_variable(name)) set.push_back(fmt::format("{}={}", name, *value));
  return set;
}

/// Writes the headers as files. Their names are part of #include lines, so they are relative and stay in the folder.
void write_headers(const fs::path& folder, std::span<const Header> headers) {
  for (const Header& h : headers) {
    const fs::path name(h.name);
    if (name.empty() || name.is_absolute() || std::find(name.begin(), name.end(), "..") != name.end()) {
      throw InternalError(fmt::format("header '{}': expected a relative name without '..'", h.name));
    }
    support::make_folders((folder / name).parent_path());
    support::write_file(folder / name, h.text);
  }
}

support::Outcome run_nvcc(const std::vector<std::string>& command, const fs::path& folder) {
  return support::run({.arguments = command,
                       .folder = folder,
                       .environment = {{"TMPDIR", folder.string()}},
                       .unset = {std::begin(hidden_variables), std::end(hidden_variables)}});
}

std::vector<std::byte> bytes_of(const fs::path& file) {
  const auto text = support::read_file(file);
  if (!text) return {};
  const auto* bytes = reinterpret_cast<const std::byte*>(text->data());
  return {bytes, bytes + text->size()};
}

std::string command_text(const std::vector<std::string>& command) {
  std::string text = support::shell_text(command);
  for (const std::string& variable : NvccProgram::environment()) text = support::shell_text({variable}) + " " + text;
  return text;
}

fs::path compile_parent() {
  const auto parent = support::work_folder();
  if (!parent)
    throw CompileError("no folder to compile in: " + support::temporary_files_folder().string() +
                       " cannot be written; set TMPDIR to a folder of yours");
  support::sweep(*parent);
  return *parent;
}

}  // namespace unisono::jit
