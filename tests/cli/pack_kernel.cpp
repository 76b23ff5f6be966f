// Packs one kernel as a program of a user would. usage: pack_kernel FOLDER EPILOGUE
#include <cstdio>

#include "unisono/error.hpp"
#include "unisono/pack.hpp"
#include "unisono/text.hpp"

int main(int, char** argv) {
  using unisono::DType;
  const unisono::Conv2d conv{.n = 1, .h = 8, .w = 8, .c = 16, .k = 16, .dtype_x = DType::bf16, .dtype_w = DType::bf16};
  std::size_t told = 0;
  try {
    const unisono::PackReport report =
        unisono::pack(conv, unisono::parse(argv[2]), {}, argv[1],
                      {.progress = [&](std::size_t done, std::size_t total) { told = done == total ? total : 0; }});
    std::printf("%zu requested, %zu compiled, %zu there, %zu told\n", report.requested, report.compiled, report.entries,
                told);
  } catch (const unisono::Error& error) {
    std::fprintf(stderr, "unisono: %s\n", error.what());
    return 2;
  }
  return 0;
}
