/// Plan texts and tuning rows: read or refused; what is read gives a plan for a problem of any size, or a reason.

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "families/registry.hpp"
#include "passes/passes.hpp"
#include "plan/analyse.hpp"
#include "tuning/row.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace {

using namespace unisono;

constexpr std::array<const char*, 7> epilogues{
    "store acc as y : bf16\n",
    "store silu(acc + bias[n]) + r[m,n] as y : bf16\n",
    "store silu(group_norm(acc + bias[n], groups=4, scale=gamma[n], shift=beta[n])) as y : bf16\n",
    "store layer_norm(acc) as y : bf16\n",
    "store softmax(acc * s[m], over=n) as y : f32\nstore sum(acc, over=m, per=b) as total : f32\n",
    "store max(acc, over=n) as top : bf16\nstore acc * index(w) as y : bf16\n",
    "store acc - mean(acc, over=m) as y : f16\n"};

// The bytes ahead of the text choose the problem
class Draws {
 public:
  explicit Draws(std::string_view bytes) : bytes_(bytes) {}
  std::uint8_t byte() {
    if (at_ >= bytes_.size()) return 0;
    return static_cast<std::uint8_t>(bytes_[at_++]);
  }
  // 1 to 2^31, as many small ones as large ones
  std::int64_t extent() {
    const int b = byte();
    return std::max<std::int64_t>(1, (std::int64_t{1} << (b % 32)) + b / 32 - 3);
  }
  std::string_view rest() const { return bytes_.substr(at_); }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

template <class C>
C convolution(Draws& d) {
  C c;
  c.n = d.extent(), c.h = d.extent(), c.w = d.extent(), c.c = d.extent(), c.k = d.extent();
  c.r = d.byte() % 12, c.s = d.byte() % 12;
  c.stride = {d.byte() % 5, d.extent()}, c.pad = {d.extent() - 1, d.byte() % 9, d.byte() % 9, d.byte() % 9};
  c.dilation = {d.byte() % 5, d.byte() % 5};
  if (const int groups = d.byte() % 4; groups != 0) c.groups = groups == 1 ? c.c : groups;
  if (d.byte() % 4 == 0) c.layout = Layout::nchw;
  c.dtype_x = c.dtype_w = std::array{DType::bf16, DType::f16, DType::f32}[d.byte() % 3];
  return c;
}

Contraction contraction(Draws& d) {
  switch (d.byte() % 4) {
    case 0: {
      Gemm g{.batch = 1 + d.byte() % 3, .m = d.extent(), .n = d.extent(), .k = d.extent()};
      g.transpose_a = d.byte() % 2 != 0, g.transpose_b = d.byte() % 2 != 0;
      g.dtype_a = g.dtype_b = std::array{DType::bf16, DType::f16, DType::f32}[d.byte() % 3];
      return g;
    }
    case 1: return convolution<ConvTranspose2d>(d);
    default: return convolution<Conv2d>(d);
  }
}

void plan_it(const Contraction& problem, const char* text, std::string_view fixed) {
  const plan::ConvTask task = plan::as_convolution(problem);
  const plan::Epilogue epilogue =
      plan::analyse(passes::run_pipeline(parse(text)), extents(problem), families::tile_limits()).value();
  const plan::Device device;
  const PlanOverride override = parse_plan(std::string(fixed));
  if (families::explain({task, epilogue, device}, override).empty()) std::abort();
  for (const families::Candidate& c : families::candidates({task, epilogue, device}, override).value()) {
    if (!c.is_legal()) continue;
    if (c.plan->ctas < 1 || c.plan->threads < 1 || c.plan->shared_bytes > device.shared_bytes) std::abort();
    // what was chosen is a text that reads back, unless it was refused as too large
    (void)parse_plan(to_string(families::override_of(*c.plan)));
  }
}

template <class F>
void tolerate(F&& action) {
  try {
    action();
  } catch (const UserError&) {
  } catch (const Unsupported&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  tolerate([&] {
    for (const tuning::Row& row : tuning::parse_rows(bytes, "fuzz"))
      if (tuning::parse_rows(tuning::to_line(row), "again").size() != 1) std::abort();
  });
  tolerate([&] {
    Draws draws(bytes);
    const char* epilogue = epilogues[draws.byte() % epilogues.size()];
    const Contraction problem = contraction(draws);
    plan_it(problem, epilogue, draws.rest().substr(0, 200));
  });
  return 0;
}
