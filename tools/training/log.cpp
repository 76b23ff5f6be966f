#include "training/log.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "media/file.hpp"
#include "unisono/error.hpp"

namespace unisono::training {

using nlohmann::ordered_json;

namespace {

// Field and name of each number of a line
constexpr std::pair<std::optional<double> LogLine::*, const char*> log_fields[] = {
    {&LogLine::loss, "loss"},
    {&LogLine::learning_rate, "learning_rate"},
    {&LogLine::gradient_norm, "gradient_norm"},
    {&LogLine::images_per_second, "images_per_second"},
    {&LogLine::validation_loss, "validation_loss"},
    {&LogLine::loss_scale, "loss_scale"},
    {&LogLine::skipped, "skipped"}};

LogLine line_of(const std::string& text, const std::filesystem::path& file, std::size_t number) {
  const ordered_json json = ordered_json::parse(text, nullptr, false);
  const bool is_line = json.is_object() && json.contains("step") && json["step"].is_number_integer();
  if (!is_line)
    throw UserError(
        fmt::format("{}: line {} is not one of a training's log; move the file away", file.string(), number));
  LogLine line{.step = json["step"].get<std::int64_t>()};
  for (const auto& [field, name] : log_fields)
    if (json.contains(name) && json[name].is_number()) line.*field = json[name].get<double>();
  return line;
}

}  // namespace

std::string text_of_line(const LogLine& line) {
  ordered_json json{{"step", line.step}};
  for (const auto& [field, name] : log_fields)
    if (line.*field) json[name] = *(line.*field);
  return json.dump() + "\n";
}

std::vector<LogLine> read_log(const std::filesystem::path& file, std::int64_t last_step) {
  if (!std::filesystem::exists(file)) return {};
  const auto bytes = media::read_file(file);
  std::string text(bytes.begin(), bytes.end());
  text.resize(text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1);
  std::istringstream stream(text);
  std::vector<LogLine> lines;
  std::size_t number = 0;
  for (std::string one; std::getline(stream, one);) {
    LogLine line = line_of(one, file, ++number);
    if (line.step <= last_step) lines.push_back(std::move(line));
  }
  return lines;
}

Log::Log(const std::filesystem::path& file, std::vector<LogLine> lines) : path_(file), lines_(std::move(lines)) {
  std::string text;
  for (const LogLine& line : lines_) text += text_of_line(line);
  media::write_file(path_, text);
  file_.open(path_, std::ios::app | std::ios::binary);
  if (!file_) throw UserError(fmt::format("{}: cannot be written", path_.string()));
}

void Log::add(const LogLine& line) {
  lines_.push_back(line);
  file_ << text_of_line(line) << std::flush;
  if (!file_) throw UserError(fmt::format("{}: cannot be written; is the disk full?", path_.string()));
}

}  // namespace unisono::training
