// Where cudnn.h was not found when the benchmark was configured.

#include "bench/cudnn.hpp"
#include "unisono/error.hpp"

namespace unisono::bench {

struct Cudnn::Impl {};

Cudnn::Cudnn(const std::filesystem::path&) {
  throw UserError(
      "this build does not know cuDNN: cudnn.h was not found when it was configured (set UNISONO_CUDNN_INCLUDE)");
}
Cudnn::~Cudnn() = default;
std::string Cudnn::version() const { return ""; }
std::vector<Engine> Cudnn::engines(const Conv2d&, Direction, const std::vector<std::unique_ptr<Data>>&) { return {}; }

}  // namespace unisono::bench
