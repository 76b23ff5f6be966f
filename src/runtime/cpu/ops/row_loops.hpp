#pragma once
/// Rows of elementwise operators as loops over a function object F.

#include <cstdint>

namespace unisono::cpu {

template <class In, class Out, class F>
void unary_row(std::int64_t count, char* const* p, const std::int64_t* s) {
  const F f;
  for (std::int64_t i = 0; i < count; ++i)
    *reinterpret_cast<Out*>(p[1] + i * s[1]) = static_cast<Out>(f(*reinterpret_cast<const In*>(p[0] + i * s[0])));
}

template <class In, class Out, class F>
void binary_row(std::int64_t count, char* const* p, const std::int64_t* s) {
  const F f;
  for (std::int64_t i = 0; i < count; ++i)
    *reinterpret_cast<Out*>(p[2] + i * s[2]) = static_cast<Out>(
        f(*reinterpret_cast<const In*>(p[0] + i * s[0]), *reinterpret_cast<const In*>(p[1] + i * s[1])));
}

}  // namespace unisono::cpu
