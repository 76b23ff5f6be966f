#include "tensors/indexed.hpp"

#include <fmt/format.h>

#include "tensors/text.hpp"

namespace unisono::tensors {

namespace {

std::string source_of_indexed() {
  std::string text = "// Kernels that move what indices name.\n#include <unisono/tensor/indexed.cuh>\n";
  for (const std::size_t bytes : {1, 2, 4, 8, 16}) {
    const auto add = [&](std::string_view name, std::string_view parameters) {
      text += kernel_text(fmt::format("unisono_{}_{}", name, bytes), parameters,
                          fmt::format("{}<{}>", name, word_of(bytes)));
    };
    add("gather", "GatherParams");
    add("scatter", "ScatterParams");
  }
  return text + kernel_text("unisono_clear", "ClearParams", "clear") +
         kernel_text("unisono_claim", "ScatterParams", "claim");
}

}  // namespace

KernelText indexed_kernel(std::string_view name, std::size_t bytes) {
  static const std::string source = source_of_indexed();
  return {source, bytes == 0 ? fmt::format("unisono_{}", name) : fmt::format("unisono_{}_{}", name, bytes)};
}

}  // namespace unisono::tensors
