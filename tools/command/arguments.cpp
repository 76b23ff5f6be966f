#include "command/arguments.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "bench/command_line.hpp"
#include "command/quantities.hpp"

namespace unisono::command {
namespace {

constexpr const char* overview =
    "Unisono runs a convolution or matrix product and everything after it as one kernel.\n";

constexpr const char* exit_codes =
    "Exit codes: 0 success; 1 a check failed, or an error inside Unisono; 2 wrong usage or input; 3 no kernel serves "
    "the\n"
    "request; 4 a compiler failed; 5 a device failed.\n"
    "\n"
    "Examples:\n"
    "  unisono demo\n"
    "  unisono explain 'y = silu(acc + bias[n]); store y : bf16'\n"
    "  unisono run models/heatmap_unet --image photo.png --out out\n"
    "  unisono doctor --json\n"
    "  unisono cache list\n"
    "  unisono pack models/heatmap_unet --dim batch=1 --out pack\n"
    "  unisono tune models/heatmap_unet --dim batch=8\n";

constexpr const char* run_examples =
    "Examples:\n"
    "  unisono run models/heatmap_unet --image models/heatmap_unet/heldout/scene_00.png --out out --check\n"
    "  unisono run model.onnx --input x=x.npy --input mask=mask.npy --out results\n"
    "  unisono run model.onnx --input inputs.npz --out outputs.npz --check\n"
    "  unisono run resnet50.onnx --image cat.jpg --dim h=224 --dim w=224 --mean 0.485,0.456,0.406 --std "
    "0.229,0.224,0.225\n"
    "  unisono run model.onnx --random --seed 7 --dim batch=4 --repeat 50 --profile --json\n";

constexpr const char* explain_examples =
    "Examples:\n"
    "  unisono explain 'y = silu(acc + bias[n]); store y : bf16'\n"
    "  unisono explain epilogue.txt --svg epilogue.svg\n"
    "  unisono explain models/heatmap_unet --svg regions.svg\n"
    "  unisono explain models/heatmap_unet --region 3\n"
    "  echo 'store mish(acc) : f16' | unisono explain - --json\n"
    "  unisono explain --device cuda 'y = silu(group_norm(acc + bias[n], groups=32)); store y : bf16' \\\n"
    "      --conv '8,64,64,320->320,3x3,pad=1'\n";

constexpr const char* doctor_examples =
    "Examples:\n"
    "  unisono doctor\n"
    "  unisono doctor --json\n";

constexpr const char* demo_examples =
    "Examples:\n"
    "  unisono demo\n"
    "  unisono demo --model models/heatmap_unet --out out --threads 2\n";

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

constexpr const char* cache_examples =
    "Examples:\n"
    "  unisono cache list\n"
    "  unisono cache verify\n"
    "  unisono cache prune --older-than 30d --max-size 1G\n"
    "  unisono cache prune --all --json\n"
    "  ls $(unisono cache path)\n";

constexpr const char* bench_examples =
    "Examples:\n"
    "  unisono bench bench/cases/block.txt --json block.json\n"
    "  unisono bench bench/cases/block.txt --only 8,64,64 --plans 20\n"
    "  unisono bench bench/cases/conv.txt bench/cases/block.txt --precompile\n";

/// "name=value" with a positive number.
std::map<std::string, std::int64_t> parse_dims(const std::vector<std::string>& texts) {
  std::map<std::string, std::int64_t> dims;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    std::int64_t extent = 0;
    const char* end = text.data() + text.size();
    const char* begin = equals == std::string::npos ? end : text.data() + equals + 1;
    const auto [stop, error] = std::from_chars(begin, end, extent);
    if (equals == 0 || error != std::errc{} || stop != end || extent < 1) {
      throw CLI::ValidationError(
          "--dim", "expected NAME=NUMBER with a number of at least 1, such as batch=4; found '" + text + "'");
    }
    dims[text.substr(0, equals)] = extent;
  }
  return dims;
}

std::vector<InputFile> parse_inputs(const std::vector<std::string>& texts) {
  std::vector<InputFile> inputs;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals + 1 == text.size()) {
      throw CLI::ValidationError("--input", "expected NAME=FILE.npy, NAME=FILE.npz or FILE.npz; found '" + text + "'");
    }
    if (equals == std::string::npos) {
      inputs.push_back({"", text});
    } else {
      inputs.push_back({text.substr(0, equals), text.substr(equals + 1)});
    }
    const auto same = [&](const InputFile& f) { return !f.name.empty() && f.name == inputs.back().name; };
    if (std::any_of(inputs.begin(), inputs.end() - 1, same)) {
      throw CLI::ValidationError("--input", "'" + inputs.back().name + "' is given twice");
    }
  }
  return inputs;
}

