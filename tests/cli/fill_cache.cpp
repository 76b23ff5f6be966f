// Makes entries in a cache, with a compiler of its own. usage: fill_cache FOLDER TITLE…
#include "jit/jit.hpp"
#include "support/fake_compiler.hpp"

int main(int argc, char** argv) {
  unisono::jit::Settings settings;
  settings.cache = argv[1];
  unisono::jit::Jit jit(settings, std::make_shared<unisono::testing::FakeCompiler>());
  for (int i = 2; i < argc; ++i) {
    jit.compile({.source = std::string("kernel kernel_of_test ") + argv[i],
                 .headers = {},
                 .entry = "kernel_of_test",
                 .title = argv[i],
                 .arch = "sm_90a"});
  }
  return 0;
}
