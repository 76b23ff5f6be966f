#include "runtime/cuda/driver_version.hpp"

#include <fmt/format.h>

#include <sstream>

#include "support/files.hpp"

namespace unisono::cuda {
namespace {

// "580.95.05" or "535.104": numbers between dots
bool is_version(const std::string& word) {
  return word.find('.') != std::string::npos && word.front() != '.' && word.back() != '.' &&
         word.find_first_not_of("0123456789.") == std::string::npos;
}

}  // namespace

// NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:16 UTC 2025
std::optional<std::string> kernel_module_version(const std::filesystem::path& file) {
  const auto text = support::read_file(file);
  if (!text) return std::nullopt;
  std::istringstream first(text->substr(0, text->find('\n')));
  for (std::string word; first >> word;)
    if (is_version(word)) return word;
  return std::nullopt;
}

std::string driver_text(const std::optional<std::string>& kernel_module, int cuda_version) {
  const std::string cuda = fmt::format("CUDA {}.{}", cuda_version / 1000, cuda_version % 1000 / 10);
  return kernel_module ? *kernel_module + ", " + cuda : cuda;
}

}  // namespace unisono::cuda
