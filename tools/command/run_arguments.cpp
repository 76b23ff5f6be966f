#include <algorithm>

#include <fmt/format.h>

#include "bench/between.hpp"
#include "command/inputs.hpp"
#include "command/subcommand_options.hpp"
#include "command/subcommands.hpp"

namespace unisono::command {
namespace {

constexpr const char* run_examples =
    "Examples:\n"
    "  unisono run models/heatmap_unet --image models/heatmap_unet/heldout/scene_00.png --out out --check\n"
    "  unisono run model.onnx --input x=x.npy --input mask=mask.npy --out results\n"
    "  unisono run model.onnx --input inputs.npz --out outputs.npz --check\n"
    "  unisono run resnet50.onnx --image cat.jpg --dim h=224 --dim w=224 --mean 0.485,0.456,0.406 --std "
    "0.229,0.224,0.225\n"
    "  unisono run model.onnx --random --seed 7 --shape image=4x3x256x256 --repeat 50 --profile --json\n"
    "  unisono run 'y = silu(acc + bias[n]); store y' --gemm '512,1024->4096' --random --check\n"
    "  unisono run 'store alpha[]*acc as y' --gemm '512,1024->4096' --random --input alpha=0.5\n"
    "  unisono run block.txt --conv '1,64,64,32->32,3x3,layout=nchw' --input image=x.npy --input filter=w.npy --out "
    "y.npy\n";

/// "NAME=FILE", "NAME=NUMBER", or a file alone.
std::vector<InputFile> parse_inputs(const std::vector<std::string>& texts) {
  std::vector<InputFile> inputs;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (text.empty() || equals == 0 || equals + 1 == text.size())
      throw CLI::ValidationError(
          "--input", "expected NAME=FILE.npy, NAME=FILE.npz, NAME=NUMBER or FILE.npz; found '" + text + "'");
    if (equals == std::string::npos) {
      inputs.push_back({"", text});
    } else {
      inputs.push_back({text.substr(0, equals), text.substr(equals + 1)});
    }
    const auto same = [&](const InputFile& f) { return !f.name.empty() && f.name == inputs.back().name; };
    if (std::any_of(inputs.begin(), inputs.end() - 1, same))
      throw CLI::ValidationError("--input", "'" + inputs.back().name + "' is given twice");
  }
  return inputs;
}

class RunSubcommand : public Subcommand {
 public:
  explicit RunSubcommand(CLI::App& parent)
      : Subcommand(add_subcommand(parent, "run", "Run an ONNX model, or one convolution or product with an epilogue",
                                  run_examples)) {
    add_json(*app_, options_.json);
    app_->add_option("SUBJECT", options_.model,
                     "An ONNX file, a folder with a model.json, or (with --conv or --gemm) a file with an epilogue's "
                     "text, - (text from standard input), or the text itself")
        ->required();
    add_epilogue_shape(*app_, options_.conv, options_.gemm, options_.functions);
    app_->add_option("--plan", options_.plan,
                     "With --device cuda: parts of the epilogue's plan, such as 'tile=128x160'");
    add_inputs();
    symbols_.add(*app_, "Value of a symbol in the model's shapes, such as batch=4");
    add_images();
    app_->add_option("--out", options_.out,
                     "Where outputs go: a folder, or a file ending in .npz, .npy (for one output) or .png")
        ->capture_default_str();
    add_threads(*app_, options_.threads);
    app_->add_option("--device", device_, "Where to run: cpu or cuda")
        ->check(CLI::IsMember({"cpu", "cuda"}))
        ->capture_default_str();
    precision_.add(*app_);
    add_assembly(*app_, options_.assembly);
    add_strict(*app_, options_.strict);
    add_attention(*app_, options_.attention);
    memory_limit_.add(*app_);
    add_measurements();
  }

