// What the builder links of the rest and never calls.

#include "unisono/error.hpp"
#include "unisono/executable.hpp"

namespace unisono {
Executable compile(const Contraction&, const Graph&, const CompileOptions&) {
  throw Unsupported("this program has no compiler");
}
}  // namespace unisono