/// The options of a subcommand while CLI11 fills them, and what they become.
struct Command {
  CLI::App app;
  RunOptions run;
  ExplainOptions explain;
  DoctorOptions doctor;
  DemoOptions demo;
  CacheOptions cache;
  PackOptions pack;
  TuneOptions tune;
  bench::Options bench;
  std::string older_than, max_size, run_memory, explain_memory;
  std::vector<std::string> run_dims, explain_dims, pack_dims, tune_dims, inputs;
  std::string explain_device = "cpu", run_device = "cpu", demo_device = "auto";
  std::string run_precision = "bf16", explain_precision = "bf16", pack_precision = "bf16", tune_precision = "bf16";
  std::string rotate;

  Command() : app(overview, "unisono") {
    app.set_version_flag("--version", std::string("unisono ") + UNISONO_VERSION);
    app.require_subcommand(1);
    app.footer(exit_codes);
    add_run();
    add_explain();
    add_doctor();
    add_demo();
    add_cache();
    add_pack();
    add_tune();
    add_bench();
  }

  CLI::App* add(const char* name, const char* description, const char* examples, bool& json) {
    CLI::App* sub = app.add_subcommand(name, description);
    sub->footer(examples);
    sub->add_flag("--json", json, "Print one JSON object instead of text");
    return sub;
  }

  static void add_precision(CLI::App* sub, std::string& precision) {
    sub->add_option("--precision", precision,
                    "Of a model on cuda: the 16-bit type of tensors between kernels, bf16 or f16")
        ->check(CLI::IsMember({"bf16", "f16"}))
        ->capture_default_str();
  }

  static void add_memory_limit(CLI::App* sub, std::string& text) {
    sub->add_option("--memory-limit", text,
                    "Of a model: most memory for its constants, such as 16G (default: half of the machine's)")
        ->type_name("SIZE");
  }

  static std::optional<std::uint64_t> memory_limit(const std::string& text) {
    if (text.empty()) return std::nullopt;
    const auto bytes = parse_size(text);
    if (!bytes || *bytes == 0)
      throw CLI::ValidationError("--memory-limit",
                                 "expected a number above 0 and K, M, G or T, such as 16G; found '" + text + "'");
    return bytes;
  }

  void add_run() {
    CLI::App* sub = add("run", "Run an ONNX model", run_examples, run.json);
    sub->add_option("MODEL", run.model, "An ONNX file, or a folder with a model.json")->required();
    auto* group = sub->add_option_group("input", "What the model reads (one of them)");
    group->add_option("--image", run.images, "PNG or JPEG images, scaled to the model's size")->type_name("FILE");
    group
        ->add_option(
            "--input", inputs,
            "A .npy file for an input, once for each input; or a .npz file whose members have the inputs' names")
        ->type_name("[NAME=]FILE");
    group->add_flag("--random", run.random, "Uniform random numbers of 0 to 1 (for integers and bool 0 and 1)");
    group->require_option(1);
    sub->add_option("--seed", run.seed, "Of the random numbers")->capture_default_str();
    sub->add_option("--dim", run_dims, "Extent of a symbol in the model's shapes, such as batch=4")
        ->type_name("NAME=N");
    sub->add_option("--mean", run.mean,
                    "Of images: (byte/255 - mean)/std is what the model reads; one number, or one a channel")
        ->delimiter(',')
        ->type_name("M,M,M");
    sub->add_option("--std", run.deviation, "Of images: see --mean")
        ->delimiter(',')
        ->check(CLI::PositiveNumber)
        ->type_name("S,S,S");
    sub->add_option("--out", run.out, "A folder, or a file that ends in .npz, .npy (for one output) or .png")
        ->capture_default_str();
    sub->add_option("--threads", run.threads, "CPU threads; 0: one a core")
        ->check(CLI::Range(0, 4096))
        ->capture_default_str();
    sub->add_option("--device", run_device, "cpu or cuda")
        ->check(CLI::IsMember({"cpu", "cuda"}))
        ->capture_default_str();
    add_precision(sub, run_precision);
    add_memory_limit(sub, run_memory);
    sub->add_option("--repeat", run.repeat, "Timed runs after the first")
        ->check(CLI::Range(0, 1000000))
        ->capture_default_str();
    sub->add_flag("--batch", run.batch, "All images in one batch instead of one after the other");
    sub->add_flag("--check", run.check,
                  "Compare every value with the float64 reference; exit code 1 if one is off, or none can be compared");
    sub->add_flag("--profile", run.profile, "Print the time of each step: the median of the timed runs");
    sub->add_option("--trace", run.trace, "Write the steps' times for ui.perfetto.dev or Chrome (JSON)")
        ->type_name("FILE");
    sub->add_option("--svg", run.svg, "Draw the network with the steps' times on it")->type_name("FILE");
  }

