// `unisono train`: a training as a file says, that can be interrupted and goes on bit by bit.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <span>

#include "command/commands.hpp"
#include "command/interruption.hpp"
#include "command/json.hpp"
#include "command/output.hpp"
#include "explore/exploration.hpp"
#include "media/file.hpp"
#include "training/config.hpp"
#include "training/curves.hpp"
#include "training/data.hpp"
#include "training/log.hpp"
#include "training/training_folder.hpp"
#include "unisono/error.hpp"
#include "unisono/onnx.hpp"
#include "unisono/onnx_writer.hpp"

namespace unisono::command {
namespace {

namespace fs = std::filesystem;
using training::Config;
using training::Examples;
using training::LogLine;
using Clock = std::chrono::steady_clock;

// The first extent of each input is the batch
TrainerOptions with_batch(const Config& c, const Network& n) {
  TrainerOptions options = c.trainer;
  for (const TensorId id : n.inputs) {
    const NetworkTensor& t = n[id];
    const bool other = !t.shape.empty() && t.shape[0].known() && t.shape[0].value() != c.batch;
    if (t.shape.empty() || other)
      throw UserError(fmt::format("{}: input '{}' of {} has shape {}; its first extent must be the batch, {}",
                                  c.file.string(), t.name, c.model.string(), to_string(t.shape), c.batch));
    if (t.shape[0].known()) continue;
    const std::int64_t given = options.extents.emplace(t.shape[0].symbol(), c.batch).first->second;
    if (given != c.batch)
      throw UserError(fmt::format("{}: extents.{} is {}; '{}' is the batch, {}", c.file.string(), t.shape[0].symbol(),
                                  given, t.shape[0].symbol(), c.batch));
  }
  return options;
}

Trainer trainer_of(const Config& c, const Network& n) {
  try {
    return {n, c.loss, with_batch(c, n)};
  } catch (const DeviceError& error) {
    throw DeviceError(fmt::format("{}: device is \"cuda\": {}; \"cpu\" needs none", c.file.string(), error.what()));
  }
}

std::string duration(double seconds) {
  const auto s = static_cast<std::int64_t>(seconds + 0.5);
  if (s < 60) return fmt::format("{} s", s);
  return s < 3600 ? fmt::format("{} min {} s", s / 60, s % 60) : fmt::format("{} h {} min", s / 3600, s % 3600 / 60);
}

constexpr int interrupted = 130;  // the exit code

class Training {
 public:
  explicit Training(const TrainOptions& options)
      : options_(options),
        c_(training::read_config(options.config)),
        folder_(c_.folder),
        model_(trainable_onnx(c_.model.string())),
        network_(parse_onnx(std::as_bytes(std::span(model_)), c_.model.string(), OnnxOptions{.trainable = true})),
        trainer_(trainer_of(c_, network_)),
        examples_(read(c_.training)) {
    for (const std::string& note : c_.notes) warn(fmt::format("unisono: note: {}: {}", c_.file.string(), note));
    say_what_is_shared();
    if (!options_.html.empty() && !fs::is_directory(fs::absolute(options_.html).parent_path()))
      throw UserError(fmt::format("--html {}: there is no such folder; make it first", options_.html.string()));
    (void)trained_model();  // whether it can be written is known ahead of all work
    if (!c_.validation.empty()) validation_.emplace(read(c_.validation));
    for (const Examples* e : {&examples_, validation_ ? &*validation_ : &examples_})
      if (e->count() < c_.batch)
        throw UserError(fmt::format("{}: batch is {}; there are {} examples for {}", c_.file.string(), c_.batch,
                                    e->count(), e == &examples_ ? "training" : "validation"));
    begin();
  }

