#include "jit/entry.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>

#include "support/hash.hpp"
#include "support/json_depth.hpp"
#include "support/regular_file.hpp"
#include "support/trust.hpp"
#include "unisono/error.hpp"

namespace unisono::jit {
namespace {

using nlohmann::json;

constexpr int format = 1;
constexpr std::uint64_t most_info_bytes = 16 << 20, most_cubin_bytes = std::uint64_t{1} << 30;

/// Titles and options come from callers and need not be UTF-8.
std::string dump(const json& value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

json to_json(const Resources& r) {
  return {{"registers", r.registers},
          {"spill_store_bytes", r.spill_store_bytes},
          {"spill_load_bytes", r.spill_load_bytes},
          {"stack_bytes", r.stack_bytes},
          {"static_shared_bytes", r.static_shared_bytes},
          {"injected_waits", r.injected_waits}};
}

Resources to_resources(const json& j) {
  return {.registers = j.at("registers").get<int>(),
          .spill_store_bytes = j.at("spill_store_bytes").get<std::size_t>(),
          .spill_load_bytes = j.at("spill_load_bytes").get<std::size_t>(),
          .stack_bytes = j.at("stack_bytes").get<std::size_t>(),
          .static_shared_bytes = j.at("static_shared_bytes").get<std::size_t>(),
          .injected_waits = j.value("injected_waits", std::size_t{0})};
}

json to_json(const EntryInfo& info) {
  json kernels = json::object(), files = json::object();
  for (const auto& [name, resources] : info.kernels) kernels[name] = to_json(resources);
  for (const auto& [name, file] : info.files) files[name] = {{"bytes", file.bytes}, {"hash", file.hash}};
  return {
      {"format", format},          {"key", info.key},    {"program", info.program}, {"title", info.title},
      {"compiler", info.compiler}, {"arch", info.arch},  {"options", info.options}, {"created", info.created},
      {"seconds", info.seconds},   {"kernels", kernels}, {"files", files},          {"environment", info.environment},
      {"headers", info.headers}};
}

EntryInfo to_info(const json& j) {
  EntryInfo info{.key = j.at("key"),
                 .program = j.at("program"),
                 .headers = j.value("headers", std::string()),
                 .title = j.at("title"),
                 .compiler = j.at("compiler"),
                 .arch = j.at("arch"),
                 .options = j.at("options"),
                 .environment = j.value("environment", std::vector<std::string>()),
                 .created = j.at("created"),
                 .seconds = j.at("seconds"),
                 .kernels = {},
                 .files = {}};
  for (const auto& [name, resources] : j.at("kernels").items()) info.kernels[name] = to_resources(resources);
  for (const auto& [name, file] : j.at("files").items()) info.files[name] = {file.at("bytes"), file.at("hash")};
  return info;
}

bool is_there(const std::filesystem::path& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

}  // namespace

std::string to_text(const EntryInfo& info) {
  // through text and back, so that the hash is of what a reader will see
  const json body = json::parse(dump(to_json(info), -1));
  return dump({{"entry", body}, {"hash", support::hash(dump(body, -1))}}, 1) + "\n";
}

std::variant<EntryInfo, Broken> parse_entry(std::string_view text) try {
  const json whole = support::parse_json(text, info_file);
  const json& body = whole.at("entry");
  if (body.at("format") != format) return Broken{fmt::format("{}: a format of another version", info_file)};
  if (whole.at("hash") != support::hash(dump(body, -1))) return Broken{fmt::format("{} was changed", info_file)};
  return to_info(body);
} catch (const json::exception&) {
  return Broken{fmt::format("{} is damaged", info_file)};
} catch (const UserError& error) {  // nested too deeply
  return Broken{error.what()};
}

std::variant<std::string, Broken> read_own(const std::filesystem::path& folder, const char* name, std::uint64_t most) {
  std::string why;
  try {
    const auto file = support::RegularFile::attempt(folder / name, why, support::RegularFile::Links::refuse);
    if (!file) return Broken{fmt::format("{} is missing or cannot be read: {}", name, why)};
    if (!file->is_own())
      return Broken{fmt::format("{} belongs to somebody else, or others than its owner may write to it", name)};
    auto bytes = file->read_all(most);
    if (!bytes) return Broken{fmt::format("{} has more than {} bytes, the limit", name, most)};
    return std::move(*bytes);
  } catch (const std::system_error& error) {
    return Broken{fmt::format("{} is missing or cannot be read: {}", name, error.what())};
  }
}

std::variant<EntryInfo, Absent, Broken> load_info(const std::filesystem::path& folder) {
  struct stat info {};
  if (::lstat(folder.c_str(), &info) != 0) {
    if (is_there(folder)) return Broken{fmt::format("{} is missing or cannot be read", info_file)};
    return Absent{};
  }
  if (S_ISLNK(info.st_mode)) return Broken{"it is a symbolic link; entries are folders"};
  if (S_ISDIR(info.st_mode) && !support::is_own(info))
    return Broken{"its folder belongs to somebody else, or others than its owner may write to it"};
  auto text = read_own(folder, info_file, most_info_bytes);
  if (auto* broken = std::get_if<Broken>(&text)) return std::move(*broken);
  auto parsed = parse_entry(std::get<std::string>(text));
  if (auto* broken = std::get_if<Broken>(&parsed)) return std::move(*broken);
  EntryInfo& entry = std::get<EntryInfo>(parsed);
  if (entry.key != folder.filename().string()) return Broken{"its folder has the name of another entry"};
  return std::move(entry);
}

std::variant<Loaded, Absent, Broken> load_entry(const std::filesystem::path& folder) {
  auto info = load_info(folder);
  if (std::holds_alternative<Absent>(info)) return Absent{};
  if (auto* broken = std::get_if<Broken>(&info)) return std::move(*broken);
  Loaded loaded{std::move(std::get<EntryInfo>(info)), {}, folder};
  const auto expected = loaded.info.files.find(cubin_file);
  if (expected == loaded.info.files.end()) return Broken{fmt::format("{} lists no {}", info_file, cubin_file)};
  auto read = read_own(folder, cubin_file, most_cubin_bytes);
  if (auto* broken = std::get_if<Broken>(&read)) return std::move(*broken);
  const auto* const bytes = std::get_if<std::string>(&read);
  if (bytes->size() != expected->second.bytes) {
    return Broken{fmt::format("{} has {} bytes, expected {}", cubin_file, bytes->size(), expected->second.bytes)};
  }
  if (support::hash(*bytes) != expected->second.hash) return Broken{fmt::format("{} was changed", cubin_file)};
  loaded.cubin.resize(bytes->size());
  std::memcpy(loaded.cubin.data(), bytes->data(), bytes->size());
  return loaded;
}

bool is_key(std::string_view name) {
  return name.size() == 32 && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace unisono::jit
