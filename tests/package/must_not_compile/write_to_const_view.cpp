// An output must be writable: a read-only view does not convert to it.
#include "unisono/executable.hpp"
void f(unisono::Arguments& arguments, unisono::TensorView writable, unisono::ConstTensorView readable) {
  (void)readable;
  (void)writable;
#ifdef CONTROL
  arguments.outputs["y"] = writable;
#else
  arguments.outputs["y"] = readable;
#endif
}
