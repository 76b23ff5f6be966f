/// Elements that lie in a file beside the model.

#include <charconv>
#include <filesystem>
#include <span>

#include "network/onnx/importer.hpp"
#include "support/regular_file.hpp"

namespace unisono::network::onnx_import {

namespace {

namespace fs = std::filesystem;

std::uint64_t number(const std::string& text, std::string_view key, const std::string& what) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty())
    throw UserError(fmt::format("{}: the {} of its external data is not a number; expected decimal digits", what, key));
  return value;
}

bool is_below(const fs::path& file, const fs::path& folder) {
  const fs::path below = file.lexically_relative(folder);
  return !below.empty() && *below.begin() != "..";
}

// The file, which must lie below one of the folders, also after symbolic links are followed. It is looked for beside
// the model as it is named, then beside the file to which a link to the model leads.
fs::path safe_path(const std::string& location, const ModelFolders& folders, const std::string& what) {
  const fs::path relative(location);
  bool safe = !location.empty() && location.size() < 4096 && location.find('\0') == std::string::npos &&
              location.find('\\') == std::string::npos && relative.is_relative();
  for (const auto& part : relative) safe = safe && part != "..";
  const char* outside = ": its external data must be in a file below the model's folder";
  if (!safe) throw UserError(what + outside);
  std::error_code error;
  std::string why;  // it is not a regular file
  const fs::path roots[] = {fs::canonical(folders.given, error), fs::canonical(folders.real, error)};
  for (const fs::path& root : roots) {
    const fs::path file = root.empty() ? fs::path() : fs::canonical(root / relative, error);
    if (root.empty() || error) continue;
    if (!is_below(file, roots[0]) && !is_below(file, roots[1])) throw UserError(what + outside);
    if (fs::is_regular_file(file, error)) return file;
    if (why.empty()) why = support::why_not_regular(file);
  }
  if (!why.empty()) throw UserError(fmt::format("{}: its external data: {}", what, why));
  throw UserError(what + ": the file of its external data is not there");
}

}  // namespace

std::vector<std::byte> external_data(const schema::TensorProto& t, const ModelFolders& folders, std::size_t bytes,
                                     const std::string& what) {
  if (folders.given.empty())
    throw UserError(what + ": its data are in another file; load the model from its folder, or save it as one file");
  std::string location;
  std::uint64_t offset = 0;
  for (const auto& entry : t.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = number(entry.value(), "offset", what);
    if (entry.key() == "length" && number(entry.value(), "length", what) != bytes)
      throw UserError(
          fmt::format("{}: its external data have another length than the {} bytes of its shape", what, bytes));
  }
  const fs::path path = safe_path(location, folders, what);
  std::error_code error;
  const std::uint64_t size = fs::file_size(path, error);
  if (error || offset > size || bytes > size - offset)
    throw UserError(fmt::format("{}: its external data end beyond the end of the file", what));
  std::vector<std::byte> data(bytes);
  std::string why;
  const auto file = support::RegularFile::attempt(path, why);
  if (!file) throw UserError(fmt::format("{}: its external data: {}", what, why));
  if (file->read(offset, std::span(data)) != bytes)
    throw UserError(what + ": the file of its external data cannot be read");
  return data;
}

}  // namespace unisono::network::onnx_import