  Arguments result() override {
    options_.inputs = parse_inputs(inputs_);
    check_kinds();
    options_.sort = sort_ == "time" ? StepOrder::time : sort_ == "lost" ? StepOrder::lost : StepOrder::order;
    options_.dims = symbols_.dims();
    options_.shapes = symbols_.shapes();
    options_.memory_limit = memory_limit_.bytes();
    options_.cuda = device_ == "cuda";
    options_.precision = precision_.value();
    options_.precision_given = precision_.is_given();
    return options_;
  }

 private:
  void add_inputs() {
    const char* const group = "Inputs, one of which is required (--input NAME=NUMBER can be added to --random)";
    app_->add_option("--image", options_.images, "PNG or JPEG images, scaled to the model's size")
        ->type_name("FILE")
        ->group(group);
    app_->add_option("--input", inputs_,
                     "A .npy file for an input, once for each input, or a number for a scalar; or a .npz file whose "
                     "members have the inputs' names")
        ->type_name("[NAME=]FILE")
        ->group(group);
    app_->add_flag("--random", options_.random,
                   "Uniform random inputs: 0 to 1 for a model, -1 to 1 for an epilogue (integers and bool: 0 or 1)")
        ->group(group);
    app_->add_option("--seed", options_.seed, "The seed of the random numbers")->capture_default_str();
  }

  /// One kind of input, or random numbers for what --input gives no number.
  void check_kinds() const {
    const bool numbers_alone = std::all_of(options_.inputs.begin(), options_.inputs.end(),
                                           [](const InputFile& i) { return number_of(i).has_value(); });
    const bool images = !options_.images.empty(), inputs = !options_.inputs.empty();
    if (!images && !inputs && !options_.random) throw CLI::RequiredError("one of --image, --input and --random");
    if (int{images} + int{inputs} + int{options_.random} > 1 && (images || !numbers_alone))
      throw CLI::ValidationError(
          "--input", "give one of --image, --input and --random; with --random, --input takes NAME=NUMBER only");
  }

  void add_images() {
    app_->add_option("--mean", options_.mean,
                     "For images: the model reads (byte/255 - mean)/std; one number, or one per channel")
        ->delimiter(',')
        ->type_name("M,M,M");
    app_->add_option("--std", options_.deviation, "For images: see --mean")
        ->delimiter(',')
        ->check(
            [](const std::string& text) {
              double number = 0;
              const bool positive = CLI::detail::lexical_cast(text, number) && number > 0;
              return positive ? "" : fmt::format("expected numbers above 0; found '{}'", text);
            },
            "")
        ->type_name("S,S,S");
    app_->add_flag("--batch", options_.batch, "Run all images as one batch instead of one by one");
  }

  void add_measurements() {
    app_->add_option("--repeat", options_.repeat, "Timed runs after the first")
        ->check(bench::between(0, 1000000))
        ->capture_default_str();
    app_->add_flag(
        "--check", options_.check,
        "Compare every value with the float64 reference; exit code 1 if a value is off, or if nothing can be compared");
    auto* const profile =
        app_->add_flag("--profile", options_.profile, "Print the time of each step: the median of the timed runs");
    app_->add_option("--sort", sort_,
                     "How the profile lists steps: in order, by time, or by time lost above the peaks'")
        ->check(CLI::IsMember({"order", "time", "lost"}))
        ->needs(profile)
        ->capture_default_str();
    app_->add_option("--trace", options_.trace, "Write the steps' times for ui.perfetto.dev or Chrome (JSON)")
        ->type_name("FILE");
    app_->add_option("--svg", options_.svg, "Draw the network with the time of each step")->type_name("FILE");
    app_->add_option("--html", options_.html, "Write a page to explore the launches with their times")
        ->type_name("FILE");
  }

  RunOptions options_;
  std::vector<std::string> inputs_;
  SymbolOptions symbols_;
  PrecisionOption precision_;
  MemoryLimitOption memory_limit_;
  std::string device_ = "cpu", sort_ = "order";
};

}  // namespace

std::unique_ptr<Subcommand> run_subcommand(CLI::App& parent) { return std::make_unique<RunSubcommand>(parent); }

}  // namespace unisono::command
