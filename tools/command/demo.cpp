#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <thread>

#include "command/commands.hpp"
#include "command/execution.hpp"
#include "command/fusion_report.hpp"
#include "command/images.hpp"
#include "command/json.hpp"
#include "command/model.hpp"
#include "command/output.hpp"
#include "command/pictures.hpp"
#include "command/progress.hpp"
#include "command/report.hpp"
#include "reference/onnx/check.hpp"
#include "runtime/cuda/backend.hpp"
#include "support/json_depth.hpp"
#include "unisono/error.hpp"

namespace unisono::command {
namespace {

constexpr std::string_view where_it_runs = "run the demo in Unisono's source folder, or give --model FOLDER";

using Truth = std::vector<std::pair<std::string, std::vector<Object>>>;  // by file, in order

/// {"scene_00.png": [{"class": 5, "x": 100.94, "y": 137.24}, …], …}
Truth read_truth(const std::filesystem::path& path, std::size_t classes) {
  const auto bytes = media::read_file(path, {.bytes = 1 << 24});
  Truth truth;
  try {
    const auto json = support::parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
    for (const auto& [name, rows] : json.items()) {
      std::vector<Object> objects;
      for (const auto& row : rows)
        objects.push_back({row.at("class").get<int>(), row.at("x").get<double>(), row.at("y").get<double>()});
      for (const Object& o : objects) {
        if (o.class_index < 0 || o.class_index >= static_cast<int>(classes)) {
          throw UserError(fmt::format("'{}': {} has an object of class {}; there are {} classes", path.string(), name,
                                      o.class_index, classes));
        }
      }
      truth.emplace_back(name, std::move(objects));
    }
  } catch (const nlohmann::json::exception& error) {
    throw UserError(fmt::format("'{}' is not a valid list of objects: {}", path.string(), message(error)));
  }
  if (truth.empty()) throw UserError(fmt::format("'{}' names no images", path.string()));
  return truth;
}

/// The same scenes on the CPU, where a GPU ran them.
struct Comparison {
  double median_ms = 0, largest_difference = 0;
  int threads = 0;
  Score score;
};

struct Demo {
  std::vector<LoadedImage> images;
  std::vector<Tensor32> heatmaps;
  Tensors first;  ///< outputs of the first scene
  std::vector<Detections> detections;
  Timing timing;  ///< first: of the first scene's first run; median: over the scenes
  Score score;
  float64::NetworkAgreement agreement;  ///< agreement of the first scene
  std::optional<Comparison> cpu;
};

/// Truth is in pixels of the file; the network may see it scaled.
std::vector<Object> as_seen(std::vector<Object> objects, const LoadedImage& loaded) {
  const double sx = static_cast<double>(loaded.image.width) / static_cast<double>(loaded.original_width);
  const double sy = static_cast<double>(loaded.image.height) / static_cast<double>(loaded.original_height);
  for (Object& o : objects) o = {o.class_index, (o.x + 0.5) * sx - 0.5, (o.y + 0.5) * sy - 0.5};
  return objects;
}

/// Where the demo runs.
struct Chosen {
  NetworkExecutable network;
  NetworkOptions options;
  std::string where;  ///< "2 CPU threads", "NVIDIA H200 in bf16"
};

int threads_of(const DemoOptions& options) {
  return options.threads > 0 ? options.threads : static_cast<int>(std::thread::hardware_concurrency());
}

/// On a GPU if one is asked for, or if the choice is free and there is one that the kernels are for.
Chosen compile_somewhere(const Network& network, const DemoOptions& options) {
  NetworkOptions o{.threads = options.threads};
  if (options.device != DeviceChoice::cpu) {
    o.device = Device::cuda;
    try {
      const std::string name = cuda::open_device(o.device_index).name;
      return {compile(network, o), o, fmt::format("{} in {}", name, to_string(o.precision))};
    } catch (const DeviceError&) {
      if (options.device == DeviceChoice::cuda) throw;
    } catch (const Unsupported&) {
      if (options.device == DeviceChoice::cuda) throw;
    }
    o.device = Device::cpu;
  }
  return {compile(network, o), o, fmt::format("{} CPU threads", threads_of(options))};
}

/// What a user of a machine without a GPU would see, beside what the GPU gave.
Comparison compare_with_cpu(const Model& model, const DemoOptions& options, const Demo& demo, const Truth& truth,
                            Progress& progress) {
  const HeatmapDescription& d = *model.description;
  const NetworkExecutable network = compile(model.network, {.threads = options.threads});
  Comparison c;
  c.threads = threads_of(options);
  std::vector<double> times;
  for (std::size_t i = 0; i < demo.images.size(); ++i) {
    progress.step(fmt::format("running {} on the CPU", truth[i].first));
    const LoadedImage& loaded = demo.images[i];
    const Execution e = execute(network, {{d.input, to_array(to_tensor({loaded}, image_input(model, {})))}}, 1);
    times.push_back(e.timing.median_ms);
    const Tensor32 heatmaps = to_tensor32(e.outputs.at(d.output), d.output);
    for (std::size_t k = 0; k < heatmaps.value.size(); ++k)
      c.largest_difference =
          std::max(c.largest_difference, std::abs(static_cast<double>(heatmaps.value[k]) - demo.heatmaps[i].value[k]));
    c.score.add(detect(heatmaps, 0, d, loaded.image, as_seen(truth[i].second, loaded)).matching);
  }
  c.median_ms = median(times);
  return c;
}

Demo run_scenes(const Model& model, const Chosen& chosen, const Truth& truth, Progress& progress) {
  const HeatmapDescription& d = *model.description;
  const ImageInput input = image_input(model, {});
  Demo demo;
  std::vector<double> times;
  for (const auto& [name, objects] : truth) {
    progress.step("running " + name);
    demo.images.push_back(load_image(d.heldout / name, input));
    const Tensors tensors{{d.input, to_array(to_tensor({demo.images.back()}, input))}};
    Execution e = execute(chosen.network, tensors, 1, false, chosen.options.device);
    times.push_back(e.timing.median_ms);
    if (times.size() == 1) demo.timing.first_ms = e.timing.first_ms;
    demo.heatmaps.push_back(to_tensor32(e.outputs.at(d.output), d.output));
    if (times.size() == 1) demo.first = std::move(e.outputs);
    demo.detections.push_back(
        detect(demo.heatmaps.back(), 0, d, demo.images.back().image, as_seen(objects, demo.images.back())));
    demo.score.add(demo.detections.back().matching);
  }
  demo.timing = timing_of(demo.timing.first_ms, times);

  progress.step("computing the float64 reference of the first scene");
  const Tensors first{{d.input, to_array(to_tensor({demo.images[0]}, input))}};
  demo.agreement = float64::check_model(float64::OnnxModel::load(model.file.string()), model.network, to_float64(first),
                                        to_float64(demo.first), float64::rounding_of(chosen.network, chosen.options))
                       .at(0);
  return demo;
}

std::string score_text(const Score& s) {
  return fmt::format("{} of {} objects found, {} wrong: precision {:.3f}, recall {:.3f}", s.hits, s.objects,
                     s.peaks - s.hits, s.precision(), s.recall());
}

std::string cpu_text(const Demo& demo) {
  return fmt::format("{} CPU threads: {:.2f} ms a scene, {:.1f} times as long; heatmaps at most {:.2e} apart; {}",
                     demo.cpu->threads, demo.cpu->median_ms, demo.cpu->median_ms / demo.timing.median_ms,
                     demo.cpu->largest_difference, score_text(demo.cpu->score));
}

figure::SceneFigure make_figure(const Model& model, const Demo& demo, const FusionReport& fusion,
                                const std::string& where) {
  const HeatmapDescription& d = *model.description;
  figure::SceneFigure figure{.title = fmt::format("{}: held-out scenes", model.name),
                             .lines = {},
                             .classes = d.classes,
                             .threshold = d.threshold,
                             .match_radius = d.match_radius,
                             .scenes = {}};
  figure.lines.push_back(fmt::format("{} operators in {} kernels · {:.1f} ms a scene of {}×{} (median of {}, {}) · {}",
                                     fusion.operators, fusion.kernels, demo.timing.median_ms,
                                     demo.images[0].image.width, demo.images[0].image.height, demo.timing.runs, where,
                                     score_text(demo.score)));
  figure.lines.push_back(demo.images[0].name + ": " + to_text(demo.agreement));
  if (demo.cpu) figure.lines.push_back("on the CPU: " + cpu_text(demo));
  for (std::size_t i = 0; i < demo.images.size(); ++i) {
    figure.scenes.push_back(make_scene(demo.images[i], demo.heatmaps[i], 0, demo.detections[i]));
  }
  return figure;
}

std::string demo_text(const Model& model, const Demo& demo, const FusionReport& fusion, const MemoryReport& memory,
                      const std::string& where, const std::string& picture) {
  const media::Image& image = demo.images[0].image;
  std::string out = fmt::format("{}: {} operators in {} kernels\n{}\n", model.name, fusion.operators, fusion.kernels,
                                region_table(fusion));
  out += fmt::format("{} held-out scenes of {} x {}, one at a time, {}\n", demo.images.size(), image.width,
                     image.height, where);
  out += fmt::format("  time        {:.2f} ms a scene (median of {}), first run {:.1f} ms\n", demo.timing.median_ms,
                     demo.timing.runs, demo.timing.first_ms);
  out += fmt::format("  memory      {} for intermediates ({} without reuse), {} for weights\n",
                     bytes_text(memory.arena), bytes_text(memory.without_reuse), bytes_text(memory.constants));
  out += fmt::format("  agreement   {}: {}\n", demo.images[0].name, to_text(demo.agreement));
  out += fmt::format("  detections  {}\n", score_text(demo.score));
  if (demo.cpu) out += fmt::format("  on the CPU  {}\n", cpu_text(demo));
  out += fmt::format("  picture     {}\n", picture);
  return out;
}

// How the caller can start this program again
std::string own_name() {
  std::error_code failed;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) return "unisono";
  const std::filesystem::path here = std::filesystem::proximate(self, failed);
  return failed || *here.begin() == ".." ? self.string() : here.string();
}

std::string next_text(const std::filesystem::path& model) {
  const std::string unisono = own_name();
  return fmt::format(
      "\nnext: see its kernels for a GPU, and run a kernel of your own:\n"
      "  {0} explain {1} --device cuda --dim batch=8\n"
      "  {0} run 'y = silu(group_norm(acc + bias[n], groups=8)); store y' --conv '2,32,32,16->64,3x3' --random "
      "--check\n",
      unisono, model.string());
}

nlohmann::json score_json(const Score& s) {
  return {{"hits", s.hits},
          {"peaks", s.peaks},
          {"objects", s.objects},
          {"precision", s.precision()},
          {"recall", s.recall()}};
}

nlohmann::json demo_json(const Model& model, const Demo& demo, const FusionReport& fusion, const MemoryReport& memory,
                         int threads, const std::string& where, const std::string& picture) {
  nlohmann::json j{{"model", model.name},
                   {"threads", threads},
                   {"where", where},
                   {"fusion", to_json(fusion)},
                   {"memory", to_json(memory)},
                   {"scenes", demo.images.size()},
                   {"time", to_json(demo.timing)},
                   {"check", to_json(demo.agreement)},
                   {"detections", score_json(demo.score)},
                   {"files", {picture}}};
  if (demo.cpu)
    j["cpu"] = {{"threads", demo.cpu->threads},
                {"median_ms", demo.cpu->median_ms},
                {"largest_difference", demo.cpu->largest_difference},
                {"detections", score_json(demo.cpu->score)}};
  return j;
}

}  // namespace

