#pragma once
/// Helpers around oneDNN: one engine, primitives for a single thread with scratch memory of the caller.

#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>

namespace coda::cpu {

/// The CPU engine of the process.
const dnnl::engine& cpu_engine();

/// oneDNN fixes the number of threads of a primitive when it is made, and reads it again when the primitive runs, from
/// the OpenMP setting of the calling thread. Within the life of this object the calling thread's is 1.
class SingleThreaded {
 public:
  SingleThreaded() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~SingleThreaded() { omp_set_num_threads(before_); }
  SingleThreaded(const SingleThreaded&) = delete;
  SingleThreaded& operator=(const SingleThreaded&) = delete;

 private:
  int before_;
};

/// Attributes of a primitive whose scratch memory is given at each execution, so that threads may share it.
inline dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

}  // namespace coda::cpu
