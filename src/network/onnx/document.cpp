/// Reading ONNX files.

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "network/onnx/importer.hpp"

namespace coda {

namespace {

Network parse(std::span<const std::byte> bytes, const std::string& name, const std::string& folder,
              const OnnxOptions& options) {
  const OnnxLimits& limits = options.limits;
  if (bytes.size() > limits.file_bytes || bytes.size() > std::numeric_limits<int>::max())
    throw UserError(fmt::format("{}: has {} bytes; the limit is {}", name, bytes.size(), limits.file_bytes));
  onnx::ModelProto model;
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(16);  // model, graph, node, attribute, tensor and no deeper
  if (bytes.empty() || !model.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage())
    throw UserError(fmt::format("{}: is damaged or no ONNX model (its {} bytes cannot be parsed)", name, bytes.size()));
  return network::onnx_import::Importer(model, name, folder, options).run();
}

}  // namespace

Network parse_onnx(std::span<const std::byte> bytes, const std::string& name, const OnnxOptions& options) {
  return parse(bytes, name, "", options);
}

Network parse_onnx(std::span<const std::byte> bytes, const std::string& name, const OnnxLimits& limits) {
  return parse(bytes, name, "", {.limits = limits, .constants = {}});
}

Network load_onnx(const std::string& path, const OnnxLimits& limits) {
  return load_onnx(path, OnnxOptions{.limits = limits, .constants = {}});
}

Network load_onnx(const std::string& path, const OnnxOptions& options) {
  const OnnxLimits& limits = options.limits;
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (error || !std::filesystem::is_regular_file(status)) throw UserError(path + ": no such file");
  const auto size = std::filesystem::file_size(path, error);
  if (error) throw UserError(fmt::format("{}: {}", path, error.message()));
  if (size > limits.file_bytes)
    throw UserError(fmt::format("{}: has {} bytes; the limit is {}", path, size, limits.file_bytes));
  std::vector<std::byte> bytes(size);
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size)))
    throw UserError(path + ": cannot be read");
  const auto folder = std::filesystem::path(path).parent_path();
  return parse(bytes, path, folder.empty() ? "." : folder.string(), options);
}

}  // namespace coda
