#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <thread>

#include "coda/error.hpp"
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
#include "media/npy.hpp"

namespace coda::command {
namespace {

constexpr std::size_t most_scenes = 40;     // in one figure
constexpr std::int64_t most_channels = 32;  // that a figure shows

/// What is run: one set of inputs after the other.
struct Work {
  std::vector<LoadedImage> images;  ///< empty unless --image
  std::vector<Tensors32> batches;
};

struct Result {
  Tensors32 outputs;  ///< of all batches, along the first axis
  Timing timing;      ///< of the first batch
  std::vector<StepTime> profile;
  std::vector<NetworkAgreement> agreements;  ///< by output, over all batches
  std::vector<Detections> detections;        ///< by image
  std::vector<std::string> files;

  bool ok() const {
    return std::all_of(agreements.begin(), agreements.end(), [](const NetworkAgreement& a) { return a.ok(); });
  }
};

/// Integers become float32 on their way in: those that are none are refused.
void require_exact(const std::vector<std::uint8_t>& wide, const std::vector<std::uint8_t>& narrow,
                   const std::string& file) {
  for (std::size_t i = 0; i < narrow.size() / sizeof(float); ++i) {
    float x;
    double y;
    std::memcpy(&x, narrow.data() + i * sizeof(float), sizeof(float));
    std::memcpy(&y, wide.data() + i * sizeof(double), sizeof(double));
    if (static_cast<double>(x) != y) throw UserError(fmt::format("'{}' holds {}, which no float32 is", file, y));
  }
}

Tensors32 read_inputs(const RunOptions& options, const Network& network) {
  Tensors32 tensors;
  for (const auto& [name, path] : options.inputs) {
    const media::Array array = media::read_npy(path);
    const auto bytes = media::convert(array, DType::f32, path.string());
    if (array.type == media::ElementType::i64 || array.type == media::ElementType::i32)
      require_exact(media::convert(array, DType::f64, path.string()), bytes, path.string());
    Tensor32& tensor = tensors[name];
    tensor.shape = array.shape;
    tensor.value.resize(bytes.size() / sizeof(float));
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::uint8_t*>(tensor.value.data()));
  }
  std::vector<std::string> names;
  for (const TensorId id : network.inputs) {
    names.push_back(network[id].name);
    if (!tensors.contains(names.back())) {
      throw UserError(fmt::format("input '{}' {} is not given: --input {}=FILE.npy", names.back(),
                                  to_string(network[id].shape), names.back()));
    }
  }
  for (const auto& [name, tensor] : tensors) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw UserError(
          fmt::format("--input {}=…: the model has no input '{}'; it has: {}", name, name, fmt::join(names, ", ")));
    }
  }
  return tensors;
}

Tensors32 random_inputs(const RunOptions& options, const Network& network) {
  Tensors32 tensors;
  std::uint64_t seed = options.seed;
  for (const auto& [name, shape] : input_shapes(network, options.dims)) tensors[name] = random_tensor(shape, seed++);
  return tensors;
}

Work prepare(const RunOptions& options, const Model& model) {
  Work work;
  if (options.batch && options.images.empty()) throw UserError("--batch is for --image");
  if (options.images.empty()) {
    work.batches.push_back(options.random ? random_inputs(options, model.network)
                                          : read_inputs(options, model.network));
    return work;
  }
  const ImageInput input = image_input(model, options.dims);
  for (const auto& path : options.images) work.images.push_back(load_image(path, input));
  if (options.batch) {
    work.batches.push_back({{input.name, to_tensor(work.images, input)}});
  } else {
    for (const LoadedImage& image : work.images) work.batches.push_back({{input.name, to_tensor({image}, input)}});
  }
  return work;
}

/// The worst of several batches.
void merge(std::vector<NetworkAgreement>& all, const std::vector<NetworkAgreement>& more) {
  if (all.empty()) {
    all = more;
    return;
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].elements += more[i].elements;
    all[i].outside += more[i].outside;
    all[i].largest_value = std::max(all[i].largest_value, more[i].largest_value);
    // keep error and tolerance of the batch that is closest to its tolerance
    if (more[i].largest_error * all[i].tolerance > all[i].largest_error * more[i].tolerance) {
      all[i].largest_error = more[i].largest_error;
      all[i].tolerance = more[i].tolerance;
    }
  }
}

