#include "lower/request.hpp"
#include "families/interface/family.hpp"

#include <fmt/format.h>

#include <vector>

namespace unisono::lower {

std::span<const jit::Header> device_headers() {
  static const std::vector<jit::Header> headers = [] {
    std::vector<jit::Header> all;
    for (const codegen::Header& h : codegen::device_headers()) all.push_back({h.name, h.text});
    return all;
  }();
  return headers;
}

jit::Request request(const codegen::Kernel& kernel, const families::Plan& plan, const Contraction& contraction,
                     const std::string& arch) {
  return {.source = kernel.source,
          .headers = device_headers(),
          .entry = kernel.entry,
          .title = fmt::format("{}, {}", to_string(contraction), families::title(plan)),
          .arch = kernel.library ? kernel.library->arch : arch,
          .host_library = kernel.library.has_value()};
}

}  // namespace unisono::lower
