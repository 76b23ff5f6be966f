// An output must be writable: a read-only view does not convert to it.
#include "coda/executable.hpp"
void f(coda::Arguments& arguments, coda::TensorView writable, coda::ConstTensorView readable) {
  (void)readable;
  (void)writable;
#ifdef CONTROL
  arguments.outputs["y"] = writable;
#else
  arguments.outputs["y"] = readable;
#endif
}