  void add_explain() {
    CLI::App* sub =
        add("explain", "Show what Unisono makes of an epilogue or of a model", explain_examples, explain.json);
    sub->add_option("SUBJECT", explain.subject,
                    "An ONNX file, a folder with a model.json, a file with an epilogue's text, - (text from standard "
                    "input), or the text itself")
        ->required();
    sub->add_option("--region", explain.region, "Of a model: explain the epilogue of this region (number or name)");
    add_memory_limit(sub, explain_memory);
    sub->add_option("--dim", explain_dims, "Extent of a symbol in the model's shapes (default 1), for the memory plan")
        ->type_name("NAME=N");
    sub->add_option("--dot", explain.dot, "Write the final graph as Graphviz text")->type_name("FILE");
    sub->add_option("--svg", explain.svg, "Write the final graph as an SVG picture")->type_name("FILE");
    sub->add_option("--device", explain_device,
                    "cpu, or cuda: of an epilogue the kernel's plan and source, of a model its launches")
        ->check(CLI::IsMember({"cpu", "cuda"}))
        ->capture_default_str();
    add_precision(sub, explain_precision);
    sub->add_option("--conv", explain.conv,
                    "With --device cuda: N,H,W,C->K,RxS[,pad=P][,stride=S][,dilation=D][,groups=G][,dtype=T]")
        ->type_name("SHAPE");
    sub->add_option("--gemm", explain.gemm, "With --device cuda: a linear layer, M,K->N[,dtype=T]")->type_name("SHAPE");
    sub->add_option("--plan", explain.plan,
                    "With --device cuda: parts of the plan, such as 'tile=128x160 order=pingpong'");
    sub->add_flag("--accurate", explain.accurate, "With --device cuda: accurate functions even for 16-bit outputs");
  }

  void add_doctor() {
    add("doctor", "Show what this machine has, which backend would be used, and why", doctor_examples, doctor.json);
  }

  void add_demo() {
    CLI::App* sub =
        add("demo", "Find handwritten digits in photographs, and draw what was found", demo_examples, demo.json);
    sub->add_option("--model", demo.model, "The folder of the model, with held-out scenes")->capture_default_str();
    sub->add_option("--out", demo.out, "The folder for demo.png")->capture_default_str();
    sub->add_option("--device", demo_device, "cpu, cuda, or auto: a GPU that the kernels serve, if there is one")
        ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
        ->capture_default_str();
    sub->add_option("--threads", demo.threads, "CPU threads; 0: one a core")
        ->check(CLI::Range(0, 4096))
        ->capture_default_str();
  }

