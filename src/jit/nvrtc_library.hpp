#pragma once
/// NVRTC, found and loaded at run time. Its few functions are declared here, so that building needs no toolkit.

#include <filesystem>
#include <string>
#include <vector>

namespace unisono::jit {

struct NvrtcProgram;  // NVIDIA's, opaque

/// The functions, by the names that they have after "nvrtc". Each returns 0 for success.
struct NvrtcFunctions {
  const char* (*GetErrorString)(int result);
  int (*Version)(int* major, int* minor);
  int (*CreateProgram)(NvrtcProgram** program, const char* source, const char* name, int headers,
                       const char* const* header_texts, const char* const* header_names);
  int (*CompileProgram)(NvrtcProgram* program, int options, const char* const* option_texts);
  int (*DestroyProgram)(NvrtcProgram** program);
  int (*GetProgramLogSize)(NvrtcProgram* program, std::size_t* bytes);
  int (*GetProgramLog)(NvrtcProgram* program, char* text);
  int (*GetCUBINSize)(NvrtcProgram* program, std::size_t* bytes);
  int (*GetCUBIN)(NvrtcProgram* program, char* bytes);
};

struct NvrtcFile {
  std::filesystem::path path;
  std::string build;  ///< as build_id()
};

/// Where NVRTC is: the library given, else libnvrtc.so.13, .so.12 and .so in the toolkits that the environment names,
/// in LD_LIBRARY_PATH, in NVIDIA's packages for Python (support/cuda_places.hpp), in /usr/local/cuda, and wherever the
/// dynamic linker finds them. Only the last loads anything.
/// Throws CompileError with all places.
NvrtcFile find_nvrtc(const std::filesystem::path& given);

/// Loads it; it stays loaded. Throws CompileError with the linker's reason.
NvrtcFunctions load_nvrtc(const std::filesystem::path& library);

}  // namespace unisono::jit