  int run() {
    const Interruption interruption;
    started_ = reported_ = Clock::now();
    first_step_ = step_;
    try {
      if (lacks_validation()) validate();
      while (step_ < c_.schedule.steps) one_step();
      count(trainer_.finish_step());
    } catch (const Cancelled&) {
      count(trainer_.finish_step());
      save();
      write_page();
      warn(fmt::format("unisono: interrupted after step {} of {}; go on with: unisono train {} --resume", step_,
                       c_.schedule.steps, c_.file.string()));
      return interrupted;
    }
    finish();
    return 0;
  }

 private:
  Examples read(const std::vector<fs::path>& shards) const {
    for (const auto& [name, shape] : trainer_.input_shapes())
      if (shape.empty() || shape[0] != c_.batch)
        throw UserError(
            fmt::format("{}: '{}' has shape ({}); its first extent must be the batch, {}. loss.prediction may "
                        "name another tensor",
                        c_.file.string(), name, fmt::join(shape, ","), c_.batch));
    return {shards, c_.inputs, trainer_.input_shapes(), trainer_.input_types()};
  }
  std::int64_t batches() const { return examples_.count() / c_.batch; }

  // Exporters may write one initializer for parameters that begin with equal values
  void say_what_is_shared() const {
    for (const NetworkParameter& p : trainer_.parameters()) {
      const auto reads = [&](const Operator& op) {  // parts of a constant are none
        return std::ranges::find(op.inputs, p.constant) != op.inputs.end() &&
               !std::ranges::all_of(op.inputs, [&](TensorId id) { return network_[id].is_constant(); });
      };
      const auto readers = std::count_if(network_.operators.begin(), network_.operators.end(), reads);
      if (readers > 1)
        warn(fmt::format("unisono: note: '{}' is one parameter, shared by {} operators", p.name, readers));
    }
  }

  void begin() {
    const bool exists = fs::exists(folder_.checkpoint());
    if (exists && !options_.resume)
      throw UserError(fmt::format("'{}' has a checkpoint: give --resume to go on from it, or another folder in {}",
                                  c_.folder.string(), c_.file.string()));
    if (exists) resume();
    if (!exists && options_.resume)
      throw UserError(fmt::format("'{}' has no checkpoint to go on from", c_.folder.string()));
    log_.emplace(folder_.log(), training::read_log(folder_.log(), exists ? step_ : -1));
  }

  // What a training must have in common with the checkpoint that it goes on from
  std::map<std::string, std::string> identity() const {
    return {{"unisono.config", c_.text}, {"unisono.examples", std::to_string(examples_.count())}};
  }

  void resume() {
    const Checkpoint saved = load_checkpoint(folder_.checkpoint().string());
    for (const auto& [key, value] : identity()) {
      const auto found = saved.metadata.find(key);
      if (found == saved.metadata.end() || found->second != value)
        throw UserError(
            fmt::format("{}: belongs to another training: {} differs. Only folder, device, threads and *_every may "
                        "change when a training goes on",
                        folder_.checkpoint().string(), key.substr(std::string_view("unisono.").size())));
    }
    trainer_.set_state(saved.state);
    step_ = saved.state.steps;
    const auto number = [&](const char* key) {
      const auto found = saved.metadata.find(key);
      return found == saved.metadata.end() ? 0 : std::strtod(found->second.c_str(), nullptr);
    };
    loss_sum_ = number("unisono.loss_sum");
    loss_count_ = static_cast<std::int64_t>(number("unisono.loss_count"));
    skipped_ = static_cast<std::int64_t>(number("unisono.skipped"));
    skipped_before_ = static_cast<std::int64_t>(number("unisono.skipped_before"));
    gradient_norm_ = number("unisono.gradient_norm");
  }

  void save() {
    auto metadata = identity();
    metadata["unisono.loss_sum"] = fmt::format("{:a}", loss_sum_);
    metadata["unisono.loss_count"] = std::to_string(loss_count_);
    if (c_.trainer.loss_scaling) {
      metadata["unisono.skipped"] = std::to_string(skipped_);
      metadata["unisono.skipped_before"] = std::to_string(skipped_before_);
    }
    metadata["unisono.gradient_norm"] = fmt::format("{:a}", gradient_norm_);
    save_checkpoint(folder_.checkpoint().string(), trainer_.state(), metadata);
    if (!log_->lines().empty())
      media::write_png(folder_.curves(), training::draw_curves(log_->lines(), c_.model.stem().string()));
  }

