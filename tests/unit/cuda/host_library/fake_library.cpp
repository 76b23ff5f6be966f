// A library as codegen::Library describes it, without a kernel: counts its launches, and fails when it is told to.
#define EXPORTED __attribute__((visibility("default")))

namespace {
int launches = 0;
}

extern "C" {
EXPORTED unsigned long long fake_parameter_bytes() { return 16; }
// The first word is the status to end with; the number of launches is left in the second
EXPORTED int fake_run(const void* parameter, void*) {
  auto* words = static_cast<long long*>(const_cast<void*>(parameter));
  words[1] = ++launches;
  return static_cast<int>(words[0]);
}
EXPORTED const char* fake_text(int status) { return status == 7 ? "the seventh reason" : "another reason"; }
}
