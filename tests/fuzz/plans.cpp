/// Plan texts and tuning rows: read or refused; what is read gives a kernel's source for a problem of any size, or a
/// reason.

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "families/registry.hpp"
#include "lower/lower.hpp"
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

Triple triple(Draws& d, int below) { return {d.byte() % below, d.byte() % below, d.byte() % below}; }

Conv3d volume(Draws& d) {
  Conv3d c;
  c.n = d.extent(), c.d = d.extent(), c.h = d.extent(), c.w = d.extent(), c.c = d.extent(), c.k = d.extent();
  c.t = d.byte() % 6, c.r = d.byte() % 6, c.s = d.byte() % 6;
  c.stride = triple(d, 4), c.before = triple(d, 5), c.after = triple(d, 5), c.dilation = triple(d, 4);
  if (const int groups = d.byte() % 4; groups != 0) c.groups = groups == 1 ? c.c : groups;
  c.dtype_x = c.dtype_w = std::array{DType::bf16, DType::f16, DType::f32}[d.byte() % 3];
  return c;
}

FilterGradient2d gradient(Draws& d) {
  const auto c = convolution<Conv2d>(d);
  return {c.n, c.h, c.w, c.c, c.k, c.r, c.s, c.stride, c.pad, c.dilation, c.dtype_x, c.dtype_x};
}

Contraction contraction(Draws& d) {
  switch (d.byte() % 6) {
    case 0: {
      Gemm g{.batch = 1 + d.byte() % 3, .m = d.extent(), .n = d.extent(), .k = d.extent()};
      g.transpose_a = d.byte() % 2 != 0, g.transpose_b = d.byte() % 2 != 0;
      g.dtype_a = g.dtype_b = std::array{DType::bf16, DType::f16, DType::f32}[d.byte() % 3];
      return g;
    }
    case 1: return convolution<ConvTranspose2d>(d);
    case 4: return volume(d);
    case 5: return gradient(d);
    default: return convolution<Conv2d>(d);
  }
}

void plan_it(const Contraction& contraction, const char* text, std::string_view fixed) {
  const plan::Device device;
  CompileOptions options;
  options.plan_override = parse_plan(std::string(fixed));
  const lower::Problem problem = lower::analyse(contraction, parse(text), options).value();
  const families::Workload workload{problem.task, problem.epilogue(), device};
  if (families::explain(workload, options.plan_override).empty()) std::abort();
  for (const families::Candidate& c : families::candidates(workload, options.plan_override).value()) {
    if (!c.is_legal()) continue;
    if (c.plan->ctas < 1 || c.plan->threads < 1 || c.plan->shared_bytes > device.shared_bytes) std::abort();
    // what was chosen is a text that reads back, unless it was refused as too large
    (void)parse_plan(to_string(families::override_of(*c.plan)));
  }
  if (lower::lower(problem, device).value().kernel.source.empty()) std::abort();
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
