/// pack and tune: the kernels of models, of cases and of epilogues.

#include "bench/between.hpp"
#include "command/quantities.hpp"
#include "command/subcommand_options.hpp"
#include "command/subcommands.hpp"
#include "plan/products.hpp"

namespace unisono::command {
namespace {

constexpr const char* dim_description = "Value of a symbol in a model's shapes, such as batch=4";

constexpr const char* pack_examples =
    "Examples:\n"
    "  unisono pack models/heatmap_unet --dim batch=1 --out pack\n"
    "  unisono pack bench/cases/block.txt bench/cases/gemm.txt --out pack\n"
    "  unisono pack 'store silu(acc + bias[n]) as y : bf16' --conv '8,64,64,320->320,3x3' --out pack\n"
    "  UNISONO_PACKS=$PWD/pack unisono run models/heatmap_unet --device cuda --image photo.png\n";

constexpr const char* tune_examples =
    "Examples:\n"
    "  unisono tune models/heatmap_unet --dim batch=8\n"
    "  unisono tune model.onnx --seconds 60 --candidates 8\n"
    "  unisono tune 'y = silu(acc + bias[n]); store y : bf16' --conv '8,64,64,320->320,3x3'\n"
    "  unisono tune bench/cases/block.txt --again\n"
    "  unisono tune --export plans.txt\n"
    "  unisono tune --import plans.txt\n";

class PackSubcommand : public Subcommand {
 public:
  explicit PackSubcommand(CLI::App& parent)
      : Subcommand(add_subcommand(parent, "pack",
                                  "Compile kernels ahead of time, for machines without a compiler; needs no GPU",
                                  pack_examples)) {
    add_json(*app_, options_.json);
    app_->add_option("SUBJECT", options_.subjects,
                     "Models, files of cases (bench/cases), or one epilogue: a file, - or the text itself")
        ->required();
    app_->add_option("--out", options_.out, "The folder to write to; kernels that are already there are kept")
        ->required()
        ->type_name("FOLDER");
    symbols_.add(*app_, dim_description);
    precision_.add(*app_);
    add_epilogue_shape(*app_, options_.conv, options_.gemm, options_.functions);
    app_->add_option("--plan", options_.plan,
                     "Parts of the plan of an epilogue, such as 'tile=128x160 order=pingpong'");
    app_->add_option("--gpu", gpus_, "GPUs that the kernels are for, such as A100,'RTX 4090' (default: H200)")
        ->delimiter(',');
    add_jobs(*app_, options_.jobs);
  }

  Arguments result() override {
    options_.dims = symbols_.dims();
    options_.shapes = symbols_.shapes();
    options_.precision = precision_.value();
    for (const std::string& name : gpus_) options_.gpus.push_back(plan::product(name));
    return options_;
  }

 private:
  PackOptions options_;
  std::vector<std::string> gpus_;
  SymbolOptions symbols_;
  PrecisionOption precision_;
};

constexpr const char* emit_examples =
    "Examples:\n"
    "  unisono emit 'store relu(acc + bias[n]) as y : bf16' --gemm '4096,4096->4096' --name dense\n"
    "  unisono emit block.txt --conv '8,64,64,320->320,3x3' --plan mode=streamed --name block --out src\n"
    "  unisono emit dense.txt --gemm '4096,4096->4096' --plan family=cutlass_evt --name dense\n";

class EmitSubcommand : public Subcommand {
 public:
  explicit EmitSubcommand(CLI::App& parent)
      : Subcommand(add_subcommand(parent, "emit",
                                  "Export a kernel as standalone CUDA source, NAME.cu and NAME.h; needs no GPU",
                                  emit_examples)) {
    app_->add_option("EPILOGUE", options_.subject, "A file, - or the text itself")->required();
    app_->add_option("--out", options_.out, "The folder to write to")->default_val(".")->type_name("FOLDER");
    app_->add_option("--name", options_.name, "Name of the files, and prefix of the functions")->default_val("kernel");
    add_epilogue_shape(*app_, options_.conv, options_.gemm, options_.functions);
    app_->add_option("--plan", options_.plan,
                     "Parts of the plan, such as 'tile=128x256 order=pingpong' or family=cutlass_evt");
    app_->add_option("--gpu", gpu_, "The GPU that the kernel is for, such as A100 or 'RTX 4090' (default: H200)");
  }

