#pragma once
/// Products whose epilogues become visitors of CUTLASS's.

#include <string>
#include <utility>
#include <vector>

#include "families/cutlass_evt/visitors_of.hpp"
#include "families/registry.hpp"
#include "passes/passes.hpp"
#include "plan/analyse.hpp"
#include "plan/as_convolution.hpp"
#include "unisono/text.hpp"

namespace unisono::families::cutlass_evt::test {

inline Gemm product(std::int64_t m = 512, std::int64_t n = 256, std::int64_t k = 128, std::int64_t batch = 1) {
  return {.batch = batch, .m = m, .n = n, .k = k, .dtype_a = DType::bf16, .dtype_b = DType::bf16};
}

inline Conv2d convolution() {
  return {.n = 2,
          .h = 17,
          .w = 13,
          .c = 40,
          .k = 72,
          .r = 3,
          .s = 3,
          .pad = 1,
          .dtype_x = DType::bf16,
          .dtype_w = DType::bf16};
}

inline FilterGradient2d gradient() {
  return {.n = 2,
          .h = 17,
          .w = 13,
          .c = 64,
          .k = 72,
          .r = 3,
          .s = 2,
          .stride = {1, 2},
          .pad = 1,
          .dtype_y = DType::bf16,
          .dtype_x = DType::bf16};
}

inline Gemm grouped(std::vector<std::int64_t> rows = {100, 28, 300}) {
  Gemm g = product(0, 256, 128);
  for (const std::int64_t m : rows) g.m += m;
  g.group_rows = std::move(rows);
  return g;
}

inline plan::Epilogue epilogue_of(const std::string& text, const Contraction& contraction = product()) {
  return plan::analyse(passes::run_pipeline(parse(text)), extents(contraction), families::tile_limits()).value();
}

inline plan::Expected<Visitors> visitors(const std::string& text, bool atomic = false) {
  return visitors_of(epilogue_of(text), {}, {.atomic = atomic});
}

}  // namespace unisono::families::cutlass_evt::test
