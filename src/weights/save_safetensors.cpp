/// Writing safetensors files.

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "support/replace_file.hpp"
#include "unisono/error.hpp"
#include "unisono/safetensors_writer.hpp"
#include "weights/safetensors_header.hpp"

namespace unisono {

namespace {

void check_written(const std::string& path, const SafetensorsTensor& t) {
  std::uint64_t bytes = size_of(t.dtype);
  for (const std::int64_t extent : t.shape) bytes *= static_cast<std::uint64_t>(extent);
  if (bytes != t.elements.size())
    throw UserError(fmt::format("'{}': tensor '{}' has {} bytes; its shape and type take {}", path, t.name,
                                t.elements.size(), bytes));
}

std::string header_of(const std::string& path, const std::vector<SafetensorsTensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::set<std::string> names{"__metadata__"};
  std::uint64_t at = 0;
  for (const SafetensorsTensor& t : tensors) {
    check_written(path, t);
    if (!names.insert(t.name).second)
      throw UserError(fmt::format("'{}': tensor '{}' is given twice, or is no name of a tensor", path, t.name));
    header[t.name] = {{"dtype", weights::safetensors_name(t.dtype)},
                      {"shape", t.shape},
                      {"data_offsets", {at, at + t.elements.size()}}};
    at += t.elements.size();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    throw UserError(fmt::format("'{}': a name or metadata is not UTF-8", path));
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');  // elements lie at multiples of 8 bytes
  return text;
}

}  // namespace

void save_safetensors(const std::string& path, const std::vector<SafetensorsTensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  const std::string header = header_of(path, tensors, metadata);
  std::string file;
  for (std::uint64_t i = 0, length = header.size(); i < 8; ++i) file += static_cast<char>(length >> (8 * i) & 0xff);
  file += header;
  for (const SafetensorsTensor& t : tensors)
    file.append(reinterpret_cast<const char*>(t.elements.data()), t.elements.size());
  try {
    support::replace_file(path, file);
  } catch (const std::system_error& error) {
    throw UserError(error.what());
  }
}

}  // namespace unisono
