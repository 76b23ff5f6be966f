#include "runtime/cpu/strips/onednn.hpp"

namespace coda::cpu {

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

}  // namespace coda::cpu