int demo(const DemoOptions& options) {
  Progress progress;
  progress.step("reading the model");
  if (std::error_code ignored; !std::filesystem::exists(options.model, ignored))
    throw UserError(fmt::format("'{}' does not exist; {}", options.model.string(), where_it_runs));
  const Model model = load_model(options.model);
  if (!model.description || model.description->truth.empty()) {
    throw UserError(
        fmt::format("'{}' has no model.json that names held-out scenes; {}", options.model.string(), where_it_runs));
  }
  const Truth truth = read_truth(model.description->truth, model.description->classes.size());
  media::make_folder(options.out);
  progress.step("compiling the model");
  const Chosen chosen = compile_somewhere(model.network, options);
  const NetworkExecutable& network = chosen.network;
  Demo demo = run_scenes(model, chosen, truth, progress);
  if (chosen.options.device == Device::cuda) demo.cpu = compare_with_cpu(model, options, demo, truth, progress);

  progress.step("drawing");
  const int threads = threads_of(options);
  const std::filesystem::path picture = options.out / "demo.png";
  write_figure(picture, make_figure(model, demo, network.report(), chosen.where));
  const MemoryReport memory =
      network.memory({{model.description->input,
                       {1, demo.images[0].image.channels, demo.images[0].image.height, demo.images[0].image.width}}});
  progress.finish();
  print(options.json ? dump(demo_json(model, demo, network.report(), memory, threads, chosen.where, picture.string()))
                     : demo_text(model, demo, network.report(), memory, chosen.where, picture.string()) +
                           next_text(options.model));
  return float64::is_right({demo.agreement}) ? 0 : 1;
}

}  // namespace unisono::command
