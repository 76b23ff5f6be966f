/// Reading ONNX files.

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <filesystem>
#include <limits>

#include "network/onnx/importer.hpp"
#include "support/printable.hpp"
#include "support/regular_file.hpp"

namespace unisono {

namespace {

// Model, graph, node, attribute, tensor; three more for each branch within another
constexpr int deepest_message = 100;

void check_size(std::uint64_t size, const std::string& name, const OnnxLimits& limits) {
  if (size > limits.file_bytes)
    throw UserError(fmt::format("{}: has {} bytes; the limit is {}", name, size, limits.file_bytes));
  if (size > std::numeric_limits<int>::max())
    throw UserError(
        fmt::format("{}: has {} bytes, and an ONNX file must be smaller than 2 GiB; save the weights as external data",
                    name, size));
}

onnx::ModelProto parse_model(std::span<const std::byte> bytes, const std::string& name, const OnnxLimits& limits) {
  check_size(bytes.size(), name, limits);
  onnx::ModelProto model;
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(deepest_message);
  if (bytes.empty() || !model.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage())
    throw UserError(
        fmt::format("{}: damaged, or not an ONNX model (its {} bytes cannot be parsed)", name, bytes.size()));
  return model;
}

// Names in errors may hold anything
template <class Import>
auto with_printable_errors(const Import& import) {
  try {
    return import();
  } catch (const UserError& error) {
    throw UserError(support::printable(error.what()));
  } catch (const Unsupported& error) {
    throw Unsupported(support::printable(error.what()));
  }
}

Network parse(std::span<const std::byte> bytes, const std::string& name,
              const network::onnx_import::ModelFolders& folders, const OnnxOptions& options) {
  const onnx::ModelProto model = parse_model(bytes, name, options.limits);
  return with_printable_errors([&] { return network::onnx_import::Importer(model, name, folders, options).run(); });
}

std::vector<std::byte> bytes_of(const std::string& path, const OnnxLimits& limits) {
  const support::RegularFile file(path);
  check_size(file.size(), path, limits);
  std::vector<std::byte> bytes(file.size());
  if (file.read(0, bytes) != bytes.size()) throw UserError(path + ": cannot be read to its end");
  return bytes;
}

network::onnx_import::ModelFolders folders_of(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::path(path).parent_path(), real = fs::canonical(path, error).parent_path();
  const std::string given = folder.empty() ? "." : folder.string();
  return {given, error ? given : real.string()};
}

}  // namespace

Network parse_onnx(std::span<const std::byte> bytes, const std::string& name, const OnnxOptions& options) {
  return parse(bytes, name, {}, options);
}

Network parse_onnx(std::span<const std::byte> bytes, const std::string& name, const OnnxLimits& limits) {
  return parse(bytes, name, {}, {.limits = limits, .constants = {}});
}

Network load_onnx(const std::string& path, const OnnxLimits& limits) {
  return load_onnx(path, OnnxOptions{.limits = limits, .constants = {}});
}

Network load_onnx(const std::string& path, const OnnxOptions& options) {
  return parse(bytes_of(path, options.limits), path, folders_of(path), options);
}

network::PartialNetwork network::load_onnx_partly(const std::string& path, const OnnxOptions& options,
                                                  const std::map<std::string, std::vector<std::int64_t>>& shapes) {
  const onnx::ModelProto model = parse_model(bytes_of(path, options.limits), path, options.limits);
  const onnx_import::ModelFolders folders = folders_of(path);
  return with_printable_errors([&] {
    if (auto part = onnx_import::Importer(model, path, folders, options).run_partly(shapes)) return *std::move(part);
    return PartialNetwork{onnx_import::Importer(model, path, folders, options).run(), {}};  // which says why
  });
}

}  // namespace unisono
