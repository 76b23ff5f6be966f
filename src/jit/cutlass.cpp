#include "jit/cutlass.hpp"

#include <fmt/format.h>

#include <cctype>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "jit/compile_error.hpp"
#include "support/environment.hpp"
#include "support/files.hpp"
#include "unisono/error.hpp"

namespace unisono::jit {
namespace {

namespace fs = std::filesystem;

constexpr const char* version_header = "cutlass/version.h";

std::optional<fs::path> include_of(const fs::path& folder) {
  std::error_code error;
  for (const fs::path& include : {folder, folder / "include", folder / "source" / "include"})
    if (fs::is_regular_file(include / version_header, error)) return fs::absolute(include);
  return std::nullopt;
}

// Where pip puts the package: lib/python3.*/site-packages/cutlass_library/source of an environment
std::vector<fs::path> packages_of(const fs::path& environment) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(environment / "lib", error))
    found.push_back(entry.path() / "site-packages" / "cutlass_library");
  return found;
}

std::string number_in(std::string_view text, std::string_view macro) {
  const std::size_t at = text.find(macro);
  if (at == text.npos) return "?";
  std::size_t begin = at + macro.size();
  while (begin < text.size() && text[begin] == ' ') ++begin;
  std::size_t end = begin;
  while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
  return std::string(text.substr(begin, end - begin));
}

std::string version_of(const fs::path& include) {
  const std::string text = support::read_file(include / version_header).value_or("");
  return fmt::format("{}.{}.{}", number_in(text, "#define CUTLASS_MAJOR"), number_in(text, "#define CUTLASS_MINOR"),
                     number_in(text, "#define CUTLASS_PATCH"));
}

}  // namespace

Cutlass find_cutlass(const fs::path& given) {
  std::vector<fs::path> places;
  if (!given.empty()) {
    places.push_back(given);
  } else if (const auto named = support::cutlass_folder()) {
    places.push_back(*named);
  } else if (const auto cache = support::cache_folder()) {
    for (const char* environment : {"deps/venv-cutlass", "deps/venv"})
      for (fs::path& place : packages_of(*cache / environment)) places.push_back(std::move(place));
  }
  std::string looked_at;
  for (const fs::path& place : places) {
    if (const auto include = include_of(place)) return {*include, version_of(*include)};
    looked_at += fmt::format("\n  {}", place.string());
  }
  throw CompileError(
      fmt::format("no headers of CUTLASS, which this kernel is compiled from; looked for {} in:{}\nInstall the Python "
                  "package nvidia-cutlass (scripts/setup.sh test), or set UNISONO_CUTLASS to a folder of CUTLASS 4",
                  version_header, looked_at.empty() ? " no place (HOME is not set)" : looked_at));
}

}  // namespace unisono::jit
