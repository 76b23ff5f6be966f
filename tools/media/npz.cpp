#include "media/npz.hpp"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <set>

#include "support/printable.hpp"
#include "unisono/error.hpp"

namespace unisono::media {
namespace {

constexpr std::string_view suffix = ".npy";
constexpr std::size_t most_members = 10'000;
constexpr std::uint64_t piece = 1 << 20;       // bytes that are decoded at a time
constexpr std::uint64_t deflate_ratio = 1032;  // no deflated data expand further
constexpr std::size_t end_record = 22, locator = 20, longest_comment = 0xffff;

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* member) const { zip_fclose(member); }
  void operator()(zip_source_t* source) const { zip_source_free(source); }
};
using Archive = std::unique_ptr<zip_t, Discard>;
using Member = std::unique_ptr<zip_file_t, Discard>;
using Source = std::unique_ptr<zip_source_t, Discard>;

/// libzip's code and text of an error.
class ZipError {
 public:
  ZipError() { zip_error_init(&error_); }
  ~ZipError() { zip_error_fini(&error_); }
  ZipError(const ZipError&) = delete;
  ZipError& operator=(const ZipError&) = delete;
  zip_error_t* get() { return &error_; }
  std::string text() { return text_of(&error_); }
  /// Throws std::bad_alloc where libzip had no memory.
  static std::string text_of(zip_error_t* error) {
    const bool no_memory = zip_error_code_zip(error) == ZIP_ER_MEMORY || zip_error_code_system(error) == ENOMEM;
    if (no_memory) throw std::bad_alloc();
    return zip_error_strerror(error);
  }

 private:
  zip_error_t error_;
};

/// An archive of the zip64 form may claim any number of members, and libzip takes memory for each. Files within our
/// limits never need it: refused where the end record is preceded by the locator of that form.
void refuse_zip64(std::span<const std::uint8_t> file, std::string_view name) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  const std::size_t tail = std::min(text.size(), end_record + longest_comment);
  for (std::size_t at = text.size() - tail; (at = text.find("PK\5\6", at)) != std::string_view::npos; ++at) {
    if (at >= locator && text.substr(at - locator).starts_with("PK\6\7"))
      throw UserError(
          fmt::format("'{}' is an archive of the zip64 form, for more than 65,535 members or 4 GiB; split it", name));
  }
}

Archive open_archive(std::span<const std::uint8_t> file, std::string_view name) {
  // libzip takes an empty file for an empty archive
  if (file.size() < end_record || file[0] != 'P' || file[1] != 'K')
    throw UserError(fmt::format("'{}' is not an .npz file: it does not begin with PK, or ends there", name));
  refuse_zip64(file, name);
  ZipError error;
  Source source(zip_source_buffer_create(file.data(), file.size(), 0, error.get()));
  if (!source) throw UserError(fmt::format("cannot read '{}': {}", name, error.text()));
  Archive archive(zip_open_from_source(source.get(), ZIP_RDONLY | ZIP_CHECKCONS, error.get()));
  if (!archive && zip_error_code_zip(error.get()) == ZIP_ER_EXISTS)
    throw UserError(fmt::format("'{}' has two members of one name", name));
  if (!archive) throw UserError(fmt::format("'{}' is not an .npz file, or is damaged: {}", name, error.text()));
  source.release();  // the archive's own now
  return archive;
}

/// A name for messages.
std::string shown(std::string_view name) { return "'" + support::printable_name(name) + "'"; }

/// The member's name without ".npy". Nothing is ever written under such a name, but a path that leads out of a folder
/// is a sign of a hostile file.
std::string array_name(std::string_view member, std::string_view archive) {
  const auto refuse = [&](std::string_view why) {
    throw UserError(fmt::format("'{}': member {} {}", archive, shown(member), why));
  };
  if (std::any_of(member.begin(), member.end(),
                  [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }))
    refuse("has control characters in its name");
  if (!member.ends_with(suffix)) refuse("is not an .npy file; an .npz file holds nothing else");
  const std::string_view name = member.substr(0, member.size() - suffix.size());
  if (name.empty()) refuse("has an empty name");
  if (name.front() == '/' || name.find('\\') != name.npos) refuse("has an absolute path or a backslash in its name");
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    if (name.substr(begin, end - begin) == "..") refuse("has '..' in its name");
    begin = end + 1;
  }
  return std::string(name);
}

zip_stat_t describe(zip_t* archive, std::uint64_t index, std::string_view name) {
  zip_stat_t stat;
  constexpr zip_uint64_t needed =
      ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if (zip_stat_index(archive, index, 0, &stat) != 0 || (stat.valid & needed) != needed)
    throw UserError(fmt::format("'{}': damaged entry of member {}", name, index));
  return stat;
}

/// What can be said before a byte is decoded.
void check_member(const zip_stat_t& stat, const std::string& what, std::uint64_t left, const Limits& limits) {
  if (stat.encryption_method != ZIP_EM_NONE) throw UserError(what + " is encrypted; write it without a password");
  if (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE)
    throw UserError(fmt::format("{} is compressed by method {}; expected stored or deflated, as numpy writes", what,
                                stat.comp_method));
  if (stat.size > left)
    throw UserError(
        fmt::format("{} takes {} bytes; the limit for all members is {} bytes", what, stat.size, limits.bytes));
  if (stat.comp_method == ZIP_CM_DEFLATE && stat.size / deflate_ratio > stat.comp_size)
    throw UserError(
        fmt::format("{} is damaged: {} bytes cannot hold the {} that it claims", what, stat.comp_size, stat.size));
}

