#include "toy_family/scalar_gemm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>

#include "codegen/frame.hpp"
#include "plan/moment_store.hpp"

namespace unisono::toy {
namespace {

using namespace families;

/// What an override may fix of a plan: `threads`, a block's.
constexpr std::array<int, 3> block_sizes{128, 64, 256};
const std::array<plan::PlanField, 1> plan_fields{
    {{.name = "threads", .form = "128, 64 or 256", .words = {"128", "64", "256"}}}};
constexpr std::int64_t most_ctas = 1024;  // a thread has several elements of larger results

/// What the kernel reads ahead of the visitor's fields: struct Fixed of its text.
struct Fixed {
  const void *a, *b;
  void* output;
  std::int64_t a_pitch, output_pitch;  ///< elements from row to row
  int rows, columns, depth, rows_of_image;
};

constexpr const char* kernel_text = R"(
template <class Config, class Visitor> struct ScalarGemm {
    struct Fixed {
        const void *a, *b;
        void* output;
        i64 a_pitch, output_pitch;
        int rows, columns, depth, rows_of_image;
    };
    struct Params {
        Fixed fixed;
        typename Visitor::Params visitor;
    };
    using Element = typename Config::Element;
    static constexpr int kThreads = Config::kThreads;

    static UNISONO_DEVICE float element(const void* memory, i64 i) { return Element::unpack(__ldg(static_cast<const u16*>(memory) + i)).x; }
    template <int i> static UNISONO_DEVICE void load_tensors(const Params& params, u64 offset, float* tensors) {
        if constexpr (i < Visitor::kTensors) {
            tensors[i] = Visitor::template tensor<i>(params.visitor).element(offset);
            load_tensors<i + 1>(params, offset, tensors);
        }
    }
    static UNISONO_DEVICE void run(const Params& params) {
        begin();
        const Fixed& p = params.fixed;
        const auto uniform = Visitor::uniform(params.visitor);
        for (u64 i = first_index(); i < u64(p.rows) * p.columns; i += index_step()) {
            const int m = int(i / p.columns), n = int(i % p.columns);
            float sum = 0.f;
            for (int k = 0; k < p.depth; ++k) sum += element(p.a, m * p.a_pitch + k) * element(p.b, i64(n) * p.depth + k);
            float columns[Visitor::kColumnsAfter + 1], tensors[Visitor::kTensors + 1];
            Visitor::columns_after(params.visitor, uniform, m / p.rows_of_image, n, columns);
            load_tensors<0>(params, i, tensors);
            const float y = Visitor::after(sum, 0.f, columns, tensors, uniform);
            static_cast<u16*>(p.output)[m * p.output_pitch + n] = u16(Visitor::Output::pack(y, 0.f));
        }
    }
};
)";

struct ScalarPlan final : Plan {
  DType element = DType::bf16;
};

const ScalarPlan& own(const Plan& plan) { return dynamic_cast<const ScalarPlan&>(plan); }

std::optional<Refusal> refuse_contraction(const plan::ConvTask& t) {
  const Conv2d& c = t.conv;
  if (t.transposed || t.columns_a || t.columns_b || t.batched)
    return plan::because("layout: no product of rows of A and rows of B");
  if (c.r != 1 || c.s != 1 || c.groups != 1 || c.layout != Layout::nhwc || c.stride != Pair(1))
    return plan::because("contraction: a convolution of more than one tap, a stride or groups");
  if (c.pad != Margins(0)) return plan::because("contraction: a border of zeros");
  if (size_of(c.dtype_x) != 2) return plan::because("types: operands of 32 bits");
  return std::nullopt;
}

std::optional<Refusal> refuse_epilogue(const plan::Epilogue& e) {
  if (e.norm() || e.general()) return plan::because("epilogue: more than a value for each element");
  if (e.resampled.any() || e.moments.channels > 0) return plan::because("epilogue: more is made of the store");
  if (e.outputs.size() != 1 || e.outputs[0].path != plan::Output::StorePath::after)
    return plan::because("epilogue: not one 16-bit store");
  return std::nullopt;
}

class ScalarGemm final : public Family {
 public:
  std::string_view name() const override { return "scalar_gemm"; }
  std::span<const plan::PlanField> fields() const override { return plan_fields; }

