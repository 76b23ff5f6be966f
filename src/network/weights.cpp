/// Constants from files of weights.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/suggest.hpp"
#include "support/float_convert.hpp"
#include "unisono/error.hpp"
#include "unisono/network.hpp"

namespace unisono {
namespace {

constexpr std::size_t most_suggestions = 5;

/// Names that were probably meant: those that the wanted one is a part of, or that are a part of it (a prefix too many
/// or too few), then those that differ in a third of the letters at most.
std::vector<std::string> near_misses(const std::string& wanted, const std::vector<Safetensors>& files) {
  constexpr std::size_t longest = 200;  // names beyond this are no slips
  std::vector<std::pair<int, std::string>> ranked;
  for (const Safetensors& file : files) {
    for (const SafetensorsEntry& e : file.entries()) {
      if (e.name.empty() || e.name.size() > longest || wanted.size() > longest) continue;
      const bool part = e.name.ends_with("." + wanted) || wanted.ends_with("." + e.name);
      const int limit = static_cast<int>(std::max(wanted.size(), e.name.size()) / 3);
      const int distance = part ? 0 : ir::edit_distance(wanted, e.name, limit);
      if (distance <= limit) ranked.emplace_back(distance, e.name);
    }
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(ranked.size(), most_suggestions); ++i) names.push_back(ranked[i].second);
  return names;
}

[[noreturn]] void refuse_name(const std::string& name, const std::vector<Safetensors>& files) {
  if (files.empty())
    throw UserError(
        fmt::format("the network needs weight '{}', and the builder has no file of weights; call use_weights() "
                    "first",
                    name));
  std::vector<std::string> searched;
  for (const Safetensors& file : files) searched.push_back("'" + file.name() + "'");
  const auto near = near_misses(name, files);
  throw UserError(fmt::format("weight '{}' is in none of {}{}", name, fmt::join(searched, ", "),
                              near.empty() ? "" : fmt::format("; nearest are '{}'", fmt::join(near, "', '"))));
}

void check_shape(const SafetensorsEntry& e, const Shape& shape, const std::string& file) {
  const Shape given(e.shape.begin(), e.shape.end());
  if (given == shape) return;
  auto sorted = e.shape;
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::int64_t> wanted;
  for (const Dim& d : shape) wanted.push_back(d.known() ? d.value() : -1);
  std::sort(wanted.begin(), wanted.end());
  throw UserError(fmt::format("weight '{}' has the shape {} in '{}'; the network takes {}{}", e.name, to_string(given),
                              file, to_string(shape),
                              sorted == wanted ? " (the same extents in another order: transpose it)" : ""));
}

/// Elements as another dtype that holds every value.
std::vector<float> widened(const std::vector<std::byte>& bytes, DType from) {
  std::vector<float> values(bytes.size() / size_of(from));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(support::load(bytes.data(), static_cast<std::int64_t>(i), from));
  return values;
}

}  // namespace

void NetworkBuilder::use_weights(Safetensors file) {
  for (const Safetensors& other : weight_files_)
    for (const SafetensorsEntry& e : file.entries())
      if (other.find(e.name) != nullptr)
        throw UserError(fmt::format("weight '{}' is in '{}' and in '{}'", e.name, other.name(), file.name()));
  weight_files_.push_back(std::move(file));
}

NetworkValue NetworkBuilder::weight(const std::string& name, Shape shape, DType dtype) {
  const Safetensors* file = nullptr;
  for (const Safetensors& f : weight_files_)
    if (f.find(name) != nullptr) file = &f;
  if (file == nullptr) refuse_name(name, weight_files_);
  const SafetensorsEntry& e = *file->find(name);
  check_shape(e, shape, file->name());
  const bool short_float = e.dtype == DType::f16 || e.dtype == DType::bf16;
  if (e.dtype != dtype && !(short_float && dtype == DType::f32))
    throw UserError(fmt::format(
        "weight '{}' is {} in '{}'; the network takes {}, and only f16 and bf16 become f32: convert it, or ask for {}",
        name, to_string(e.dtype), file->name(), to_string(dtype), to_string(e.dtype)));
  if (const auto known = weights_.find({name, dtype}); known != weights_.end()) return {*this, known->second};
  std::vector<std::byte> bytes = file->read(e);
  const NetworkValue value = e.dtype == dtype ? constant(name, std::move(shape), dtype, std::move(bytes))
                                              : constant(name, std::move(shape), widened(bytes, e.dtype));
  weights_[{name, dtype}] = value.id();
  return value;
}

std::vector<std::string> NetworkBuilder::unused_weights() const {
  std::vector<std::string> names;
  for (const Safetensors& file : weight_files_)
    for (const SafetensorsEntry& e : file.entries()) {
      const auto used = weights_.lower_bound({e.name, DType{}});
      if (used == weights_.end() || used->first.first != e.name) names.push_back(e.name);
    }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace unisono
