// A number alone belongs to no builder: it becomes a value only beside one.
#include "unisono/builder.hpp"
unisono::Value f(unisono::Value x) {
#ifdef CONTROL
  return x + 1.0;
#else
  return unisono::silu(1.0);
#endif
}
