#pragma once
/// --asm: the machine code (SASS) of kernels, as text.

#include <filesystem>
#include <string>
#include <vector>

#include "jit/request.hpp"
#include "unisono/network.hpp"

namespace unisono::command {

struct Listed {
  jit::Request request;
  std::string launch;  ///< "3: conv2d …"; empty if there is one
};

/// The kernels of a network with the numbers and names of their launches, where each launch of the report has one.
std::vector<Listed> with_launches(std::vector<jit::Request> requests, const DeviceReport& report);

/// Compiles the kernels where the cache lacks them, and writes what nvdisasm makes of each binary, each once. Throws
/// CompileError if nvdisasm is not on this machine or fails, and Unsupported for binaries that it cannot read: those of
/// the tests' emulated GPU, and shared objects of family cutlass_evt.
void write_assembly(const std::filesystem::path& file, const std::vector<Listed>& kernels);

}  // namespace unisono::command
