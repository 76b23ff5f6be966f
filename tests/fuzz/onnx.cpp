/// ONNX files: read, verified and cut into regions, or refused; within bounds on time and memory.

#include <cstddef>
#include <cstdint>
#include <span>

#include "unisono/error.hpp"
#include "unisono/executable.hpp"
#include "unisono/onnx.hpp"

namespace unisono {
// Operators on constants are computed while reading; those few that are contractions need the whole compiler
Executable compile(const Contraction&, const Graph&, const CompileOptions&) {
  throw Unsupported("this program has no compiler");
}
}  // namespace unisono

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const unisono::OnnxLimits limits{.file_bytes = 1 << 20, .constant_elements = 1 << 16, .nodes = 500};
    (void)unisono::explain(unisono::parse_onnx(std::as_bytes(std::span(data, size)), "fuzz", limits));
  } catch (const unisono::UserError&) {
  } catch (const unisono::Unsupported&) {
  }
  return 0;
}
