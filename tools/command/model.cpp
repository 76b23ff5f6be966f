#include "command/model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>

#include "command/json.hpp"
#include "media/file.hpp"
#include "support/json_depth.hpp"
#include "unisono/error.hpp"
#include "unisono/onnx.hpp"

namespace unisono::command {
namespace {

using nlohmann::json;

constexpr std::int64_t description_bytes = 1 << 20;

json read_json(const std::filesystem::path& path) {
  const auto bytes = media::read_file(path, {.bytes = description_bytes});
  try {
    return support::parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
  } catch (const json::exception& error) {
    throw UserError(fmt::format("'{}' is not valid JSON: {}", path.string(), message(error)));
  }
}

HeatmapDescription parse_description(const json& j, const std::filesystem::path& folder) {
  HeatmapDescription d;
  d.input = j.at("input").at("name").get<std::string>();
  d.output = j.at("output").at("name").get<std::string>();
  d.scale = j.at("input").at("normalisation").at("scale").get<double>();
  d.offset = j.at("input").at("normalisation").at("offset").get<double>();
  d.classes = j.at("classes").get<std::vector<std::string>>();
  d.threshold = j.at("threshold").get<double>();
  d.nms_radius = j.at("nms_radius").get<int>();
  d.match_radius = j.at("match_radius").get<double>();
  if (j.contains("heldout")) {
    d.heldout = folder / j.at("heldout").at("folder").get<std::string>();
    d.truth = folder / j.at("heldout").at("truth").get<std::string>();
  }
  return d;
}

/// What the description says must be in the network.
void check_description(const HeatmapDescription& d, const Network& network, const std::filesystem::path& path) {
  const auto refuse = [&](const std::string& what) { throw UserError(fmt::format("'{}': {}", path.string(), what)); };
  const auto named = [&](const std::vector<TensorId>& ids, const std::string& name) -> const NetworkTensor* {
    for (const TensorId id : ids) {
      if (network[id].name == name) return &network[id];
    }
    return nullptr;
  };
  const NetworkTensor* input = named(network.inputs, d.input);
  const NetworkTensor* output = named(network.outputs, d.output);
  if (input == nullptr) refuse(fmt::format("the network has no input '{}'", d.input));
  if (output == nullptr) refuse(fmt::format("the network has no output '{}'", d.output));
  if (network.inputs.size() != 1)
    refuse(fmt::format("the network has {} inputs; a network of heatmaps has one", network.inputs.size()));
  if (input->shape.size() != 4 || !input->shape[1].known() ||
      (input->shape[1].value() != 1 && input->shape[1].value() != 3)) {
    refuse(fmt::format("input '{}' has the shape {}; expected (batch, 1 or 3, height, width)", d.input,
                       to_string(input->shape)));
  }
  if (output->shape.size() != 4 || output->shape[1] != Dim(d.classes.size())) {
    refuse(fmt::format("output '{}' has the shape {}, and there are {} classes; expected (batch, {}, height, width)",
                       d.output, to_string(output->shape), d.classes.size(), d.classes.size()));
  }
  if (d.nms_radius < 0 || d.nms_radius > 1000)
    refuse(fmt::format("nms_radius is {}; expected 0 to 1000", d.nms_radius));
  if (!(d.match_radius >= 0)) refuse(fmt::format("match_radius is {}; expected 0 or more", d.match_radius));
}

/// The description beside a model that was named itself; null if the file is about something else, as anything may be
/// called model.json.
json description_beside(const std::filesystem::path& sidecar, const std::filesystem::path& model) {
  if (!std::filesystem::is_regular_file(sidecar)) return read_json(sidecar);  // which says what it is
  try {
    json description = read_json(sidecar);
    const std::filesystem::path file = description.at("file").get<std::string>();
    if (file.filename() == model.filename()) return description;
  } catch (const UserError&) {        // no JSON, or far too large
  } catch (const json::exception&) {  // JSON of other content
  }
  return nullptr;
}

/// The product of extents that a user may choose must not overflow, nor take all memory.
void check_elements(const std::string& name, const std::vector<std::int64_t>& shape) {
  constexpr std::int64_t most = std::int64_t{1} << 28;  // 1 GiB of f32
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent > 0 && count > most / extent) {
      throw UserError(fmt::format("input '{}' would have the shape ({}): more than {} elements, the limit", name,
                                  fmt::join(shape, ","), most));
    }
    count *= extent;
  }
}

/// "'a', 'b'".
std::string quoted(const std::set<std::string>& names) {
  return names.empty() ? "none" : fmt::format("'{}'", fmt::join(names, "', '"));
}