  std::optional<Refusal> can_implement(const Workload& w) const override {
    if (auto refusal = refuse_contraction(w.task)) return refusal;
    return refuse_epilogue(w.epilogue);
  }
  std::vector<Candidate> candidates(const Workload& w, const PlanOverride& fixed) const override {
    const auto threads = fixed.fields.find("threads");
    std::vector<Candidate> all;
    for (const int size : block_sizes)
      if (threads == fixed.fields.end() || threads->second == std::to_string(size)) all.push_back({planned(w, size)});
    return all;
  }
  double cost(const Plan&, const Workload& w) const override {
    const Extents e = extents(w.task.contraction());
    return 5 + 1e-6 * static_cast<double>(e.rows() * e.cols) * static_cast<double>(w.task.conv.c);
  }
  codegen::Kernel generate(const Plan& plan, const plan::Epilogue& epilogue,
                           const codegen::Options& options) const override {
    return codegen::framed(
        epilogue, options,
        {.header = "unisono/plain/plain.cuh",
         .config =
             fmt::format("struct Config {{\n    using Element = {};\n    static constexpr int kThreads = {};\n}};\n",
                         codegen::operand_tag(own(plan).element), plan.threads) +
             kernel_text,
         .kernel = "ScalarGemm",
         .minimum = "1"});
  }

  plan::Expected<std::size_t> parameter_bytes(const Plan&, const codegen::Kernel& kernel) const override {
    return sizeof(Fixed) + 8 * std::max<std::size_t>(1, kernel.fields.size());  // an empty struct has a size too
  }
  ParameterBytes constants(const Plan&, const Launched& what) const override {
    ParameterBytes bytes;
    const Extents e = extents(what.task.contraction());
    Fixed& fixed = bytes.at<Fixed>();
    fixed.rows = static_cast<int>(e.rows()), fixed.columns = static_cast<int>(e.cols);
    fixed.depth = static_cast<int>(what.task.conv.c), fixed.rows_of_image = static_cast<int>(e.rows_per_image());
    return bytes;
  }
  void fill(Parameter& to, const Plan&, const Launched& what, const Tensors& at) const override {
    const auto pitch = [](std::int64_t given, std::int64_t dense) {
      return static_cast<std::uint64_t>(given == 0 ? dense : given);
    };
    to.put_address(offsetof(Fixed, a), at.activation);
    to.put_address(offsetof(Fixed, b), at.filter);
    to.put_address(offsetof(Fixed, output), at.output);
    to.put_word(offsetof(Fixed, a_pitch), pitch(at.activation_pitch, what.task.conv.c), no_slot);
    to.put_word(offsetof(Fixed, output_pitch), pitch(at.output_pitch, what.task.conv.k), no_slot);
    to.put_fields(sizeof(Fixed), at.fields);
  }
  void place_workspace(ParameterBytes&, const Plan&, const plan::Epilogue&, std::uint64_t) const override {}

  std::string title(const Plan&) const override { return "scalar"; }
  std::string describe(const Plan& plan) const override {
    return fmt::format("scalar, {} CTAs of {} threads", plan.ctas, plan.threads);
  }
  std::string reasons(const Plan&, const Workload&) const override { return "loads: each element by itself\n"; }
  PlanOverride override_of(const Plan& plan) const override { return {{{"threads", std::to_string(plan.threads)}}}; }
  std::string kind(const Plan&) const override { return "scalar"; }

 private:
  PlanPointer planned(const Workload& w, int threads) const {
    auto plan = std::make_shared<ScalarPlan>();
    const Extents e = extents(w.task.contraction());
    plan->family = this;
    plan->element = w.task.conv.dtype_x;
    plan->threads = threads;
    plan->ctas = static_cast<int>(std::clamp<std::int64_t>(e.rows() * e.cols / threads, 1, most_ctas));
    plan->exclusive = false;
    plan->predicted_us = cost(*plan, w);
    return plan;
  }
};

}  // namespace

const Family& scalar_gemm() {
  static const ScalarGemm family;
  return family;
}

}  // namespace unisono::toy
