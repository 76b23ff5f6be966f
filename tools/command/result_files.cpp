#include "command/result_files.hpp"

#include <fmt/format.h>

#include <cctype>
#include <set>

#include "media/file.hpp"
#include "media/npz.hpp"
#include "unisono/error.hpp"

namespace unisono::command {
namespace {

/// As a file can hold it.
media::Array for_file(const media::Array& array) {
  if (array.type != DType::bf16) return array;
  return media::to_array({array.bytes.data(), array.type, array.shape, {}});
}

/// Names of tensors may hold anything; names of files letters, digits, dots, dashes and underscores.
std::string file_name(const std::string& name, std::set<std::string>& taken) {
  std::string safe;
  for (const char c : name)
    safe += std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_' ? c : '_';
  if (safe.empty() || safe.front() == '.') safe = "_" + safe;
  std::string unique = safe;
  for (int i = 2; !taken.insert(unique).second; ++i) unique = fmt::format("{}_{}", safe, i);
  return unique + ".npy";
}

}  // namespace

Targets targets_of(const RunOptions& options, std::size_t outputs) {
  Targets targets;
  const std::filesystem::path extension = options.out.extension();
  if (extension == ".npy") {
    if (outputs != 1) {
      throw UserError(fmt::format("--out {}: there are {} outputs; give a folder, or a file that ends in .npz",
                                  options.out.string(), outputs));
    }
    targets.array = options.out;
  } else if (extension == ".npz") {
    targets.archive = options.out;
  } else if (extension == ".png") {
    if (options.images.empty())
      throw UserError(fmt::format(
          "--out {}: a picture is drawn of a model's --image; give a folder, or a file that ends in .npz or .npy",
          options.out.string()));
    targets.picture = options.out;
  } else {
    media::make_folder(options.out);
    targets.folder = options.out;
  }
  return targets;
}

std::vector<std::string> write_arrays(const Tensors& outputs, const Targets& targets) {
  std::vector<std::string> files;
  media::WrittenFiles written;
  std::set<std::string> taken;
  media::NamedArrays members;
  for (const auto& [name, array] : outputs) {
    if (!targets.archive.empty()) members.emplace_back(name, for_file(array));
    if (targets.array.empty() && targets.folder.empty()) continue;
    const std::filesystem::path path = targets.array.empty() ? targets.folder / file_name(name, taken) : targets.array;
    written.write(path, media::encode_npy(for_file(array)));
    files.push_back(path.string());
  }
  written.commit();
  if (!targets.archive.empty()) {
    media::write_npz(targets.archive, members);
    files.push_back(targets.archive.string());
  }
  return files;
}

}  // namespace unisono::command