  std::map<std::string, ConstTensorView> views() const {
    std::map<std::string, ConstTensorView> all;
    const auto types = trainer_.input_types();
    for (const auto& [name, shape] : trainer_.input_shapes())
      all[name] = {batch_.at(name).data(), types.at(name), shape, {}};
    return all;
  }

  bool is_due(std::int64_t every) const { return step_ == c_.schedule.steps || (every > 0 && step_ % every == 0); }

  // It was interrupted while it validated
  bool lacks_validation() const {
    const auto is_it = [&](const LogLine& line) { return line.step == step_ && line.validation_loss; };
    const auto& lines = log_->lines();
    return validation_ && step_ > 0 && is_due(c_.validate_every) && std::none_of(lines.begin(), lines.end(), is_it);
  }

  void one_step() {
    const std::int64_t epoch = step_ / batches(), number = step_ % batches();
    if (epoch != epoch_) order_ = training::shuffled(examples_.count(), c_.seed, epoch), epoch_ = epoch;
    const auto first = order_.begin() + number * c_.batch;
    examples_.gather({first, first + c_.batch}, batch_);
    const double rate = training::learning_rate(c_.schedule, step_ + 1);
    count(trainer_.begin_step(views(), rate));
    ++step_;
    const bool reports = is_due(c_.report_every), saves = is_due(c_.checkpoint_every),
               validates = validation_ && is_due(c_.validate_every);
    if (reports || saves || validates) count(trainer_.finish_step());
    if (reports) report(rate);
    if (validates) validate();
    if (saves) save();
  }

  // A step's result comes while the next is computed
  void count(const std::optional<StepResult>& result) {
    if (!result) return;
    ++loss_count_, loss_scale_ = result->loss_scale;
    if (result->skipped)
      ++skipped_;
    else
      loss_sum_ += result->loss;
    if (result->updated) gradient_norm_ = result->gradient_norm;
  }

  void report(double rate) {
    const auto now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - reported_).count(),
                 whole = std::chrono::duration<double>(now - started_).count();
    const auto images = static_cast<double>(std::min(loss_count_, step_ - first_step_) * c_.batch);
    const std::int64_t terms = loss_count_ - (skipped_ - skipped_before_);
    LogLine line{.step = step_,
                 .learning_rate = rate,
                 .gradient_norm = gradient_norm_,
                 .images_per_second = images / std::max(seconds, 1e-9),
                 .validation_loss = {}};
    if (terms > 0) line.loss = loss_sum_ / static_cast<double>(terms);
    if (c_.trainer.loss_scaling) line.loss_scale = loss_scale_, line.skipped = static_cast<double>(skipped_);
    log_->add(line);
    const double left =
        whole / static_cast<double>(step_ - first_step_) * static_cast<double>(c_.schedule.steps - step_);
    const std::string loss = line.loss ? fmt::format("{:.5g}", *line.loss) : "none, all skipped",
                      scale = line.loss_scale ? fmt::format(", scale {:g}, {} skipped", loss_scale_, skipped_) : "";
    say(fmt::format("step {} of {}: loss {}{}, {:.1f} images/s, {} left", step_, c_.schedule.steps, loss, scale,
                    *line.images_per_second, duration(left)));
    loss_sum_ = 0, loss_count_ = 0, skipped_before_ = skipped_, reported_ = now;
  }

