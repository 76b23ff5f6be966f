#pragma once
/// Reads weights in the safetensors format: a JSON header that names tensors, then their elements.
///
///     unisono::NetworkBuilder net;
///     net.use_weights(unisono::open_safetensors("unet.safetensors"));
///     auto w = net.weight("down.0.conv.weight", {64, 3, 3, 3});

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/dtype.hpp"

namespace unisono {

/// Limits on what a file may request. The format itself allows headers of up to 100 MB.
struct SafetensorsLimits {
  std::uint64_t header_bytes = 100'000'000;
  std::size_t tensors = 1'000'000;
};

/// A tensor of a file: dense, row-major, little endian.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  ///< bytes, counted from the end of the header
};

class SafetensorsImpl;

/// An open file. Cheap to copy. Its header is in memory; elements are read on request.
class Safetensors {
 public:
  explicit Safetensors(std::shared_ptr<const SafetensorsImpl> impl) : impl_(std::move(impl)) {}

  /// The path, or the given name, for messages.
  const std::string& name() const;
  /// All tensors in the order of their elements.
  const std::vector<SafetensorsEntry>& entries() const;
  /// The tensor of this name, or null.
  const SafetensorsEntry* find(std::string_view tensor) const;
  /// The header's "__metadata__".
  const std::map<std::string, std::string>& metadata() const;
  /// Reads the elements of one of entries(). Throws UserError if the file cannot be read or has shrunk.
  std::vector<std::byte> read(const SafetensorsEntry& entry) const;

 private:
  std::shared_ptr<const SafetensorsImpl> impl_;
};

/// Opens a file and checks its header. Dtypes are F64, F32, F16, BF16, F8_E4M3, F8_E5M2, BOOL and integers of 8 to 64
/// bits. Names and fields must be unique; offsets must match dtype and shape and cover the rest of the file without
/// overlap or hole. Throws UserError naming the tensor otherwise, before allocating what the header claims.
Safetensors open_safetensors(const std::string& path, const SafetensorsLimits& limits = {});

/// Reads a file in memory. `name` stands for the path in messages.
Safetensors parse_safetensors(std::vector<std::byte> file, const std::string& name = "weights",
                              const SafetensorsLimits& limits = {});

}  // namespace unisono
