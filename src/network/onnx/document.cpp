/// Reading ONNX files.

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <filesystem>
#include <limits>

#include "network/onnx/importer.hpp"
#include "support/printable.hpp"
#include "support/regular_file.hpp"

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
  try {
    return network::onnx_import::Importer(model, name, folder, options).run();
  } catch (const UserError& error) {  // names in it may hold anything
    throw UserError(support::printable(error.what()));
  } catch (const Unsupported& error) {
    throw Unsupported(support::printable(error.what()));
  }
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
  const support::RegularFile file(path);
  if (file.size() > limits.file_bytes)
    throw UserError(fmt::format("{}: has {} bytes; the limit is {}", path, file.size(), limits.file_bytes));
  std::vector<std::byte> bytes(file.size());
  if (file.read(0, bytes) != bytes.size()) throw UserError(path + ": cannot be read to its end");
  const auto folder = std::filesystem::path(path).parent_path();
  return parse(bytes, path, folder.empty() ? "." : folder.string(), options);
}

}  // namespace coda
