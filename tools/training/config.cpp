#include "training/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "training/config_object.hpp"
#include "unisono/error.hpp"

namespace unisono::training {

namespace {

namespace fs = std::filesystem;
constexpr std::int64_t most = std::int64_t{1} << 40;
constexpr double large = 1e30;

// A file, or the .npz files of a folder in the order of their names
void add_shards(std::vector<fs::path>& shards, const fs::path& path, const ConfigObject& data, const std::string& key) {
  if (!fs::is_directory(path)) return shards.push_back(path);
  const std::size_t before = shards.size();
  for (const auto& entry : fs::directory_iterator(path))
    if (entry.path().extension() == ".npz") shards.push_back(entry.path());
  std::sort(shards.begin() + static_cast<std::ptrdiff_t>(before), shards.end());
  if (shards.size() == before) data.fail(key, fmt::format(".npz files; '{}' has none", path.string()));
}

void read_data(ConfigObject data, const fs::path& base, Config& c) {
  for (const auto& [key, shards] : {std::pair{"training", &c.training}, std::pair{"validation", &c.validation}})
    for (const std::string& path : data.texts(key)) add_shards(*shards, base / path, data, key);
  if (c.training.empty()) data.fail("training", "a file or folder of .npz files, or a list of them");
  ConfigObject inputs = data.object("inputs", false);
  for (const std::string& name : inputs.keys()) {
    ConfigObject one = inputs.object(name);
    c.inputs[name] = {one.text("array", name), one.number("scale", -large, large, 1.0)};
    one.finish();
  }
  data.finish();
}

Loss read_loss(ConfigObject loss) {
  const std::string kind =
      loss.choice("kind", {"mean_squared_error", "binary_cross_entropy", "cross_entropy", "dice", "heatmap_focal"});
  const LossTensors tensors{loss.text("prediction", ""), loss.text("target", "target")};
  const double smooth = kind == "dice" ? loss.number("smooth", 0, large, 1.0) : 0;
  loss.finish();
  if (kind == "mean_squared_error") return mean_squared_error(tensors);
  if (kind == "binary_cross_entropy") return binary_cross_entropy(tensors);
  if (kind == "cross_entropy") return cross_entropy(tensors);
  return kind == "dice" ? dice_loss(tensors, smooth) : heatmap_focal_loss(tensors);
}

Optimiser read_optimiser(ConfigObject o) {
  Optimiser r;
  if (o.choice("kind", {"adamw", "sgd"}, "adamw") == "sgd") {
    r.kind = Optimiser::Kind::sgd;
    r.momentum = o.number("momentum", 0, 1, r.momentum);
    r.nesterov = o.truth("nesterov", false);
  } else {
    r.beta1 = o.number("beta1", 0, 1, r.beta1);
    r.beta2 = o.number("beta2", 0, 1, r.beta2);
    r.eps = o.number("eps", 0, large, r.eps);
  }
  r.weight_decay = o.number("weight_decay", 0, large, r.weight_decay);
  r.clip_norm = o.number("clip_norm", 0, large, 0.0);
  r.accumulate = static_cast<int>(o.integer("accumulate", 1, 1'000'000, 1));
  r.average = o.number("average", 0, 1, 0.0);
  for (ConfigObject& group : o.objects("groups")) {
    r.groups.push_back({group.text("names"), group.number("weight_decay", 0, large, r.weight_decay),
                        group.number("learning_rate", 0, large, 1.0)});
    group.finish();
  }
  o.finish();
  return r;
}

LossScaling read_loss_scaling(ConfigObject o) {
  LossScaling r;
  r.initial = o.number("initial", 0, 1e38, r.initial);
  r.growth = o.number("growth", 1, large, r.growth);
  r.backoff = o.number("backoff", 0, 1, r.backoff);
  r.interval = static_cast<int>(o.integer("interval", 1, 1'000'000'000, r.interval));
  o.finish();
  return r;
}

Schedule read_schedule(ConfigObject s, std::int64_t steps) {
  Schedule r{.steps = steps};
  r.rate = s.number("rate", 0, large);
  r.warm_up = s.integer("warm_up", 0, steps, 0);
  if (s.choice("schedule", {"constant", "cosine"}, "constant") == "cosine") {
    r.kind = Schedule::Kind::cosine;
    r.final_rate = s.number("final", 0, large, 0.0);
  }
  s.finish();
  return r;
}

// "cpu", "cuda", or one of several GPUs: "cuda:1"
void read_device(ConfigObject& top, TrainerOptions& options) {
  const std::string device = top.text("device", "cpu");
  if (device == "cpu") return;
  const std::string_view prefix = "cuda",
                         rest = std::string_view(device).substr(std::min(device.size(), prefix.size()));
  options.device = Device::cuda;
  if (device.starts_with(prefix) && rest.empty()) return;
  const std::string_view digits = rest.substr(rest.starts_with(":") ? 1 : 0);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), options.device_index);
  const bool is_number = !digits.empty() && error == std::errc() && end == digits.data() + digits.size();
  if (!device.starts_with("cuda:") || !is_number || options.device_index < 0)
    top.fail("device", "\"cpu\", \"cuda\", or \"cuda:\" and the number of a GPU");
}

// What must be as it was when a training goes on
std::string text_of(nlohmann::json json) {
  for (const char* key : {"folder", "device", "report_every", "validate_every", "checkpoint_every", "threads"})
    json.erase(key);
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

Config read_config(const fs::path& file) {
  const nlohmann::json json = read_json(file);
  ConfigObject top(json, file.string());
  const fs::path base = file.parent_path();
  Config c{.file = file, .model = base / top.text("model"), .folder = base / top.text("folder"), .text = text_of(json)};
  c.batch = top.integer("batch", 1, most);
  c.seed = static_cast<std::uint64_t>(top.integer("seed", 0, most, 0));
  const std::int64_t steps = top.integer("steps", 1, most);
  read_data(top.object("data"), base, c);
  c.loss = read_loss(top.object("loss"));
  c.trainer.optimiser = read_optimiser(top.object("optimiser", false));
  if (top.has("loss_scaling")) c.trainer.loss_scaling = read_loss_scaling(top.object("loss_scaling"));
  if (top.choice("precision", {"bf16", "f16"}, "bf16") == "f16") c.trainer.precision = DType::f16;
  c.schedule = read_schedule(top.object("learning_rate"), steps);
  ConfigObject extents = top.object("extents", false);
  for (const std::string& symbol : extents.keys()) c.trainer.extents[symbol] = extents.integer(symbol, 1, most);
  if (top.has("parameters")) c.trainer.parameters = top.texts("parameters");
  c.trainer.statistics_momentum = top.number("statistics_momentum", 0, 1, c.trainer.statistics_momentum);
  c.trainer.threads = static_cast<int>(top.integer("threads", 0, 4096, 0));
  read_device(top, c.trainer);
  if (top.has("precision") && c.trainer.device == Device::cpu)
    c.notes.emplace_back("precision has no effect with device \"cpu\", which computes in f32; a GPU uses it");
  c.report_every = top.integer("report_every", 1, most, 10);
  c.validate_every = top.integer("validate_every", 0, most, 0);
  c.checkpoint_every = top.integer("checkpoint_every", 0, most, 0);
  top.finish();
  return c;
}

}  // namespace unisono::training
