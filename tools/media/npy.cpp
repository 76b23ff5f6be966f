#include "media/npy.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "media/npy_header.hpp"
#include "support/float_convert.hpp"
#include "support/printable.hpp"
#include "unisono/error.hpp"

namespace unisono::media {
namespace {

struct TypeRow {
  DType type;
  std::string_view descr;
  std::string_view name;
};
constexpr std::array<TypeRow, 12> type_rows{{
    {DType::f16, "<f2", "float16"},
    {DType::f32, "<f4", "float32"},
    {DType::f64, "<f8", "float64"},
    {DType::boolean, "|b1", "bool"},
    {DType::i8, "|i1", "int8"},
    {DType::i16, "<i2", "int16"},
    {DType::i32, "<i4", "int32"},
    {DType::i64, "<i8", "int64"},
    {DType::u8, "|u1", "uint8"},
    {DType::u16, "<u2", "uint16"},
    {DType::u32, "<u4", "uint32"},
    {DType::u64, "<u8", "uint64"},
}};

const TypeRow* row_of(DType type) {
  for (const TypeRow& row : type_rows)
    if (row.type == type) return &row;
  return nullptr;
}

/// A byte order mark means nothing for one-byte types: '<u1' and '|u1' are the same.
DType type_of(std::string_view descr, std::string_view name) {
  for (const TypeRow& row : type_rows) {
    if (row.descr == descr || (size_of(row.type) == 1 && descr.size() == 3 && descr.substr(1) == row.descr.substr(1)))
      return row.type;
  }
  throw UserError(
      fmt::format("'{}' holds elements of type '{}'; expected float16, float32, float64, bool or integers of 8 to 64 "
                  "bits, little endian (such as '<f4'): convert it with numpy's astype()",
                  name, support::printable_name(descr, 40)));
}

/// Bytes that the shape needs, at most `limit`.
std::size_t byte_count(const std::vector<std::int64_t>& shape, std::size_t size, std::int64_t limit,
                       std::string_view name) {
  std::int64_t bytes = static_cast<std::int64_t>(size);
  for (const std::int64_t extent : shape) {
    if (extent == 0) return 0;
  }
  for (const std::int64_t extent : shape) {
    if (extent > limit / bytes) {
      throw UserError(
          fmt::format("'{}' has the shape {}: more than {} bytes, the limit", name, shape_text(shape), limit));
    }
    bytes *= extent;
  }
  return static_cast<std::size_t>(bytes);
}

/// First index fastest → last index fastest.
std::vector<std::uint8_t> from_fortran(std::span<const std::uint8_t> data, const std::vector<std::int64_t>& shape,
                                       std::size_t size) {
  std::vector<std::uint8_t> out(data.size());
  const std::size_t rank = shape.size();
  std::vector<std::size_t> stride(rank, size), index(rank, 0);
  for (std::size_t d = 1; d < rank; ++d) stride[d] = stride[d - 1] * static_cast<std::size_t>(shape[d - 1]);
  std::size_t from = 0;
  for (std::size_t to = 0; to < out.size(); to += size) {
    std::memcpy(out.data() + to, data.data() + from, size);
    for (std::size_t d = rank; d-- > 0;) {  // count up, last index first
      from += stride[d];
      if (++index[d] < static_cast<std::size_t>(shape[d])) break;
      from -= stride[d] * static_cast<std::size_t>(shape[d]);
      index[d] = 0;
    }
  }
  return out;
}

/// The dictionary's text and where the data begin.
std::pair<std::string_view, std::size_t> split_header(std::span<const std::uint8_t> file, std::string_view name) {
  static constexpr std::string_view magic = "\x93NUMPY";
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (!text.starts_with(magic))
    throw UserError(fmt::format("'{}' is not an .npy file: it does not begin with \\x93NUMPY", name));
  const auto truncated = [&] { return UserError(fmt::format("'{}' ends within the .npy header", name)); };
  if (file.size() < 10) throw truncated();
  const int major = file[6];
  if (major < 1 || major > 3) throw UserError(fmt::format("'{}' has .npy version {}; expected 1, 2 or 3", name, major));
  std::size_t length = file[8] | static_cast<std::size_t>(file[9]) << 8, start = 10;
  if (major >= 2) {
    if (file.size() < 12) throw truncated();
    length |= static_cast<std::size_t>(file[10]) << 16 | static_cast<std::size_t>(file[11]) << 24;
    start = 12;
  }
  if (length > file.size() - start) throw truncated();
  return {text.substr(start, length), start + length};
}

}  // namespace

std::string_view numpy_name(DType dtype) {
  if (dtype == DType::bf16) return "bfloat16";
  const TypeRow* row = row_of(dtype);
  return row != nullptr ? row->name : to_string(dtype);
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

Array decode_npy(std::span<const std::uint8_t> file, std::string_view name, const Limits& limits) {
  const auto [text, start] = split_header(file, name);
  const NpyHeader header = parse_npy_header(text, name);
  Array array{type_of(header.descr, name), header.shape, {}};
  const std::size_t size = size_of(array.type);
  const std::size_t expected = byte_count(header.shape, size, limits.bytes, name);
  const std::span<const std::uint8_t> data = file.subspan(start);
  if (data.size() != expected) {
    throw UserError(fmt::format("'{}' has {} bytes of data; its shape {} of {} needs {}", name, data.size(),
                                shape_text(header.shape), numpy_name(array.type), expected));
  }
  if (header.fortran_order && header.shape.size() > 1) {
    array.bytes = from_fortran(data, header.shape, size);
  } else {
    array.bytes.assign(data.begin(), data.end());
  }
  if (array.type == DType::boolean) {
    for (std::uint8_t& byte : array.bytes) byte = byte != 0;
  }
  return array;
}

Array read_npy(const std::filesystem::path& path, const Limits& limits) {
  return decode_npy(read_file(path, limits), path.string(), limits);
}

std::vector<std::uint8_t> encode_npy(const Array& array) {
  const std::string header = print_npy_header({std::string(row_of(array.type)->descr), false, array.shape});
  const bool wide = header.size() + 1 + 10 + 63 > 0xffff;
  const std::size_t start = wide ? 12 : 10;
  const std::size_t total = (start + header.size() + 1 + 63) / 64 * 64;  // magic, header, blanks, newline
  std::vector<std::uint8_t> file{0x93, 'N', 'U', 'M', 'P', 'Y', static_cast<std::uint8_t>(wide ? 2 : 1), 0};
  const std::size_t length = total - start;
  for (std::size_t i = 0; i < start - 8; ++i) file.push_back(static_cast<std::uint8_t>(length >> (8 * i)));
  file.insert(file.end(), header.begin(), header.end());
  file.resize(total - 1, ' ');
  file.push_back('\n');
  file.insert(file.end(), array.bytes.begin(), array.bytes.end());
  return file;
}

void write_npy(const std::filesystem::path& path, const Array& array) { write_file(path, encode_npy(array)); }

Array to_array(const ConstTensorView& tensor) {
  const bool same = row_of(tensor.dtype) != nullptr;
  Array array{same ? tensor.dtype : DType::f32, tensor.shape, {}};
  const std::int64_t count = element_count(tensor.shape);
  array.bytes.resize(static_cast<std::size_t>(count) * size_of(array.type));
  if (same && count > 0) std::memcpy(array.bytes.data(), tensor.data, array.bytes.size());
  for (std::int64_t i = 0; !same && i < count; ++i) {
    support::store(array.bytes.data(), i, DType::f32, support::load(tensor.data, i, tensor.dtype));
  }
  return array;
}

}  // namespace unisono::media