  void add_cache() {
    CLI::App* sub =
        add("cache", "List, verify or prune the compiled kernels that are kept on disk", cache_examples, cache.json);
    sub->add_option("--folder", cache.folder, "Another folder than that of `unisono cache path`, such as a pack");
    sub->require_subcommand(1);
    add_action(sub, "list", "What is there: size, registers, spills, last use; last used first",
               CacheOptions::Action::list);
    add_action(sub, "verify", "Compare every file with its hash; exit code 1 if one is off",
               CacheOptions::Action::verify);
    add_action(sub, "path", "Print the folder", CacheOptions::Action::path);
    CLI::App* prune =
        add_action(sub, "prune", "Remove broken entries, what killed processes have left, and what the options say",
                   CacheOptions::Action::prune);
    prune->add_option("--older-than", older_than, "Entries that were not used for so long: 90m, 12h, 30d, 8w")
        ->type_name("TIME");
    prune->add_option("--max-size", max_size, "The longest unused entries until the rest is no larger: 500M, 2G")
        ->type_name("SIZE");
    prune->add_flag("--all", cache.all, "All entries");
  }

  void add_pack() {
    CLI::App* sub =
        add("pack", "Compile the kernels of models and epilogues ahead, for machines without a compiler; needs no GPU",
            pack_examples, pack.json);
    sub->add_option("SUBJECT", pack.subjects,
                    "Models, files of cases (bench/cases), or one epilogue: a file, - or the text itself")
        ->required();
    sub->add_option("--out", pack.out, "The folder; what it has already is kept")->required()->type_name("FOLDER");
    sub->add_option("--dim", pack_dims, "Of models: extent of a symbol in the shapes, such as batch=4")
        ->type_name("NAME=N");
    add_precision(sub, pack_precision);
    sub->add_option("--conv", pack.conv,
                    "Of an epilogue: N,H,W,C->K,RxS[,pad=P][,stride=S][,dilation=D][,groups=G][,dtype=T]")
        ->type_name("SHAPE");
    sub->add_option("--gemm", pack.gemm, "Of an epilogue: a linear layer, M,K->N[,dtype=T]")->type_name("SHAPE");
    sub->add_option("--plan", pack.plan, "Of an epilogue: parts of the plan, such as 'tile=128x160 order=pingpong'");
    sub->add_option("--jobs", pack.jobs, "Compilations at once; 0: one a core")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str();
  }

  void add_tune() {
    CLI::App* sub = add("tune", "Find the fastest plans for this GPU by trying some, check them, and keep them",
                        tune_examples, tune.json);
    auto* subjects = sub->add_option("SUBJECT", tune.subjects,
                                     "Models, files of cases (bench/cases), or one epilogue: a file, - or the text");
    auto* import_from = sub->add_option("--import", tune.import_from, "Keep the rows of a text, as --export writes it")
                            ->type_name("FILE");
    auto* export_to = sub->add_option("--export", tune.export_to,
                                      "Write what is kept as text, one line a plan; - for standard output")
                          ->type_name("FILE");
    import_from->excludes(export_to)->excludes(subjects);
    export_to->excludes(subjects);
    sub->add_option("--dim", tune_dims, "Of models: extent of a symbol in the shapes, such as batch=4")
        ->type_name("NAME=N");
    add_precision(sub, tune_precision);
    sub->add_option("--conv", tune.conv,
                    "Of an epilogue: N,H,W,C->K,RxS[,pad=P][,stride=S][,dilation=D][,groups=G][,dtype=T]")
        ->type_name("SHAPE");
    sub->add_option("--gemm", tune.gemm, "Of an epilogue: a linear layer, M,K->N[,dtype=T]")->type_name("SHAPE");
    sub->add_option("--candidates", tune.candidates, "Plans that are tried for each problem")
        ->check(CLI::Range(1, 4096))
        ->capture_default_str();
    sub->add_option("--seconds", tune.seconds, "Compile nothing new after about so long; 0: no limit")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    sub->add_flag("--again", tune.again, "Also what was tuned before");
    sub->add_option("--database", tune.database, "Another file than UNISONO_TUNING or ~/.cache/unisono/tuning.db")
        ->type_name("FILE");
    sub->add_option("--rotate", rotate,
                    "Operands of so many bytes take turns, so that none is in a cache; default 160M")
        ->type_name("SIZE");
    sub->add_option("--device-index", tune.device_index, "Which GPU")
        ->check(CLI::Range(0, 1023))
        ->capture_default_str();
    sub->add_option("--jobs", tune.jobs, "Compilations at once; 0: one a core")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str();
  }

