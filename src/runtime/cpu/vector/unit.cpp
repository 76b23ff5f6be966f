#include "runtime/cpu/vector/unit.hpp"

#include <string>

#include "coda/error.hpp"

namespace coda_unit_generic {
extern const coda::cpu::VectorUnit unit;
}
#if defined(__x86_64__)
namespace coda_unit_avx2 {
extern const coda::cpu::VectorUnit unit;
}
namespace coda_unit_avx512 {
extern const coda::cpu::VectorUnit unit;
}
#endif

namespace coda::cpu {

namespace {

struct Candidate {
  const VectorUnit* unit;
  bool (*runs_here)();
};

// Best first
const Candidate candidates[] = {
#if defined(__x86_64__)
    {&coda_unit_avx512::unit,
     [] {
       return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
     }},
    {&coda_unit_avx2::unit, [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }},
#endif
    {&coda_unit_generic::unit, [] { return true; }},
};

}  // namespace

const VectorUnit& vector_unit(const char* limit) {
  const std::string wanted = limit ? limit : "";
  for (const Candidate& c : candidates)
    if ((wanted.empty() || wanted == c.unit->name) && c.runs_here()) return *c.unit;
  throw InternalError("there is no vector unit " + wanted + " that this processor runs");
}

}  // namespace coda::cpu
