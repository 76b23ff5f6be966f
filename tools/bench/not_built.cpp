// In place of the GPU benchmark where the CUDA toolkit's headers were not found.

#include "bench/bench.hpp"
#include "bench/listing.hpp"
#include "unisono/error.hpp"

namespace unisono::bench {

int run(const Options& options) {
  if (options.list) return list(read_suites(options));
  throw Unsupported(
      "bench: this build of Unisono has no CUDA backend, because no CUDA toolkit of version 12 or later was found when "
      "it "
      "was configured; install one and configure with -DUNISONO_CUDA=ON");
}

}  // namespace unisono::bench
