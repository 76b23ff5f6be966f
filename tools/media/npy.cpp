#include "media/npy.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <limits>
#include <optional>

#include "coda/error.hpp"
#include "media/npy_header.hpp"
#include "support/float_convert.hpp"

namespace coda::media {
namespace {

struct TypeRow {
  ElementType type;
  std::size_t size;
  std::string_view descr;
  std::string_view name;
};
constexpr std::array<TypeRow, 7> type_rows{{
    {ElementType::f16, 2, "<f2", "float16"},
    {ElementType::f32, 4, "<f4", "float32"},
    {ElementType::f64, 8, "<f8", "float64"},
    {ElementType::u8, 1, "|u1", "uint8"},
    {ElementType::i32, 4, "<i4", "int32"},
    {ElementType::i64, 8, "<i8", "int64"},
    {ElementType::boolean, 1, "|b1", "bool"},
}};

const TypeRow& row_of(ElementType type) { return type_rows[static_cast<std::size_t>(type)]; }

/// A byte order mark means nothing for one-byte types: '<u1' and '|u1' are the same.
ElementType type_of(std::string_view descr, std::string_view name) {
  for (const TypeRow& row : type_rows) {
    if (row.descr == descr || (row.size == 1 && descr.size() == 3 && descr.substr(1) == row.descr.substr(1)))
      return row.type;
  }
  throw UserError(
      fmt::format("'{}' holds elements of type '{}'; expected one of '<f2', '<f4', '<f8', '|u1', '<i4', '<i8', "
                  "'|b1' (little endian): convert it with numpy's astype()",
                  name, descr.substr(0, 40)));
}

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("({})", fmt::join(shape, ", ")); }

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
    throw UserError(fmt::format("'{}' is no .npy file: it does not begin with \\x93NUMPY", name));
  const auto truncated = [&] { return UserError(fmt::format("'{}' ends within the .npy header", name)); };
  if (file.size() < 10) throw truncated();
  const int major = file[6];
  if (major < 1 || major > 3)
    throw UserError(fmt::format("'{}' is of .npy version {}; expected 1, 2 or 3", name, major));
  std::size_t length = file[8] | static_cast<std::size_t>(file[9]) << 8, start = 10;
  if (major >= 2) {
    if (file.size() < 12) throw truncated();
    length |= static_cast<std::size_t>(file[10]) << 16 | static_cast<std::size_t>(file[11]) << 24;
    start = 12;
  }
  if (length > file.size() - start) throw truncated();
  return {text.substr(start, length), start + length};
}

template <class T>
T element(const Array& array, std::size_t index) {
  T x;
  std::memcpy(&x, array.bytes.data() + index * sizeof(T), sizeof(T));
  return x;
}

double as_double(const Array& array, std::size_t i) {
  switch (array.type) {
    case ElementType::f16: return support::f16_to_float(element<std::uint16_t>(array, i));
    case ElementType::f32: return element<float>(array, i);
    case ElementType::f64: return element<double>(array, i);
    case ElementType::u8:
    case ElementType::boolean: return array.bytes[i];
    case ElementType::i32: return element<std::int32_t>(array, i);
    case ElementType::i64: return static_cast<double>(element<std::int64_t>(array, i));
  }
  throw InternalError("unknown element type");
}

ElementType element_type_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return ElementType::f64;
    case DType::f16: return ElementType::f16;
    case DType::i32: return ElementType::i32;
    case DType::boolean: return ElementType::boolean;
    default: return ElementType::f32;
  }
}

}  // namespace

std::size_t size_of(ElementType type) { return row_of(type).size; }
std::string_view to_string(ElementType type) { return row_of(type).name; }

Array decode_npy(std::span<const std::uint8_t> file, std::string_view name, const Limits& limits) {
  const auto [text, start] = split_header(file, name);
  const NpyHeader header = parse_npy_header(text, name);
  Array array{type_of(header.descr, name), header.shape, {}};
  const std::size_t size = size_of(array.type);
  const std::size_t expected = byte_count(header.shape, size, limits.bytes, name);
  const std::span<const std::uint8_t> data = file.subspan(start);
  if (data.size() != expected) {
    throw UserError(fmt::format("'{}' has {} bytes of data; its shape {} of {} needs {}", name, data.size(),
                                shape_text(header.shape), to_string(array.type), expected));
  }
  if (header.fortran_order && header.shape.size() > 1) {
    array.bytes = from_fortran(data, header.shape, size);
  } else {
    array.bytes.assign(data.begin(), data.end());
  }
  if (array.type == ElementType::boolean) {
    for (std::uint8_t& byte : array.bytes) byte = byte != 0;
  }
  return array;
}

Array read_npy(const std::filesystem::path& path, const Limits& limits) {
  return decode_npy(read_file(path, limits), path.string(), limits);
}

std::vector<std::uint8_t> encode_npy(const Array& array) {
  const std::string header = print_npy_header({std::string(row_of(array.type).descr), false, array.shape});
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

std::vector<std::uint8_t> convert(const Array& array, DType dtype, std::string_view name) {
  if (array.type == element_type_of(dtype) && size_of(array.type) == coda::size_of(dtype) && dtype != DType::tf32) {
    return array.bytes;
  }
  const std::size_t count = array.bytes.size() / size_of(array.type);
  std::vector<std::uint8_t> out(count * coda::size_of(dtype));
  for (std::size_t i = 0; i < count; ++i) {
    const double x = as_double(array, i);
    if (dtype == DType::i32 && !(x >= -0x1p31 && x < 0x1p31 && x == static_cast<std::int32_t>(x))) {
      throw UserError(fmt::format("'{}' holds {} at element {}: no value of int32", name, x, i));
    }
    support::store(out.data(), static_cast<std::int64_t>(i), dtype, x);
  }
  return out;
}

Array to_array(const ConstTensorView& tensor) {
  Array array{element_type_of(tensor.dtype), tensor.shape, {}};
  const std::int64_t count = element_count(tensor.shape);
  array.bytes.resize(static_cast<std::size_t>(count) * size_of(array.type));
  const bool same = coda::size_of(tensor.dtype) == size_of(array.type);
  if (same && count > 0) std::memcpy(array.bytes.data(), tensor.data, array.bytes.size());
  for (std::int64_t i = 0; !same && i < count; ++i) {
    support::store(array.bytes.data(), i, DType::f32, support::load(tensor.data, i, tensor.dtype));
  }
  return array;
}

}  // namespace coda::media
