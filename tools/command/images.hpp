#pragma once
/// Images as inputs of a network.

#include <filesystem>
#include <string>
#include <vector>

#include "command/execution.hpp"
#include "command/model.hpp"
#include "media/image.hpp"

namespace unisono::command {

/// What a network takes for an image.
struct ImageInput {
  std::string name;
  int channels = 3;                      ///< 1 or 3
  std::int64_t height = 0, width = 0;    ///< 0: the image's own
  double scale = 1.0 / 255, offset = 0;  ///< value = byte·scale + offset
  std::vector<double> mean, deviation;   ///< by channel or empty: after that, (value − mean)/deviation
  DType dtype = DType::f32;              ///< dtype of the tensor; u8 takes the bytes as they are
};

/// The input that images go into: that of the description, or the only one, if it has the shape (batch, 1 or 3, height,
/// width). `dims` give symbols their extents. Throws UserError if there is none, or if it takes neither floats nor u8.
ImageInput image_input(const Model& model, const std::map<std::string, std::int64_t>& dims);

struct LoadedImage {
  std::string name;    ///< name of the file, without its folder
  media::Image image;  ///< as the network sees it
  std::int64_t original_width = 0, original_height = 0;
  bool scaled() const { return image.width != original_width || image.height != original_height; }
};

/// Reads an image and brings it to the input's channels and size. Throws UserError.
LoadedImage load_image(const std::filesystem::path& path, const ImageInput& input);

/// (N,C,H,W). Throws UserError if the images differ in size.
Tensor32 to_tensor(const std::vector<LoadedImage>& images, const ImageInput& input);

}  // namespace unisono::command