/// The extents that a shape of an input gives to its symbols.
void add_symbols(const Network& network, const std::string& name, const std::vector<std::int64_t>& shape,
                 std::map<std::string, std::int64_t>& dims) {
  const auto refuse = [&](const std::string& why) {
    throw UserError(fmt::format("--shape {}={}: {}", name, fmt::join(shape, "x"), why));
  };
  const auto input =
      std::find_if(network.inputs.begin(), network.inputs.end(), [&](TensorId id) { return network[id].name == name; });
  if (input == network.inputs.end()) {
    std::set<std::string> names;
    for (const TensorId id : network.inputs) names.insert(network[id].name);
    return refuse(fmt::format("the model has no such input; it has: {}", quoted(names)));
  }
  const Shape& expected = network[*input].shape;
  if (expected.size() != shape.size()) refuse(fmt::format("the input has the shape {}", to_string(expected)));
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const Dim& dim = expected[i];
    if (dim.known() && dim.value() != shape[i]) refuse(fmt::format("the input has the shape {}", to_string(expected)));
    if (dim.known()) continue;
    const auto [given, is_new] = dims.emplace(dim.symbol(), shape[i]);
    if (!is_new && given->second != shape[i])
      refuse(fmt::format("'{}' would be {}, and is given as {}", dim.symbol(), shape[i], given->second));
  }
}

}  // namespace

bool is_model(const std::filesystem::path& path) {
  std::error_code ignored;
  return path.extension() == ".onnx" || std::filesystem::is_directory(path, ignored);
}

OnnxLimits limits_of(std::optional<std::uint64_t> memory) {
  OnnxLimits limits;
  if (memory) limits.constant_bytes = limits.computed_bytes = *memory;
  return limits;
}

namespace {

/// `load` fills in the network.
Model loaded_by(const std::filesystem::path& path, const std::function<void(Model&)>& load) {
  std::error_code ignored;  // what cannot be looked at cannot be read, which the reader reports
  const bool folder = std::filesystem::is_directory(path, ignored);
  const std::filesystem::path sidecar = (folder ? path : path.parent_path()) / "model.json";
  Model model;
  model.file = path;
  json description;
  if (folder && !std::filesystem::exists(sidecar, ignored)) {
    throw UserError(fmt::format("the folder '{}' has no model.json; give an ONNX file, or a folder with a model.json",
                                path.string()));
  }
  try {
    if (folder) {
      description = read_json(sidecar);
      model.file = sidecar.parent_path() / description.at("file").get<std::string>();
    } else if (std::filesystem::exists(sidecar)) {
      description = description_beside(sidecar, model.file);
    }
    load(model);
    if (!description.is_null() && model.left_out.empty()) {
      model.description = parse_description(description, sidecar.parent_path());
      check_description(*model.description, model.network, sidecar);
    }
  } catch (const json::exception& error) {
    throw UserError(fmt::format("'{}' is not a valid description of a model: {}", sidecar.string(), message(error)));
  }
  model.name = model.file.stem().string();
  return model;
}

}  // namespace

Model load_model(const std::filesystem::path& path, const OnnxLimits& limits, const std::set<std::string>& given) {
  return loaded_by(path, [&](Model& model) {
    model.network = load_onnx(model.file.string(), OnnxOptions{.limits = limits, .constants = {}, .given = given});
  });
}

Model load_model_partly(const std::filesystem::path& path, const OnnxLimits& limits,
                        const std::map<std::string, std::vector<std::int64_t>>& shapes) {
  return loaded_by(path, [&](Model& model) {
    network::PartialNetwork part =
        network::load_onnx_partly(model.file.string(), {.limits = limits, .constants = {}, .given = {}}, shapes);
    model.network = std::move(part.network), model.left_out = std::move(part.left_out);
  });
}

std::map<std::string, std::int64_t> dims_of(const Network& network, std::map<std::string, std::int64_t> dims,
                                            const Shapes& shapes) {
  for (const auto& [name, shape] : shapes) add_symbols(network, name, shape, dims);
  return dims;
}

Shapes input_shapes(const Network& network, const std::map<std::string, std::int64_t>& dims,
                    std::optional<std::int64_t> fallback) {
  Shapes shapes;
  std::set<std::string> symbols, missing;
  std::string inputs, advice;
  for (const TensorId id : network.inputs) {
    const NetworkTensor& tensor = network[id];
    std::vector<std::int64_t>& shape = shapes[tensor.name];
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      const Dim& dim = tensor.shape[i];
      if (dim.known()) {
        shape.push_back(dim.value());
        continue;
      }
      symbols.insert(dim.symbol());
      const auto given = dims.find(dim.symbol());
      if (given == dims.end() && i > 0 && !fallback) {
        if (missing.insert(dim.symbol()).second) advice += fmt::format(" --dim {}=NUMBER", dim.symbol());
        shape.push_back(1);
        continue;
      }
      shape.push_back(given != dims.end() ? given->second : i == 0 ? 1 : *fallback);
    }
    inputs +=
        fmt::format("{}input '{}' has the shape {}", inputs.empty() ? "" : ", ", tensor.name, to_string(tensor.shape));
  }
  for (const auto& [name, extent] : dims) {
    if (!symbols.contains(name)) {
      throw UserError(fmt::format("--dim {}={}: the model's inputs have no symbol '{}'; they have: {}", name, extent,
                                  name, symbols.empty() ? "none" : fmt::format("{}", fmt::join(symbols, ", "))));
    }
  }
  if (!missing.empty())
    throw UserError(
        fmt::format("{}; say what {} {}:{}", inputs, quoted(missing), missing.size() == 1 ? "is" : "are", advice));
  for (const auto& [name, shape] : shapes) check_elements(name, shape);
  return shapes;
}

}  // namespace unisono::command