/// Memory grows with what is decoded, not with what is claimed.
std::vector<std::uint8_t> decode_member(zip_t* archive, std::uint64_t index, const zip_stat_t& stat,
                                        const std::string& what) {
  const auto damaged = [&](const std::string& why) { throw UserError(fmt::format("{} is damaged: {}", what, why)); };
  Member member(zip_fopen_index(archive, index, 0));
  if (!member) damaged(ZipError::text_of(zip_get_error(archive)));
  std::vector<std::uint8_t> bytes;
  while (true) {
    const std::size_t used = bytes.size();
    bytes.resize(used + std::min(piece, stat.size - used + 1));  // one more: what is too long must show
    const zip_int64_t got = zip_fread(member.get(), bytes.data() + used, bytes.size() - used);
    if (got < 0) damaged(ZipError::text_of(zip_file_get_error(member.get())));
    bytes.resize(used + static_cast<std::size_t>(got));
    if (got == 0) break;
    if (bytes.size() > stat.size) damaged(fmt::format("it holds more than the {} bytes that it claims", stat.size));
  }
  if (bytes.size() != stat.size)
    damaged(fmt::format("it holds {} of the {} bytes that it claims", bytes.size(), stat.size));
  return bytes;
}

}  // namespace

NamedArrays decode_npz(std::span<const std::uint8_t> file, std::string_view name, const Limits& limits) {
  const Archive archive = open_archive(file, name);
  const auto count = static_cast<std::uint64_t>(zip_get_num_entries(archive.get(), 0));
  if (count > most_members)
    throw UserError(fmt::format("'{}' has {} members; the limit is {}", name, count, most_members));
  NamedArrays arrays;
  std::set<std::string> names;
  auto left = static_cast<std::uint64_t>(limits.bytes);
  for (std::uint64_t i = 0; i < count; ++i) {
    const zip_stat_t stat = describe(archive.get(), i, name);
    std::string key = array_name(stat.name, name);
    if (!names.insert(key).second)
      throw UserError(fmt::format("'{}' has two members '{}.npy'", name, support::printable_name(key)));
    const std::string what = fmt::format("'{}': member '{}.npy'", name, support::printable_name(key));
    check_member(stat, what, left, limits);
    left -= stat.size;
    const auto bytes = decode_member(archive.get(), i, stat, what);
    arrays.emplace_back(std::move(key),
                        decode_npy(bytes, fmt::format("{}:{}", name, support::printable_name(stat.name)), limits));
  }
  return arrays;
}

NamedArrays read_npz(const std::filesystem::path& path, const Limits& limits) {
  return decode_npz(read_file(path, limits), path.string(), limits);
}

namespace {

void add_member(zip_t* archive, const std::string& name, const std::vector<std::uint8_t>& bytes) {
  Source data(zip_source_buffer(archive, bytes.data(), bytes.size(), 0));
  const zip_int64_t index =
      data ? zip_file_add(archive, (name + std::string(suffix)).c_str(), data.get(), ZIP_FL_ENC_UTF_8) : -1;
  if (index < 0)
    throw UserError(fmt::format("cannot name a member '{}.npy': {}", name, ZipError::text_of(zip_get_error(archive))));
  data.release();
  const auto at = static_cast<zip_uint64_t>(index);
  constexpr zip_uint16_t first_day = 0x21;  // 1980-01-01: no clock in the file
  if (zip_set_file_compression(archive, at, ZIP_CM_STORE, 0) != 0 ||
      zip_file_set_dostime(archive, at, 0, first_day, 0) != 0)
    throw InternalError("libzip: " + ZipError::text_of(zip_get_error(archive)));
}

std::vector<std::uint8_t> contents(zip_source_t* source) {
  zip_stat_t stat;
  if (zip_source_stat(source, &stat) != 0 || zip_source_open(source) != 0)
    throw InternalError("libzip cannot read what it wrote: " + ZipError::text_of(zip_source_error(source)));
  std::vector<std::uint8_t> file(stat.size);
  const zip_int64_t got = zip_source_read(source, file.data(), file.size());
  zip_source_close(source);
  if (got != static_cast<zip_int64_t>(file.size())) throw InternalError("libzip cannot read what it wrote");
  return file;
}

}  // namespace

std::vector<std::uint8_t> encode_npz(const NamedArrays& arrays) {
  if (arrays.empty()) {  // libzip writes no archive without members
    std::vector<std::uint8_t> file{'P', 'K', 5, 6};
    file.resize(end_record);
    return file;
  }
  std::vector<std::vector<std::uint8_t>> members;  // libzip reads them when it closes the archive
  for (const auto& [name, array] : arrays) members.push_back(encode_npy(array));
  ZipError error;
  const Source target(zip_source_buffer_create(nullptr, 0, 0, error.get()));
  if (!target) throw InternalError("libzip: " + error.text());
  zip_source_keep(target.get());  // one for the archive, one to read from
  Archive archive(zip_open_from_source(target.get(), ZIP_TRUNCATE, error.get()));
  if (!archive) {
    zip_source_free(target.get());
    throw InternalError("libzip: " + error.text());
  }
  for (std::size_t i = 0; i < arrays.size(); ++i) add_member(archive.get(), arrays[i].first, members[i]);
  if (zip_close(archive.get()) != 0) throw InternalError("libzip: " + ZipError::text_of(zip_get_error(archive.get())));
  archive.release();
  return contents(target.get());
}

void write_npz(const std::filesystem::path& path, const NamedArrays& arrays) { write_file(path, encode_npz(arrays)); }

}  // namespace unisono::media
