// What the builder links of the rest and never calls.

#include "coda/error.hpp"
#include "coda/executable.hpp"

namespace coda {
Executable compile(const Contraction&, const Graph&, const CompileOptions&) {
  throw Unsupported("this program has no compiler");
}
}  // namespace coda
