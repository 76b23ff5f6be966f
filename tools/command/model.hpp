#pragma once
/// Models: an ONNX file, and beside it a model.json that says what goes in and what comes out.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "network/onnx/partial.hpp"
#include "unisono/network.hpp"
#include "unisono/onnx.hpp"

namespace unisono::command {

/// What model.json tells of a network that makes heatmaps of images.
struct HeatmapDescription {
  std::string input, output;     ///< tensors
  double scale = 1, offset = 0;  ///< an input value is byte·scale + offset
  std::vector<std::string> classes;
  double threshold = 0.5;         ///< a peak is at least this high
  int nms_radius = 2;             ///< and the largest within this many pixels, in x and in y
  double match_radius = 6;        ///< pixels between a peak and the object that it finds
  std::filesystem::path heldout;  ///< folder of held-out images; empty if there is none
  std::filesystem::path truth;    ///< what is to be seen on them
};

struct Model {
  std::string name;
  std::filesystem::path file;  ///< the ONNX file
  Network network;
  std::optional<HeatmapDescription> description;
  std::vector<network::LeftOut> left_out;  ///< load_model_partly: nodes that are not in the network
};

/// What --memory-limit says.
OnnxLimits limits_of(std::optional<std::uint64_t> memory);

/// Loads an ONNX file, or the one that a folder's model.json names. A model.json beside the ONNX file is read if it
/// names that file. Inputs that have a default are those of the network that are among `given`. Throws UserError.
Model load_model(const std::filesystem::path& path, const OnnxLimits& limits = {},
                 const std::set<std::string>& given = {});

/// The same without the nodes whose operators are not imported. `shapes`: of their results, where the file has none. A
/// model with such nodes has no description.
Model load_model_partly(const std::filesystem::path& path, const OnnxLimits& limits,
                        const std::map<std::string, std::vector<std::int64_t>>& shapes);

/// True if `path` stands for a model: a folder, or a file that ends in .onnx.
bool is_model(const std::filesystem::path& path);

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

/// `dims`, and the symbols' extents that follow from the shapes of the inputs named in `shapes`. Throws UserError for a
/// name that is no input, a shape that does not fit it, and a symbol with two extents.
std::map<std::string, std::int64_t> dims_of(const Network& network, std::map<std::string, std::int64_t> dims,
                                            const Shapes& shapes);

/// Shapes of all inputs, with symbols replaced by `dims`. A symbol that `dims` lacks becomes `fallback`, or 1 if it is
/// the first extent of its input (the batch); without a fallback, other ones are a UserError that names all of them, as
/// are names in `dims` that are no symbols of the model.
Shapes input_shapes(const Network& network, const std::map<std::string, std::int64_t>& dims,
                    std::optional<std::int64_t> fallback = {});

}  // namespace unisono::command