Result execute_all(const RunOptions& options, const Model& model, const NetworkExecutable& network, const Work& work,
                   Progress& progress) {
  Result result;
  for (std::size_t i = 0; i < work.batches.size(); ++i) {
    progress.step(fmt::format("running {} of {}", i + 1, work.batches.size()));
    Execution e = execute(network, work.batches[i], i == 0 ? options.repeat : 0, i == 0 && options.profile);
    if (options.check) {
      progress.step(fmt::format("computing the float64 reference {} of {}", i + 1, work.batches.size()));
      std::map<std::string, std::vector<float>> values;
      for (const auto& [name, tensor] : e.outputs) values[name] = tensor.value;
      merge(result.agreements, check_network(model.network, to_float64(work.batches[i]), values));
    }
    if (i == 0) {
      result.timing = e.timing;
      result.profile = std::move(e.profile);
      result.outputs = std::move(e.outputs);
    } else {
      for (auto& [name, tensor] : result.outputs) append(tensor, e.outputs.at(name));
    }
  }
  return result;
}

/// What --out asks for.
struct Targets {
  std::filesystem::path folder;  ///< of everything; empty if `array` or `picture` is given
  std::filesystem::path array, picture;
};

Targets targets_of(const RunOptions& options, const Network& network) {
  Targets targets;
  const std::filesystem::path extension = options.out.extension();
  if (extension == ".npy") {
    if (network.outputs.size() != 1) {
      throw UserError(fmt::format("--out {}: the model has {} outputs; give a folder", options.out.string(),
                                  network.outputs.size()));
    }
    targets.array = options.out;
  } else if (extension == ".png") {
    if (options.images.empty())
      throw UserError(
          fmt::format("--out {}: a picture is made of images; use --image, or give a folder", options.out.string()));
    targets.picture = options.out;
  } else {
    media::make_folder(options.out);
    targets.folder = options.out;
  }
  return targets;
}

void write_array(const Tensor32& tensor, const std::filesystem::path& path, Result& result) {
  media::write_npy(path, media::to_array({tensor.value.data(), DType::f32, tensor.shape, {}}));
  result.files.push_back(path.string());
}

/// Names of tensors may hold anything; names of files letters, digits, dots, dashes and underscores.
std::string file_name(const std::string& name, std::set<std::string>& taken) {
  std::string safe;
  for (const char c : name)
    safe += std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_' ? c : '_';
  if (safe.empty() || safe.front() == '.') safe = "_" + safe;
  std::string unique = safe;
  for (int i = 2; !taken.insert(unique).second; ++i) unique = fmt::format("{}_{}", safe, i);
  return unique + ".npy";
}

/// The output that a figure can show: heatmaps, one plane a class, of every image.
const Tensor32* picture_output(const Model& model, const Result& result, std::size_t images) {
  if (model.description) return &result.outputs.at(model.description->output);
  for (const auto& [name, tensor] : result.outputs) {
    const auto& s = tensor.shape;
    if (s.size() == 4 && s[0] == static_cast<std::int64_t>(images) && s[1] <= most_channels && s[2] > 1 && s[3] > 1)
      return &tensor;
  }
  return nullptr;
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
  const Targets targets = targets_of(options, model.network);
  std::set<std::string> taken;
  for (const auto& [name, tensor] : result.outputs) {
    if (!targets.array.empty()) write_array(tensor, targets.array, result);
    if (!targets.folder.empty()) write_array(tensor, targets.folder / file_name(name, taken), result);
  }
  const std::filesystem::path picture = targets.folder.empty() ? targets.picture : targets.folder / "figure.png";
  if (picture.empty() || work.images.empty()) return;
  const Tensor32* heatmaps = picture_output(model, result, work.images.size());
  if (heatmaps == nullptr) {
    if (!targets.picture.empty())
      throw UserError(
          fmt::format("--out {}: no output of the model can be drawn; give a folder", options.out.string()));
    return;
  }
  write_figure(picture, make_figure(model, work, result, *heatmaps));
  result.files.push_back(picture.string());
}

