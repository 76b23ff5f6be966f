#include "command/subcommand_options.hpp"
#include "command/subcommands.hpp"
#include "plan/products.hpp"

namespace unisono::command {
namespace {

constexpr const char* explain_examples =
    "Examples:\n"
    "  unisono explain 'y = silu(acc + bias[n]); store y : bf16'\n"
    "  unisono explain epilogue.txt --svg epilogue.svg\n"
    "  unisono explain models/heatmap_unet --svg regions.svg\n"
    "  unisono explain models/heatmap_unet --region 3\n"
    "  unisono explain models/heatmap_unet --device cuda --html unet.html\n"
    "  echo 'store mish(acc) : f16' | unisono explain - --json\n"
    "  unisono explain 'store gelu(acc + bias[n]) as y : bf16' --gemm '512,768->768' --visitor own > own.cuh\n"
    "  unisono explain --device cuda 'y = silu(group_norm(acc + bias[n], groups=32)); store y : bf16' \\\n"
    "      --conv '8,64,64,320->320,3x3,pad=1'\n";

class ExplainSubcommand : public Subcommand {
 public:
  explicit ExplainSubcommand(CLI::App& parent)
      : Subcommand(add_subcommand(parent, "explain", "Show how Unisono fuses a model or an epilogue, and why",
                                  explain_examples)) {
    add_json(*app_, options_.json);
    app_->add_option("SUBJECT", options_.subject,
                     "An ONNX file, a folder with a model.json, a file with an epilogue's text, - (text from standard "
                     "input), or the text itself")
        ->required();
    app_->add_option("--region", options_.region, "Explain the epilogue of this region of a model (number or name)");
    memory_limit_.add(*app_);
    symbols_.add(*app_,
                 "Value of a symbol in the model's shapes, for the memory plan (default: 1 for the first axis of an "
                 "input, 64 for others)");
    app_->add_option("--dot", options_.dot, "Write the final graph as Graphviz text")->type_name("FILE");
    app_->add_option("--svg", options_.svg, "Write the final graph as an SVG picture")->type_name("FILE");
    app_->add_option("--html", options_.html, "Write a page to explore launches, plans, candidates and sources")
        ->type_name("FILE");
    app_->add_option("--device", device_,
                     "cpu, or cuda: show an epilogue's plan and source on a GPU, or a model's launches")
        ->check(CLI::IsMember({"cpu", "cuda"}))
        ->capture_default_str();
    app_->add_option("--gpu", gpu_,
                     "With --device cuda: plan for this GPU, such as A100 or 'RTX 4090', instead of the one at hand");
    precision_.add(*app_);
    add_assembly(*app_, options_.assembly);
    add_strict(*app_, options_.strict);
    add_attention(*app_, options_.attention);
    add_epilogue_shape(*app_, options_.conv, options_.gemm, options_.functions);
    app_->add_option("--plan", options_.plan,
                     "With --device cuda: parts of the plan, such as 'tile=128x160 order=pingpong'");
    app_->add_option("--visitor", options_.visitor,
                     "Print the CUDA header unisono::NAME::Epilogue for your own kernel, and nothing else")
        ->type_name("NAME");
    app_->add_flag("--accurate", options_.accurate, "With --device cuda: accurate functions even for 16-bit outputs");
  }

  Arguments result() override {
    options_.dims = symbols_.dims();
    options_.shapes = symbols_.shapes();
    options_.memory_limit = memory_limit_.bytes();
    options_.cuda = device_ == "cuda";
    if (!gpu_.empty()) options_.gpu = plan::product(gpu_);
    options_.precision = precision_.value();
    return options_;
  }

 private:
  ExplainOptions options_;
  SymbolOptions symbols_;
  PrecisionOption precision_;
  MemoryLimitOption memory_limit_;
  std::string device_ = "cpu", gpu_;
};

}  // namespace

std::unique_ptr<Subcommand> explain_subcommand(CLI::App& parent) { return std::make_unique<ExplainSubcommand>(parent); }

}  // namespace unisono::command
