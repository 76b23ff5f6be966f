/// States as safetensors files.

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <string_view>

#include "unisono/error.hpp"
#include "unisono/safetensors.hpp"
#include "unisono/safetensors_writer.hpp"
#include "unisono/training.hpp"

namespace unisono {

namespace {

constexpr const char* steps_key = "unisono.steps";
constexpr const char* updates_key = "unisono.updates";
constexpr const char* scale_key = "unisono.loss_scale";  // hexadecimal
constexpr const char* good_key = "unisono.loss_scale_good";
constexpr const char* skipped_key = "unisono.loss_scale_skipped";
constexpr const char* spoilt_key = "unisono.loss_scale_spoilt";

std::int64_t count_of(std::map<std::string, std::string>& metadata, const char* key, const std::string& path) {
  const auto found = metadata.find(key);
  if (found == metadata.end())
    throw UserError(fmt::format("'{}' is not a checkpoint of a training: its metadata has no '{}'", path, key));
  const std::string text = found->second;
  std::int64_t count = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 0)
    throw UserError(fmt::format("'{}': {} is '{}'; expected a number of at least 0", path, key, text));
  metadata.erase(found);
  return count;
}

std::optional<LossScaleState> scale_in(std::map<std::string, std::string>& metadata, const std::string& path) {
  const auto found = metadata.find(scale_key);
  if (found == metadata.end()) return std::nullopt;
  LossScaleState s;
  const std::string_view text = found->second;
  const char *const first = text.data() + (text.starts_with("0x") ? 2 : 0), *const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(first, last, s.scale, std::chars_format::hex);  // in any locale
  if (error != std::errc() || end != last)
    throw UserError(fmt::format("'{}': {} is '{}'; expected a hexadecimal number, 0x…", path, scale_key, text));
  metadata.erase(found);
  s.good = count_of(metadata, good_key, path), s.skipped = count_of(metadata, skipped_key, path);
  s.spoilt = count_of(metadata, spoilt_key, path) != 0;
  return s;
}

}  // namespace

void save_checkpoint(const std::string& path, const TrainerState& state,
                     const std::map<std::string, std::string>& metadata) {
  std::vector<SafetensorsTensor> tensors;
  for (const auto& [name, values] : state.values)
    tensors.push_back({name, DType::f32, state.shapes.at(name), std::as_bytes(std::span(values))});
  std::map<std::string, std::string> all = metadata;
  all[steps_key] = std::to_string(state.steps);
  all[updates_key] = std::to_string(state.updates);
  if (const auto& s = state.loss_scale) {
    all[scale_key] = fmt::format("{:a}", s->scale);
    all[good_key] = std::to_string(s->good), all[skipped_key] = std::to_string(s->skipped);
    all[spoilt_key] = s->spoilt ? "1" : "0";
  }
  save_safetensors(path, tensors, all);
}

Checkpoint load_checkpoint(const std::string& path) {
  const Safetensors file = open_safetensors(path);
  Checkpoint checkpoint{{}, file.metadata()};
  checkpoint.state.steps = count_of(checkpoint.metadata, steps_key, path);
  checkpoint.state.updates = count_of(checkpoint.metadata, updates_key, path);
  checkpoint.state.loss_scale = scale_in(checkpoint.metadata, path);
  for (const SafetensorsEntry& e : file.entries()) {
    if (e.dtype != DType::f32)
      throw UserError(fmt::format("'{}' is not a checkpoint of a training: '{}' has elements of {}; expected f32", path,
                                  e.name, to_string(e.dtype)));
    const auto bytes = file.read(e);
    auto& values = checkpoint.state.values[e.name];
    values.resize(bytes.size() / sizeof(float));
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    checkpoint.state.shapes[e.name] = e.shape;
  }
  return checkpoint;
}

}  // namespace unisono
