#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <thread>

#include "command/commands.hpp"
#include "command/execution.hpp"
#include "command/fusion_report.hpp"
#include "command/images.hpp"
#include "command/inputs.hpp"
#include "command/json.hpp"
#include "command/model.hpp"
#include "command/output.hpp"
#include "command/pictures.hpp"
#include "command/profile_files.hpp"
#include "command/profile_report.hpp"
#include "command/progress.hpp"
#include "command/report.hpp"
#include "command/result_files.hpp"
#include "command/run_epilogue.hpp"
#include "media/convert.hpp"
#include "media/file.hpp"
#include "reference/onnx/check.hpp"
#include "unisono/error.hpp"

namespace unisono::command {
namespace {

constexpr std::size_t most_scenes = 40;     // in one figure
constexpr std::int64_t most_channels = 32;  // that a figure shows

/// What is run: one set of inputs after the other.
struct Work {
  std::vector<LoadedImage> images;  ///< empty unless --image
  std::vector<Tensors> batches;
  std::vector<std::string> notes;  ///< how inputs were converted
};

struct Result {
  Tensors outputs;  ///< outputs of all batches, joined along the first axis
  Timing timing;    ///< timing of the first batch
  std::vector<StepTime> profile;
  std::vector<Timing> step_times;
  std::vector<float64::NetworkAgreement> agreements;  ///< by output, over all batches
  std::vector<Detections> detections;                 ///< by image
  std::vector<std::string> files;
};

/// --mean and --std
void set_normalisation(const RunOptions& options, ImageInput& input) {
  const auto channels = static_cast<std::size_t>(input.channels);
  const auto take = [&](const std::vector<double>& given, std::string_view option) -> std::vector<double> {
    if (given.empty()) return {};
    if (input.dtype == DType::u8)
      throw UserError(fmt::format("{}: input '{}' takes the bytes of an image as they are", option, input.name));
    if (given.size() != 1 && given.size() != channels)
      throw UserError(
          fmt::format("{} has {} numbers; expected 1, or {}, one a channel", option, given.size(), channels));
    return given.size() == 1 ? std::vector<double>(channels, given[0]) : given;
  };
  input.mean = take(options.mean, "--mean");
  input.deviation = take(options.deviation, "--std");
}

Work prepare(const RunOptions& options, const Model& model) {
  Work work;
  if (options.batch && options.images.empty()) throw UserError("--batch is for --image");
  if (options.images.empty() && !(options.mean.empty() && options.deviation.empty()))
    throw UserError("--mean and --std are for --image");
  if (options.images.empty()) {
    Inputs inputs = options.random ? random_inputs(options, model.network) : read_inputs(options.inputs, model.network);
    work.batches.push_back(std::move(inputs.tensors));
    work.notes = std::move(inputs.notes);
    return work;
  }
  ImageInput input = image_input(model, options.dims);
  set_normalisation(options, input);
  for (const auto& path : options.images) work.images.push_back(load_image(path, input));
  const auto batch = [&](const std::vector<LoadedImage>& images) {
    const media::Array array = to_array(to_tensor(images, input));
    work.batches.push_back({{input.name, media::convert(array, input.dtype, input.name).array}});
  };
  if (options.batch) {
    batch(work.images);
  } else {
    for (const LoadedImage& image : work.images) batch({image});
  }
  return work;
}

/// The worst of several batches.
void merge(std::vector<float64::NetworkAgreement>& all, const std::vector<float64::NetworkAgreement>& more) {
  if (all.empty()) {
    all = more;
    return;
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].elements += more[i].elements;
    all[i].outside += more[i].outside;
    all[i].undecided += more[i].undecided;
    all[i].unclaimed += more[i].unclaimed;
    all[i].not_numbers += more[i].not_numbers;
    all[i].misread += more[i].misread;
    all[i].misread_error = std::max(all[i].misread_error, more[i].misread_error);
    all[i].largest_value = std::max(all[i].largest_value, more[i].largest_value);
    // keep error and tolerance of the batch that is closest to its tolerance
    if (more[i].largest_error * all[i].tolerance > all[i].largest_error * more[i].tolerance) {
      all[i].largest_error = more[i].largest_error;
      all[i].tolerance = more[i].tolerance;
    }
  }
}

NetworkOptions network_options(const RunOptions& options) {
  return {.device = options.cuda ? Device::cuda : Device::cpu,
          .threads = options.threads,
          .precision = options.precision,
          .strict = options.strict,
          .attention = options.attention};
}

Result execute_all(const RunOptions& options, const Model& model, const NetworkExecutable& network, const Work& work,
                   Progress& progress) {
  Result result;
  std::optional<float64::OnnxModel> definitions;
  for (std::size_t i = 0; i < work.batches.size(); ++i) {
    progress.step(fmt::format("running {} of {}", i + 1, work.batches.size()));
    Execution e = execute(network, work.batches[i], i == 0 ? options.repeat : 0, i == 0 && wants_profile(options),
                          options.cuda ? Device::cuda : Device::cpu);
    if (options.check) {
      progress.step(fmt::format("computing the float64 reference {} of {}", i + 1, work.batches.size()));
      if (!definitions) definitions = float64::OnnxModel::load(model.file.string());
      merge(result.agreements,
            float64::check_model(*definitions, model.network, to_float64(work.batches[i]), to_float64(e.outputs),
                                 float64::rounding_of(network, network_options(options))));
    }
    if (i == 0) {
      result.timing = e.timing;
      result.profile = std::move(e.profile);
      result.step_times = std::move(e.steps);
      result.outputs = std::move(e.outputs);
    } else {
      for (auto& [name, tensor] : result.outputs) append(tensor, e.outputs.at(name));
    }
  }
  return result;
}

/// The output that a figure can show: heatmaps, one plane a class, of every image.
std::optional<Tensor32> picture_output(const Model& model, const Result& result, std::size_t images) {
  if (model.description) return to_tensor32(result.outputs.at(model.description->output), model.description->output);
  for (const auto& [name, array] : result.outputs) {
    const auto& s = array.shape;
    if (is_float(array.type) && s.size() == 4 && s[0] == static_cast<std::int64_t>(images) && s[1] <= most_channels &&
        s[2] > 1 && s[3] > 1)
      return to_tensor32(array, name);
  }
  return std::nullopt;
}

/// For an output of unknown meaning: values scaled to 0 to 1. Returns the range.
std::pair<float, float> normalise(std::vector<float>& values) {
  float low = INFINITY, high = -INFINITY;
  for (const float v : values) {
    if (std::isfinite(v)) low = std::min(low, v), high = std::max(high, v);
  }
  if (!(high > low)) return {low, high};
  for (float& v : values) v = (v - low) / (high - low);
  return {low, high};
}

figure::SceneFigure make_figure(const Model& model, const Work& work, const Result& result, Tensor32 heatmaps) {
  figure::SceneFigure figure;
  figure.title = model.name;
  figure.lines.push_back(
      fmt::format("{}; {}", to_text(result.timing),
                  result.agreements.empty() ? "not compared with the reference" : to_text(result.agreements[0])));
  if (model.description) {
    figure.classes = model.description->classes;
    figure.threshold = model.description->threshold;
    figure.match_radius = model.description->match_radius;
  } else {
    const auto [low, high] = normalise(heatmaps.value);
    figure.lines.push_back(fmt::format("values from {:.4g} to {:.4g}, drawn as 0 to 1", low, high));
    for (std::int64_t c = 0; c < heatmaps.shape[1]; ++c) figure.classes.push_back(std::to_string(c));
  }
  for (std::size_t i = 0; i < std::min(work.images.size(), most_scenes); ++i) {
    const Detections none;
    figure::Scene scene = make_scene(work.images[i], heatmaps, static_cast<std::int64_t>(i),
                                     model.description ? result.detections[i] : none);
    if (!model.description) scene.caption.clear();
    figure.scenes.push_back(std::move(scene));
  }
  return figure;
}

void write_results(const RunOptions& options, const Model& model, const Work& work, Result& result) {
  const Targets targets = targets_of(options, model.network.outputs.size());
  result.files = write_arrays(result.outputs, targets);
  const std::filesystem::path picture = targets.folder.empty() ? targets.picture : targets.folder / "figure.png";
  if (picture.empty() || work.images.empty()) return;
  const std::optional<Tensor32> heatmaps = picture_output(model, result, work.images.size());
  if (!heatmaps) {
    if (!targets.picture.empty())
      throw UserError(
          fmt::format("--out {}: no output of the model can be drawn; give a folder", options.out.string()));
    return;
  }
  write_figure(picture, make_figure(model, work, result, *heatmaps));
  result.files.push_back(picture.string());
}

/// Pixels of the file per pixel of the heatmap.
std::pair<double, double> file_scale(const LoadedImage& image, const media::Array& heatmaps) {
  return {static_cast<double>(image.original_width) / static_cast<double>(heatmaps.shape[3]),
          static_cast<double>(image.original_height) / static_cast<double>(heatmaps.shape[2])};
}

nlohmann::json detections_json(const Model& model, const Work& work, const Result& result) {
  nlohmann::json images = nlohmann::json::array();
  for (std::size_t i = 0; i < result.detections.size(); ++i) {
    nlohmann::json peaks = nlohmann::json::array();
    const auto [sx, sy] = file_scale(work.images[i], result.outputs.at(model.description->output));
    for (const Peak& p : result.detections[i].peaks) peaks.push_back(to_json(p, model.description->classes, sx, sy));
    images.push_back({{"image", work.images[i].name}, {"peaks", peaks}});
  }
  return images;
}

struct Summary {
  const RunOptions& options;
  const Model& model;
  const Work& work;
  const Result& result;
  const FusionReport& fusion;
  MemoryReport memory;
  std::vector<std::string> host_steps;  ///< NetworkExecutable::host_steps
  int threads;

