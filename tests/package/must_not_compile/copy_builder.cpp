// Values point to their builder, so a builder cannot be copied.
#include "coda/builder.hpp"
void f(coda::GraphBuilder& g) {
#ifdef CONTROL
  coda::GraphBuilder& h = g;
#else
  coda::GraphBuilder h = g;
#endif
  (void)h;
}
