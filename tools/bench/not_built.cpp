// In place of the GPU benchmark where the CUDA toolkit's headers were not found.

#include "bench/bench.hpp"
#include "bench/listing.hpp"
#include "coda/error.hpp"

namespace coda::bench {

int run(const Options& options) {
  if (options.list) return list(read_suites(options));
  throw Unsupported(
      "bench: this build of Coda has no CUDA backend, because no CUDA toolkit of version 12 or later was found when it "
      "was configured; install one and configure with -DCODA_CUDA=ON");
}

}  // namespace coda::bench
