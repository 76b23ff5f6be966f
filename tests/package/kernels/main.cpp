#include "layers.hpp"

#include <cstdio>

int main() {
  bool ok = true;
  for (const Outcome& o : launch_all()) {
    std::printf("%s: %d, %s\n", o.kernel.c_str(), o.status, o.text.c_str());
    ok = ok && o.status != 0 && !o.text.empty() && o.text != "unknown";
  }
  return ok ? 0 : 1;
}