  Profile profile() const { return {result.profile, result.step_times, result.timing, fusion}; }
  nlohmann::json json() const;
  std::string text() const;
  std::string detections_text() const;
};

nlohmann::json Summary::json() const {
  nlohmann::json inputs = nlohmann::json::object(), outputs = nlohmann::json::object(), check = nlohmann::json::array();
  const auto describe = [](const media::Array& a) {
    return nlohmann::json{{"shape", a.shape}, {"dtype", media::numpy_name(a.type)}};
  };
  for (const auto& [name, array] : work.batches[0]) inputs[name] = describe(array);
  for (const auto& [name, array] : result.outputs) outputs[name] = describe(array);
  for (const float64::NetworkAgreement& a : result.agreements) check.push_back(to_json(a));
  nlohmann::json object = {{"model", model.name},
                           {"file", model.file.string()},
                           {"device", options.cuda ? "cuda" : "cpu"},
                           {"threads", threads},
                           {"operators", fusion.operators},
                           {"kernels", fusion.kernels},
                           {"runs", work.batches.size()},
                           {"inputs", inputs},
                           {"outputs", outputs},
                           {"time", to_json(result.timing)},
                           {"memory", to_json(memory)},
                           {"notes", work.notes},
                           {"files", result.files}};
  object["memory"]["peak_process_bytes"] = peak_memory();
  if (options.cuda) object["precision"] = to_string(options.precision), object["host_steps"] = host_steps;
  if (options.check) object["check"] = check;
  object["time"]["per_second"] = throughput_of(model.network, work.batches[0], result.timing).per_second;
  if (options.profile) object["profile"] = steps_json(profile()), object["profile_totals"] = totals_json(profile());
  if (!result.detections.empty()) object["detections"] = detections_json(model, work, result);
  return object;
}

std::string Summary::detections_text() const {
  std::string out = "detections\n";
  for (std::size_t i = 0; i < result.detections.size(); ++i) {
    const auto [sx, sy] = file_scale(work.images[i], result.outputs.at(model.description->output));
    const auto& peaks = result.detections[i].peaks;
    out += fmt::format("  {}: {}\n", work.images[i].name, peaks.empty() ? "none" : std::to_string(peaks.size()));
    for (const Peak& p : peaks) {
      out += fmt::format("    {:<12} {:.3f}  at ({:.1f}, {:.1f})\n",
                         model.description->classes.at(static_cast<std::size_t>(p.class_index)), p.score,
                         (static_cast<double>(p.x) + 0.5) * sx - 0.5, (static_cast<double>(p.y) + 0.5) * sy - 0.5);
    }
  }
  return out;
}

std::string Summary::text() const {
  const std::string where = options.cuda ? fmt::format("on a GPU in {}", to_string(options.precision))
                                         : fmt::format("{} CPU threads", threads);
  std::string out = fmt::format("{}: {} operators in {} kernels, {}\n{}", model.name, fusion.operators, fusion.kernels,
                                where, region_table(fusion));
  out += fmt::format("time\n  {}; {}\n", to_text(result.timing),
                     to_text(throughput_of(model.network, work.batches[0], result.timing)));
  if (options.profile) out += to_text(profile(), options.sort);
  out += fmt::format("memory\n{}  process        {} at its peak\n", memory_text(memory), bytes_text(peak_memory()));
  if (options.check) {
    out += "check\n";
    for (const float64::NetworkAgreement& a : result.agreements) out += fmt::format("  {}: {}\n", a.output, to_text(a));
  }
  if (!result.detections.empty()) out += detections_text();
  out += "outputs\n";
  for (const auto& [name, array] : result.outputs)
    out += fmt::format("  {} ({}) {}{}\n", name, fmt::join(array.shape, ","), media::numpy_name(array.type),
                       array.type == DType::bf16 ? ", written as float32" : "");
  out += "written\n";
  for (const std::string& file : result.files) out += "  " + file + "\n";
  return out;
}

void print_notes(const Work& work, const std::vector<std::string>& host_steps) {
  for (const std::string& note : work.notes) warn("unisono: " + note);
  if (!host_steps.empty())
    warn(fmt::format(
        "unisono: the host computes what no kernel of the GPU serves ({} in all; --strict refuses it)\n  {}",
        host_steps.size(), fmt::join(host_steps, "\n  ")));
  for (const LoadedImage& i : work.images) {
    if (i.scaled()) {
      warn(fmt::format("unisono: '{}' is scaled from {} x {} to {} x {}, the model's size", i.name, i.original_width,
                       i.original_height, i.image.width, i.image.height));
    }
  }
  if (work.images.size() > most_scenes)
    warn(fmt::format("unisono: the figure shows the first {} of {} images", most_scenes, work.images.size()));
}

}  // namespace

