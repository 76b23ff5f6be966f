// NVRTC's interface over the host's compiler: device code becomes a shared library whose kernels the emulator's driver
// loads. Sections named as a cubin's tell Unisono's reader of resources which kernels there are.

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/files.hpp"
#include "support/hash.hpp"
#include "support/subprocess.hpp"

namespace {

namespace fs = std::filesystem;
using namespace unisono::support;

struct Program {
  std::string source;
  std::map<std::string, std::string> headers;
  std::string log, binary;
};

// The folder of this library: libcuda.so.1 is beside it
fs::path own_folder() {
  Dl_info info{};
  ::dladdr(reinterpret_cast<const void*>(&own_folder), &info);
  return fs::absolute(info.dli_fname).parent_path();
}

std::vector<std::string> kernels_of(const std::string& source) {
  static const std::regex pattern(R"(extern "C"\s+__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)\s*\()");
  std::vector<std::string> names;
  for (std::sregex_iterator i(source.begin(), source.end(), pattern), end; i != end; ++i) names.push_back((*i)[1]);
  return names;
}

// A header of kernels/unisono as it is compiled here: a faulty one that a test made, the emulator's, or itself
std::string header_text(const std::string& name, const std::string& text) {
  const char* faulty = std::getenv("UNISONO_EMULATOR_HEADERS");
  for (const fs::path& folder : {fs::path(faulty == nullptr ? "" : faulty), fs::path(UNISONO_EMULATOR_DEVICE)})
    if (const fs::path own = folder / fs::path(name).lexically_relative("unisono"); !folder.empty() && fs::exists(own))
      return read_file(own).value();
  return text;
}

// The folders of headers that this process has written: kernels mostly share theirs, and files are slow to make
class HeaderFolders {
 public:
  fs::path of(const std::map<std::string, std::string>& headers, const fs::path& parent) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(owner_, ::getpid()) != ::getpid()) abandon();
    std::map<std::string, std::string> texts;
    Hasher hasher;
    for (const auto& [name, text] : headers) hasher.field(name).field(texts[name] = header_text(name, text));
    auto& folder = folders_[hasher.digest()];
    if (folder != nullptr && fs::exists(folder->path())) return folder->path();
    auto made = std::make_unique<TemporaryFolder>(parent);
    for (const auto& [name, text] : texts) {
      make_folders((made->path() / name).parent_path());
      write_file(made->path() / name, text);
    }
    folder = std::move(made);
    return folder->path();
  }
  ~HeaderFolders() {
    if (owner_ != ::getpid()) abandon();
  }

 private:
  // After a fork they belong to the other process
  void abandon() {
    for (auto& [digest, folder] : folders_) (void)folder.release();
    folders_.clear();
  }

  std::mutex mutex_;
  pid_t owner_ = ::getpid();
  std::map<std::string, std::unique_ptr<TemporaryFolder>> folders_;
};

void write_source(const fs::path& folder, const Program& program, const std::vector<std::string>& kernels) {
  std::string text = program.source + "\n";
  for (const std::string& name : kernels) text += fmt::format("UNISONO_EMULATED_KERNEL({})\n", name);
  write_file(folder / "source.cpp", text);
}