/// Pixels of the file per pixel of the heatmap.
std::pair<double, double> file_scale(const LoadedImage& image, const Tensor32& heatmaps) {
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
  int threads;

  nlohmann::json json() const;
  std::string text() const;
  std::string detections_text() const;
};

nlohmann::json Summary::json() const {
  nlohmann::json inputs = nlohmann::json::object(), outputs = nlohmann::json::object(), check = nlohmann::json::array();
  for (const auto& [name, tensor] : work.batches[0]) inputs[name] = {{"shape", tensor.shape}};
  for (const auto& [name, tensor] : result.outputs) outputs[name] = {{"shape", tensor.shape}};
  for (const NetworkAgreement& a : result.agreements) check.push_back(to_json(a));
  nlohmann::json object = {{"model", model.name},
                           {"file", model.file.string()},
                           {"threads", threads},
                           {"operators", fusion.operators},
                           {"kernels", fusion.kernels},
                           {"runs", work.batches.size()},
                           {"inputs", inputs},
                           {"outputs", outputs},
                           {"time", to_json(result.timing)},
                           {"memory", to_json(memory)},
                           {"files", result.files}};
  object["memory"]["peak_process_bytes"] = peak_memory();
  if (options.check) object["check"] = check;
  if (options.profile) object["profile"] = to_json(result.profile);
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
  std::string out = fmt::format("{}: {} operators in {} kernels, {} CPU threads\n{}", model.name, fusion.operators,
                                fusion.kernels, threads, region_table(fusion));
  out += fmt::format("time\n  {}\n", to_text(result.timing));
  if (options.profile) out += profile_table(result.profile);
  out += fmt::format("memory\n{}  process        {} at its peak\n", memory_text(memory), bytes_text(peak_memory()));
  if (options.check) {
    out += "check\n";
    for (const NetworkAgreement& a : result.agreements) out += fmt::format("  {}: {}\n", a.output, to_text(a));
  }
  if (!result.detections.empty()) out += detections_text();
  out += "outputs\n";
  for (const auto& [name, tensor] : result.outputs)
    out += fmt::format("  {} ({})\n", name, fmt::join(tensor.shape, ","));
  out += "written\n";
  for (const std::string& file : result.files) out += "  " + file + "\n";
  return out;
}

void note_scaled(const Work& work) {
  for (const LoadedImage& i : work.images) {
    if (i.scaled()) {
      warn(fmt::format("coda: '{}' is scaled from {} x {} to {} x {}, the model's size", i.name, i.original_width,
                       i.original_height, i.image.width, i.image.height));
    }
  }
  if (work.images.size() > most_scenes)
    warn(fmt::format("coda: the figure shows the first {} of {} images", most_scenes, work.images.size()));
}

}  // namespace

int run(const RunOptions& options) {
  Progress progress;
  progress.step("reading the model");
  const Model model = load_model(options.model);
  const Work work = prepare(options, model);
  progress.step("compiling the model");
  const NetworkExecutable network = compile(model.network, {.threads = options.threads});
  Result result = execute_all(options, model, network, work, progress);
  if (model.description) {
    const Tensor32& heatmaps = result.outputs.at(model.description->output);
    for (std::size_t i = 0; i < work.images.size(); ++i) {
      result.detections.push_back(
          detect(heatmaps, static_cast<std::int64_t>(i), *model.description, work.images[i].image));
    }
  }
  progress.step("writing the results");
  write_results(options, model, work, result);

  Shapes shapes;
  for (const auto& [name, tensor] : work.batches[0]) shapes[name] = tensor.shape;
  const int threads = options.threads > 0 ? options.threads : static_cast<int>(std::thread::hardware_concurrency());
  const Summary summary{options, model, work, result, network.report(), network.memory(shapes), threads};
  progress.finish();
  note_scaled(work);
  print(options.json ? dump(summary.json()) : summary.text());
  return result.ok() ? 0 : 1;
}

}  // namespace coda::command
