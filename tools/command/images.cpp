#include "command/images.hpp"

#include <fmt/format.h>

#include <cmath>

#include "figure/resample.hpp"
#include "unisono/elements.hpp"
#include "unisono/error.hpp"
#include "unisono/images.hpp"

namespace unisono::command {
namespace {

/// Rec. 601 luma.
media::Image to_grey(const media::Image& image) {
  if (image.channels == 1) return image;
  media::Image grey = media::make_image(image.width, image.height, 1);
  for (std::size_t i = 0; i < grey.pixels.size(); ++i) {
    const std::uint8_t* p = image.pixels.data() + 3 * i;
    grey.pixels[i] = static_cast<std::uint8_t>(std::lround(0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2]));
  }
  return grey;
}

std::int64_t extent(const Dim& dim, const std::map<std::string, std::int64_t>& dims) {
  if (dim.known()) return dim.value();
  const auto found = dims.find(dim.symbol());
  return found == dims.end() ? 0 : found->second;
}

}  // namespace

ImageInput image_input(const Model& model, const std::map<std::string, std::int64_t>& dims) {
  const Network& network = model.network;
  if (network.inputs.size() != 1) {
    throw UserError(fmt::format("'{}' has {} inputs; --image is for networks with one: use --input NAME=FILE.npy",
                                model.file.string(), network.inputs.size()));
  }
  const NetworkTensor& tensor = network[network.inputs[0]];
  const Shape& shape = tensor.shape;
  if (shape.size() != 4 || !shape[1].known() || (shape[1].value() != 1 && shape[1].value() != 3)) {
    throw UserError(fmt::format(
        "input '{}' has the shape {}; an image needs (batch, 1 or 3, height, width): use --input {}=FILE.npy",
        tensor.name, to_string(shape), tensor.name));
  }
  if (!is_float(tensor.dtype) && tensor.dtype != DType::u8) {
    throw UserError(fmt::format("input '{}' takes {}; an image gives floats or uint8: use --input {}=FILE.npy",
                                tensor.name, media::numpy_name(tensor.dtype), tensor.name));
  }
  input_shapes(network, dims, 1);  // refuses unknown names
  ImageInput input{.name = tensor.name,
                   .channels = static_cast<int>(shape[1].value()),
                   .height = extent(shape[2], dims),
                   .width = extent(shape[3], dims),
                   .mean = {},
                   .deviation = {},
                   .dtype = tensor.dtype};
  if (input.dtype == DType::u8) input.scale = 1;
  if (model.description) {
    input.scale = model.description->scale;
    input.offset = model.description->offset;
  }
  return input;
}

LoadedImage load_image(const std::filesystem::path& path, const ImageInput& input) {
  media::Image image = media::read_image(path);
  LoadedImage loaded{path.filename().string(), {}, image.width, image.height};
  loaded.image = input.channels == 1 ? to_grey(image) : media::to_rgb(std::move(image));
  const std::int64_t width = input.width > 0 ? input.width : loaded.original_width;
  const std::int64_t height = input.height > 0 ? input.height : loaded.original_height;
  if (width != loaded.original_width || height != loaded.original_height) {
    loaded.image = figure::resample(loaded.image, width, height, figure::Filter::smooth);
  }
  return loaded;
}

Tensor32 to_tensor(const std::vector<LoadedImage>& images, const ImageInput& input) {
  const media::Image& first = images.at(0).image;
  Tensor32 tensor{{static_cast<std::int64_t>(images.size()), input.channels, first.height, first.width}, {}};
  tensor.value.resize(static_cast<std::size_t>(element_count(tensor.shape)));
  const PixelScale scale{input.scale, input.offset, input.mean, input.deviation};
  float* out = tensor.value.data();
  for (const LoadedImage& loaded : images) {
    const media::Image& image = loaded.image;
    if (image.width != first.width || image.height != first.height) {
      throw UserError(
          fmt::format("'{}' has {} x {} pixels and '{}' {} x {}: one batch needs one size; leave out --batch",
                      images[0].name, first.width, first.height, loaded.name, image.width, image.height));
    }
    const TensorView one{out, DType::f32, {input.channels, image.height, image.width}};
    read_pixels(view(image.pixels, {image.height, image.width, image.channels}), scale, one);
    out += element_count(one.shape);
  }
  return tensor;
}

}  // namespace unisono::command
