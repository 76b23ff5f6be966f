#include "runtime/cpu/vector/unit.hpp"

#include <string>

#include "unisono/error.hpp"

namespace unisono_unit_generic {
extern const unisono::cpu::VectorUnit unit;
}
#if defined(__x86_64__)
namespace unisono_unit_avx2 {
extern const unisono::cpu::VectorUnit unit;
}
namespace unisono_unit_avx512 {
extern const unisono::cpu::VectorUnit unit;
}
#endif

namespace unisono::cpu {

namespace {

struct Candidate {
  const VectorUnit* unit;
  bool (*runs_here)();
};

// Best first
const Candidate candidates[] = {
#if defined(__x86_64__)
    {&unisono_unit_avx512::unit,
     [] {
       return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
     }},
    {&unisono_unit_avx2::unit, [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }},
#endif
    {&unisono_unit_generic::unit, [] { return true; }},
};

}  // namespace

const VectorUnit& vector_unit(const char* limit) {
  const std::string wanted = limit ? limit : "";
  for (const Candidate& c : candidates)
    if ((wanted.empty() || wanted == c.unit->name) && c.runs_here()) return *c.unit;
  throw InternalError("this processor has no vector unit " + wanted);
}

}  // namespace unisono::cpu