  // The mean over all whole batches, in the order of the shards
  void validate() {
    double sum = 0;
    const std::int64_t count = validation_->count() / c_.batch;
    std::vector<std::int64_t> which(static_cast<std::size_t>(c_.batch));
    for (std::int64_t b = 0; b < count; ++b) {
      for (std::int64_t i = 0; i < c_.batch; ++i) which[static_cast<std::size_t>(i)] = b * c_.batch + i;
      validation_->gather(which, batch_);
      sum += trainer_.evaluate(views(), c_.trainer.optimiser.average > 0);
    }
    const double loss = sum / static_cast<double>(count);
    log_->add({.step = step_, .validation_loss = loss});
    say(fmt::format("step {} of {}: validation loss {:.5g}", step_, c_.schedule.steps, loss));
    reported_ = Clock::now();
  }

  void say(const std::string& text) const {
    if (!options_.json) print(text + "\n"), finish_output();
  }

  // The model's file with the parameters and running statistics as they are now
  std::string trained_model() const {
    const Network trained = trainer_.network(c_.trainer.optimiser.average > 0);
    std::map<std::string, std::vector<float>> values;
    for (TensorId id = 0; id < trained.tensors.size(); ++id)
      if (trained[id].constant && trained[id].constant != network_[id].constant)
        values[trained[id].name] = *trained[id].constant;
    return onnx_with_initializers(model_, c_.model.string(), values);
  }

  // A step of the first examples as launches with their times, and the lines of the log
  void write_page() {
    if (options_.html.empty()) return;
    std::vector<std::int64_t> first(static_cast<std::size_t>(c_.batch));
    std::iota(first.begin(), first.end(), std::int64_t{0});
    examples_.gather(first, batch_);
    const Network& step = trainer_.gradient_network();
    std::map<std::string, std::vector<std::int64_t>> shapes;
    for (const TensorId id : step.inputs) {
      std::vector<std::int64_t>& shape = shapes[step[id].name];
      for (const Dim& extent : step[id].shape) shape.push_back(extent.value());
    }
    nlohmann::json data = explore::explore(step, fmt::format("training of {}", c_.model.stem().string()),
                                           trainer_.network_options(), shapes, {.profile = trainer_.profile(views())});
    data["shapes"] = trainer_.input_shapes();
    nlohmann::json lines = nlohmann::json::array();
    for (const LogLine& line : log_->lines()) lines.push_back(nlohmann::json::parse(training::text_of_line(line)));
    data["training"] = {{"steps", step_}, {"of", c_.schedule.steps}, {"lines", std::move(lines)}};
    media::write_file(options_.html, explore::page_of(data));
  }

  void finish() {
    if (step_ == first_step_) save();  // nothing was left to do
    media::write_file(folder_.model(), trained_model());
    write_page();
    const LogLine* last = nullptr;
    for (const LogLine& line : log_->lines())
      if (line.loss) last = &line;
    const double loss = last == nullptr ? 0 : *last->loss;
    print(options_.json ? dump(nlohmann::json{{"steps", step_},
                                              {"loss", loss},
                                              {"model", folder_.model().string()},
                                              {"checkpoint", folder_.checkpoint().string()},
                                              {"log", folder_.log().string()},
                                              {"curves", folder_.curves().string()}})
                        : fmt::format("trained: {}\n", folder_.model().string()));
  }

  const TrainOptions& options_;
  const Config c_;
  training::TrainingFolder folder_;
  const std::string model_;  // the file's bytes, made ready
  const Network network_;
  Trainer trainer_;
  Examples examples_;
  std::optional<Examples> validation_;
  std::optional<training::Log> log_;
  std::map<std::string, std::vector<std::byte>> batch_;
  std::vector<std::int64_t> order_;
  std::int64_t step_ = 0, first_step_ = 0, epoch_ = -1, loss_count_ = 0;
  std::int64_t skipped_ = 0, skipped_before_ = 0;  // steps so far, and until the last report
  double loss_sum_ = 0, gradient_norm_ = 0, loss_scale_ = 1;
  Clock::time_point started_, reported_;
};

}  // namespace

int train(const TrainOptions& options) { return Training(options).run(); }

}  // namespace unisono::command
