/// ONNX files: read, verified and cut into regions, or refused; within bounds on time and memory.

#include <cstddef>
#include <cstdint>
#include <span>

#include "coda/error.hpp"
#include "coda/executable.hpp"
#include "coda/onnx.hpp"

namespace coda {
// Operators on constants are computed while reading; those few that are contractions need the whole compiler
Executable compile(const Contraction&, const Graph&, const CompileOptions&) {
  throw Unsupported("this program has no compiler");
}
}  // namespace coda

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const coda::OnnxLimits limits{.file_bytes = 1 << 20, .constant_elements = 1 << 16, .nodes = 500};
    (void)coda::explain(coda::parse_onnx(std::as_bytes(std::span(data, size)), "fuzz", limits));
  } catch (const coda::UserError&) {
  } catch (const coda::Unsupported&) {
  }
  return 0;
}