  Arguments result() override {
    if (!gpu_.empty()) options_.gpu = plan::product(gpu_);
    return options_;
  }

 private:
  EmitOptions options_;
  std::string gpu_;
};

class TuneSubcommand : public Subcommand {
 public:
  explicit TuneSubcommand(CLI::App& parent)
      : Subcommand(add_subcommand(
            parent, "tune", "Measure plans on this GPU, check their results, and keep the fastest", tune_examples)) {
    add_json(*app_, options_.json);
    add_subjects();
    symbols_.add(*app_, dim_description);
    precision_.add(*app_);
    add_epilogue_shape(*app_, options_.conv, options_.gemm, options_.functions);
    add_effort();
    app_->add_option("--database", options_.database,
                     "The database (default: UNISONO_TUNING, or ~/.cache/unisono/tuning.db)")
        ->type_name("FILE");
    app_->add_option("--device-index", options_.device_index, "Number of the GPU")
        ->check(bench::between(0, 1023))
        ->capture_default_str();
    add_jobs(*app_, options_.jobs);
  }

  Arguments result() override {
    options_.dims = symbols_.dims();
    options_.shapes = symbols_.shapes();
    options_.precision = precision_.value();
    if (!rotate_.empty()) {
      const auto bytes = parse_size(rotate_);
      if (!bytes)
        throw CLI::ValidationError("--rotate",
                                   "expected a number and K, M or G, such as 160M; found '" + rotate_ + "'");
      options_.rotate = *bytes;
    }
    if (options_.subjects.empty() && options_.import_from.empty() && options_.export_to.empty())
      throw CLI::ValidationError("SUBJECT",
                                 "expected a model, a file of cases or an epilogue; or --import or --export");
    return options_;
  }

 private:
  void add_subjects() {
    auto* subjects = app_->add_option("SUBJECT", options_.subjects,
                                      "Models, files of cases (bench/cases), or one epilogue: a file, - or the text");
    auto* import_from =
        app_->add_option("--import", options_.import_from, "Add the plans of a file that --export wrote")
            ->type_name("FILE");
    auto* export_to = app_->add_option("--export", options_.export_to,
                                       "Write all stored plans as text, one per line; - for standard output")
                          ->type_name("FILE");
    import_from->excludes(export_to)->excludes(subjects);
    export_to->excludes(subjects);
  }

  void add_effort() {
    app_->add_option("--candidates", options_.candidates, "Plans to measure for each problem")
        ->check(bench::between(1, 4096))
        ->capture_default_str();
    app_->add_option("--seconds", options_.seconds, "Start no new compilation after this time; 0: no limit")
        ->check(bench::between(0.0, 1e9))
        ->capture_default_str();
    app_->add_flag("--again", options_.again, "Tune again what was tuned before");
    app_->add_option("--rotate", rotate_,
                     "Rotate through operands of this total size, so that caches are cold (default 160M)")
        ->type_name("SIZE");
  }

  TuneOptions options_;
  SymbolOptions symbols_;
  PrecisionOption precision_;
  std::string rotate_;
};

}  // namespace

std::unique_ptr<Subcommand> emit_subcommand(CLI::App& parent) { return std::make_unique<EmitSubcommand>(parent); }
std::unique_ptr<Subcommand> pack_subcommand(CLI::App& parent) { return std::make_unique<PackSubcommand>(parent); }
std::unique_ptr<Subcommand> tune_subcommand(CLI::App& parent) { return std::make_unique<TuneSubcommand>(parent); }

}  // namespace unisono::command
