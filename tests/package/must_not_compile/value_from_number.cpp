// A number alone belongs to no builder: it becomes a value only beside one.
#include "coda/builder.hpp"
coda::Value f(coda::Value x) {
#ifdef CONTROL
  return x + 1.0;
#else
  return coda::silu(1.0);
#endif
}