int run(const RunOptions& given) {
  if (is_epilogue(given)) return run_epilogue(given);
  if (!given.assembly.empty() && !given.cuda) throw UserError("--asm needs --device cuda: SASS is code of a GPU");
  Progress progress;
  progress.step("reading the model");
  std::set<std::string> names;
  for (const InputFile& input : given.inputs) names.insert(input.name);
  const Model model = load_model(given.model, limits_of(given.memory_limit), names);
  RunOptions options = given;
  options.dims = dims_of(model.network, options.dims, options.shapes);
  const Work work = prepare(options, model);
  progress.step("compiling the model");
  const NetworkExecutable network = compile(model.network, network_options(options));
  Result result = execute_all(options, model, network, work, progress);
  if (model.description) {
    const std::string& output = model.description->output;
    const Tensor32 heatmaps = to_tensor32(result.outputs.at(output), output);
    for (std::size_t i = 0; i < work.images.size(); ++i) {
      result.detections.push_back(
          detect(heatmaps, static_cast<std::int64_t>(i), *model.description, work.images[i].image));
    }
  }
  progress.step("writing the results");
  write_results(options, model, work, result);
  const ProfiledRun run{model,           result.profile, result.step_times, result.timing, shapes_of(work.batches[0]),
                        network.report()};
  const std::vector<std::string> drawn = write_profile(options, network_options(options), run);
  result.files.insert(result.files.end(), drawn.begin(), drawn.end());

  Shapes shapes;
  for (const auto& [name, tensor] : work.batches[0]) shapes[name] = tensor.shape;
  const int threads = options.threads > 0 ? options.threads : static_cast<int>(std::thread::hardware_concurrency());
  const Summary summary{
      options, model, work, result, network.report(), network.memory(shapes), network.host_steps(shapes), threads};
  progress.finish();
  print_notes(work, summary.host_steps);
  print(options.json ? dump(summary.json()) : summary.text());
  return result.agreements.empty() || float64::is_right(result.agreements) ? 0 : 1;
}

}  // namespace unisono::command