int compile(Program& program, std::vector<std::string> definitions) {
  const auto parent = work_folder();
  if (!parent) return program.log = "no folder to compile in", 6;
  const TemporaryFolder folder(*parent);
  const auto kernels = kernels_of(program.source);
  write_source(folder.path(), program, kernels);
  static HeaderFolders headers;
  std::vector<std::string> command{UNISONO_EMULATOR_COMPILER, "-c"};
  std::istringstream flags(UNISONO_EMULATOR_FLAGS);
  for (std::string flag; flags >> flag;) command.push_back(flag);
  // No path of a folder, so that ccache serves each folder
  fs::create_directory_symlink(headers.of(program.headers, *parent), folder.path() / "headers");
  fs::create_directory_symlink(UNISONO_EMULATOR_INCLUDE, folder.path() / "tests");
  fs::create_directory_symlink(UNISONO_EMULATOR_PRELUDE, folder.path() / "prelude");
  for (const char* s : {"-Itests", "-Iheaders", "-include", "prelude/prelude.hpp"}) command.emplace_back(s);
  command.insert(command.end(), definitions.begin(), definitions.end());
  command.insert(command.end(), {"source.cpp", "-o", "kernel.o"});
  const std::string launcher = UNISONO_EMULATOR_LAUNCHER;
  if (!launcher.empty()) command.insert(command.begin(), launcher);
  // It keeps what was compiled with a precompiled header, and of files that have just been written
  const std::string loose = "pch_defines,time_macros,include_file_mtime,include_file_ctime";
  std::vector<std::string> link{UNISONO_EMULATOR_COMPILER, "-shared", "kernel.o", "-o", "kernel.so"};
  if (const std::string linker = UNISONO_EMULATOR_LINKER; !linker.empty()) link.push_back(linker);
  link.push_back((own_folder() / "libcuda.so.1").string());
  write_file(folder.path() / "empty", "");
  std::vector<std::string> mark{UNISONO_EMULATOR_OBJCOPY};
  for (const std::string& name : kernels)
    mark.insert(mark.end(), {"--add-section", fmt::format(".text.{}=empty", name)});
  mark.push_back("kernel.so");
  // One process for all three: each fork copies the page tables of a process that has many thousands of stacks
  const std::string script = fmt::format("{} && {} && {}", shell_text(command), shell_text(link), shell_text(mark));
  const Outcome outcome = run(
      {.arguments = {"/bin/sh", "-c", script}, .folder = folder.path(), .environment = {{"CCACHE_SLOPPINESS", loose}}});
  program.log = outcome.output;
  if (outcome.exit_code != 0) return 6;  // NVRTC_ERROR_COMPILATION
  program.binary = read_file(folder.path() / "kernel.so").value();
  return 0;
}

}  // namespace

extern "C" {

#define UNISONO_EXPORT __attribute__((visibility("default")))

UNISONO_EXPORT const char* nvrtcGetErrorString(int result) {
  return result == 0 ? "NVRTC_SUCCESS" : "NVRTC_ERROR_COMPILATION, emulator " UNISONO_EMULATOR_HASH;
}
UNISONO_EXPORT int nvrtcVersion(int* major, int* minor) { return *major = 13, *minor = 0, 0; }
UNISONO_EXPORT int nvrtcCreateProgram(Program** p, const char* source, const char*, int count, const char* const* texts,
                                      const char* const* names) {
  *p = new Program{.source = source, .headers = {}, .log = {}, .binary = {}};
  for (int i = 0; i < count; ++i) (*p)->headers[names[i]] = texts[i];
  return 0;
}
UNISONO_EXPORT int nvrtcDestroyProgram(Program** p) { return delete *p, *p = nullptr, 0; }
UNISONO_EXPORT int nvrtcCompileProgram(Program* p, int count, const char* const* options) {
  std::vector<std::string> definitions;
  for (int i = 0; i < count; ++i)
    if (std::string(options[i]).starts_with("-D")) definitions.emplace_back(options[i]);
  try {
    return compile(*p, definitions);
  } catch (const std::exception& e) {
    return p->log += e.what(), 6;
  }
}
UNISONO_EXPORT int nvrtcGetProgramLogSize(Program* p, std::size_t* bytes) { return *bytes = p->log.size() + 1, 0; }
UNISONO_EXPORT int nvrtcGetProgramLog(Program* p, char* text) {
  return p->log.copy(text, p->log.size()), text[p->log.size()] = 0, 0;
}
UNISONO_EXPORT int nvrtcGetCUBINSize(Program* p, std::size_t* bytes) { return *bytes = p->binary.size(), 0; }
UNISONO_EXPORT int nvrtcGetCUBIN(Program* p, char* bytes) { return p->binary.copy(bytes, p->binary.size()), 0; }
}
