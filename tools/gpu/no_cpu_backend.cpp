// compile() knows two backends; a program that is carried to a GPU has the GPU's alone, and none of what the CPU's
// needs.

#include "network/executable_impl.hpp"
#include "runtime/cpu/backend.hpp"
#include "runtime/cpu/resampled_stores.hpp"
#include "unisono/error.hpp"

namespace unisono::cpu {

std::shared_ptr<const ExecutableImpl> build(const Contraction&, const Graph&, const Graph&, const passes::Partition&,
                                            const CompileOptions&) {
  throw Unsupported("this program was built without the CPU backend; compile with Device::cuda");
}

std::shared_ptr<const ExecutableImpl> with_resampled_stores(std::shared_ptr<const ExecutableImpl> whole,
                                                            const Contraction&, const Graph&, const CompileOptions&) {
  return whole;
}

}  // namespace unisono::cpu

namespace unisono::network {

std::shared_ptr<NetworkImpl> build_cpu(Network, const NetworkOptions&) {
  throw Unsupported("this program was built without the CPU backend; compile the network for Device::cuda");
}

}  // namespace unisono::network