  TuneOptions tune_options() {
    tune.dims = parse_dims(tune_dims);
    tune.precision = tune_precision == "f16" ? DType::f16 : DType::bf16;
    if (!rotate.empty()) {
      const auto bytes = parse_size(rotate);
      if (!bytes)
        throw CLI::ValidationError("--rotate", "expected a number and K, M or G, such as 160M; found '" + rotate + "'");
      tune.rotate = *bytes;
    }
    if (tune.subjects.empty() && tune.import_from.empty() && tune.export_to.empty())
      throw CLI::ValidationError("SUBJECT",
                                 "expected a model, a file of cases or an epilogue; or --import or --export");
    return tune;
  }

  void add_bench() {
    CLI::App* sub =
        app.add_subcommand("bench", "Time kernels on a GPU beside cuDNN, and compare them with the reference");
    sub->footer(bench_examples);
    bench::add_options(*sub, bench);
  }

  CLI::App* add_action(CLI::App* parent, const char* name, const char* description, CacheOptions::Action action) {
    CLI::App* sub = parent->add_subcommand(name, description);
    sub->fallthrough();
    sub->footer(cache_examples);
    sub->callback([this, action] { cache.action = action; });
    return sub;
  }

  CacheOptions cache_options() {
    if (!older_than.empty() && !(cache.older_than = parse_duration(older_than))) {
      throw CLI::ValidationError("--older-than",
                                 "expected a number and s, m, h, d or w, such as 30d; found '" + older_than + "'");
    }
    if (!max_size.empty() && !(cache.max_bytes = parse_size(max_size))) {
      throw CLI::ValidationError("--max-size",
                                 "expected a number and K, M, G or T, such as 500M; found '" + max_size + "'");
    }
    return cache;
  }

  Arguments result() {
    if (app.got_subcommand("run")) {
      run.inputs = parse_inputs(inputs);
      run.dims = parse_dims(run_dims);
      run.memory_limit = memory_limit(run_memory);
      run.cuda = run_device == "cuda";
      run.precision = run_precision == "f16" ? DType::f16 : DType::bf16;
      return run;
    }
    if (app.got_subcommand("explain")) {
      explain.dims = parse_dims(explain_dims);
      explain.memory_limit = memory_limit(explain_memory);
      explain.cuda = explain_device == "cuda";
      explain.precision = explain_precision == "f16" ? DType::f16 : DType::bf16;
      return explain;
    }
    if (app.got_subcommand("doctor")) return doctor;
    if (app.got_subcommand("cache")) return cache_options();
    if (app.got_subcommand("pack")) {
      pack.dims = parse_dims(pack_dims);
      pack.precision = pack_precision == "f16" ? DType::f16 : DType::bf16;
      return pack;
    }
    if (app.got_subcommand("tune")) return tune_options();
    if (app.got_subcommand("bench")) return bench;
    demo.device = demo_device == "cpu"    ? DeviceChoice::cpu
                  : demo_device == "cuda" ? DeviceChoice::cuda
                                          : DeviceChoice::any;
    return demo;
  }
};

}  // namespace

std::variant<Arguments, Answer> parse_arguments(int argc, const char* const* argv) {
  Command command;
  // CLI11 would only say that a subcommand is missing
  if (argc > 1 && argv[1][0] != '-') {
    const auto all = command.app.get_subcommands([](const CLI::App*) { return true; });
    const auto is_named = [&](const CLI::App* sub) { return sub->get_name() == argv[1]; };
    if (std::none_of(all.begin(), all.end(), is_named)) {
      return Answer{"'" + std::string(argv[1]) +
                        "' is no command; expected run, explain, doctor, demo, cache, pack, tune or bench",
                    true};
    }
  }
  try {
    command.app.parse(argc, argv);
    return command.result();
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, wrong;
    const bool help = command.app.exit(error, out, wrong) == 0;
    return help ? Answer{out.str(), false} : Answer{wrong.str(), true};
  }
}

}  // namespace unisono::command
