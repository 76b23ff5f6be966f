// Values point to their builder, so a builder cannot be copied.
#include "unisono/builder.hpp"
void f(unisono::GraphBuilder& g) {
#ifdef CONTROL
  unisono::GraphBuilder& h = g;
#else
  unisono::GraphBuilder h = g;
#endif
  (void)h;
}
