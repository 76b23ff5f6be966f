#include "command/inputs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "media/convert.hpp"
#include "media/npz.hpp"
#include "support/checked.hpp"
#include "support/float_convert.hpp"
#include "support/machine_memory.hpp"
#include "unisono/error.hpp"

namespace unisono::command {
namespace {

std::string type_text(const NetworkTensor& t) {
  return fmt::format("{} {}", media::numpy_name(t.dtype), to_string(t.shape));
}

[[noreturn]] void refuse(const Network& network, const std::string& what) {
  throw UserError(fmt::format("{}\nthe model's inputs:\n{}", what, input_list(network)));
}

const NetworkTensor* find_input(const Network& network, const std::string& name) {
  for (const TensorId id : network.inputs)
    if (network[id].name == name) return &network[id];
  return nullptr;
}

class Binder {
 public:
  explicit Binder(const Network& network) : network_(network) {}

  void bind(const InputFile& file) {
    if (const auto number = number_of(file)) {
      const NetworkTensor* tensor = find_input(network_, file.name);
      const DType dtype = tensor == nullptr ? DType::f32 : tensor->dtype;
      return bind_one(file.name, scalar_array(*number, dtype, file.name), file.path.string());
    }
    bool archive = false;
    media::NamedArrays arrays = read_arrays(file.path, archive);
    const std::string path = file.path.string();
    if (!archive || !file.name.empty()) {
      std::string name = file.name;
      if (name.empty() && network_.inputs.size() == 1) name = network_[network_.inputs[0]].name;
      if (name.empty()) refuse(network_, fmt::format("--input {}: say which input it is: --input NAME={}", path, path));
      bind_one(name, archive ? pick(std::move(arrays), name, path) : std::move(arrays[0].second), path);
      return;
    }
    for (auto& [name, array] : arrays) {
      if (find_input(network_, name) == nullptr)
        refuse(network_, fmt::format("'{}' holds '{}', and the model has no such input; give single members by --input "
                                     "NAME={}",
                                     path, name, path));
      bind_one(name, std::move(array), fmt::format("{}:{}.npy", path, name));
    }
  }

  Inputs so_far() { return std::move(inputs_); }

  Inputs finish() {
    for (const TensorId id : network_.inputs) {
      const NetworkTensor& t = network_[id];
      if (!inputs_.tensors.contains(t.name))
        refuse(network_, fmt::format("input '{}' is not given: --input {}=FILE.npy", t.name, t.name));
    }
    return std::move(inputs_);
  }

 private:
  /// The archive's member of the input's name, or the only one.
  media::Array pick(media::NamedArrays&& arrays, const std::string& name, const std::string& path) const {
    std::vector<std::string> names;
    for (auto& [member, array] : arrays) {
      if (member == name || arrays.size() == 1) return std::move(array);
      names.push_back(member);
    }
    refuse(network_, fmt::format("--input {}={}: the file has no member '{}'; it has: {}", name, path, name,
                                 names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  }

  void bind_one(const std::string& name, media::Array array, const std::string& source) {
    const NetworkTensor* tensor = find_input(network_, name);
    if (tensor == nullptr) refuse(network_, fmt::format("--input {}=…: the model has no input '{}'", name, name));
    check_shape(*tensor, array, source);
    media::Converted converted = media::convert(std::move(array), tensor->dtype, source);
    if (!converted.note.empty())
      inputs_.notes.push_back(fmt::format("input '{}' ('{}'): {}", name, source, converted.note));
    if (!inputs_.tensors.emplace(name, std::move(converted.array)).second)
      refuse(network_, fmt::format("input '{}' is given twice, the second time by '{}'", name, source));
  }

  void check_shape(const NetworkTensor& t, const media::Array& array, const std::string& source) const {
    const bool fits = t.shape.size() == array.shape.size() &&
                      std::equal(t.shape.begin(), t.shape.end(), array.shape.begin(),
                                 [](const Dim& d, std::int64_t extent) { return !d.known() || d.value() == extent; });
    if (fits) return;
    refuse(network_, fmt::format("input '{}' is given as {} ({}) by '{}'; expected {}", t.name,
                                 media::numpy_name(array.type), fmt::join(array.shape, ","), source, type_text(t)));
  }

  const Network& network_;
  Inputs inputs_;
};

}  // namespace

media::NamedArrays read_arrays(const std::filesystem::path& path, bool& archive) {
  const auto bytes = media::read_file(path);
  archive = path.extension() == ".npz" || (bytes.size() >= 2 && bytes[0] == 'P' && bytes[1] == 'K');
  if (archive) return media::decode_npz(bytes, path.string());
  media::NamedArrays arrays;
  arrays.emplace_back("", media::decode_npy(bytes, path.string()));
  return arrays;
}

std::string input_list(const Network& network) {
  std::string text;
  for (const TensorId id : network.inputs) text += fmt::format("  {}: {}\n", network[id].name, type_text(network[id]));
  if (text.empty()) return "  none";
  text.pop_back();
  return text;
}

Inputs read_inputs(const std::vector<InputFile>& files, const Network& network) {
  Binder binder(network);
  for (const InputFile& file : files) binder.bind(file);
  return binder.finish();
}

std::optional<double> number_of(const InputFile& input) {
  const std::string text = input.path.string();
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = !input.name.empty() && error == std::errc() && end == text.data() + text.size();
  return is_number ? std::optional(number) : std::nullopt;
}

media::Array scalar_array(double number, DType dtype, const std::string& name) {
  media::Array array{DType::f64, {}, std::vector<std::uint8_t>(sizeof(double))};
  support::store(array.bytes.data(), 0, DType::f64, number);
  try {
    return media::convert(std::move(array), dtype, name).array;
  } catch (const UserError&) {
    throw UserError(fmt::format("input '{}' is given the number {}, which {} cannot represent", name, number,
                                media::numpy_name(dtype)));
  }
}

namespace {

// Ahead of the first byte. Numbers are drawn as f32.
void require_memory(const Network& network, const Shapes& shapes) {
  support::Checked all("bytes of the inputs", 0);
  std::int64_t drawing = 0;
  for (const auto& [name, shape] : shapes) {
    const support::Checked elements("bytes of an input", element_count(shape));
    all += elements * size_of(find_input(network, name)->dtype);
    drawing = std::max(drawing, (elements * sizeof(float)).value());
  }
  support::require_memory(std::array<support::MemoryUse, 2>{
      {{"inputs", all.to<std::uint64_t>()}, {"drawing the largest", static_cast<std::uint64_t>(drawing)}}});
}

}  // namespace

Inputs random_inputs(const RunOptions& options, const Network& network) {
  Binder binder(network);
  for (const InputFile& number : options.inputs) binder.bind(number);
  Inputs inputs = binder.so_far();
  std::uint64_t seed = options.seed;
  const Shapes shapes = input_shapes(network, options.dims);
  require_memory(network, shapes);
  for (const auto& [name, shape] : shapes) {
    const DType dtype = find_input(network, name)->dtype;
    const std::uint64_t own_seed = seed++;
    if (inputs.tensors.contains(name)) continue;
    inputs.tensors[name] = random_array(shape, dtype, own_seed);
    if (!is_float(dtype))
      inputs.notes.push_back(fmt::format("input '{}' takes {}: random zeros and ones", name, media::numpy_name(dtype)));
  }
  return inputs;
}

}  // namespace unisono::command
