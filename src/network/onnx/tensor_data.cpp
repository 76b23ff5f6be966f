/// Elements of ONNX tensors.

#include <cstring>
#include <limits>

#include "network/onnx/importer.hpp"
#include "support/float_convert.hpp"

namespace unisono::network::onnx_import {

namespace {

// TensorProto.DataType
struct TypeRow {
  int type;
  const char* name;
  std::optional<DType> dtype;
};
constexpr TypeRow type_rows[] = {{0, "undefined", {}},
                                 {1, "float32", DType::f32},
                                 {2, "uint8", DType::u8},
                                 {3, "int8", DType::i8},
                                 {4, "uint16", DType::u16},
                                 {5, "int16", DType::i16},
                                 {6, "int32", DType::i32},
                                 {7, "int64", DType::i64},
                                 {8, "string", {}},
                                 {9, "bool", DType::boolean},
                                 {10, "float16", DType::f16},
                                 {11, "float64", DType::f64},
                                 {12, "uint32", DType::u32},
                                 {13, "uint64", DType::u64},
                                 {14, "complex64", {}},
                                 {15, "complex128", {}},
                                 {16, "bfloat16", DType::bf16},
                                 {17, "float8e4m3fn", {}},
                                 {18, "float8e4m3fnuz", {}},
                                 {19, "float8e5m2", {}},
                                 {20, "float8e5m2fnuz", {}},
                                 {21, "uint4", {}},
                                 {22, "int4", {}},
                                 {23, "float4e2m1", {}},
                                 {24, "float8e8m0", {}},
                                 {25, "uint2", {}},
                                 {26, "int2", {}},
                                 {27, "float6e2m3", {}},
                                 {28, "float6e3m2", {}}};

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& elements) {
  std::vector<std::byte> bytes(elements.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

template <class Stored, class Field>
std::vector<std::byte> from_field(const Field& field, std::size_t count, const std::string& what) {
  if (static_cast<std::size_t>(field.size()) != count)
    throw UserError(fmt::format("{}: has {} elements of data; its shape takes {}", what, field.size(), count));
  std::vector<Stored> out;
  out.reserve(count);
  for (const auto x : field) out.push_back(static_cast<Stored>(x));
  return bytes_of(out);
}

// The elements as the file stores them
std::vector<std::byte> stored_elements(const schema::TensorProto& t, DType dtype, std::size_t count,
                                       const ModelFolders& folders, const std::string& what) {
  const std::size_t bytes = count * size_of(dtype);
  if (t.data_location() != 0 || t.external_data_size() > 0) return external_data(t, folders, bytes, what);
  const std::string& raw = t.raw_data();
  if (!raw.empty()) {
    if (raw.size() != bytes)
      throw UserError(fmt::format("{}: has {} bytes of data; its shape takes {}", what, raw.size(), bytes));
    const auto* begin = reinterpret_cast<const std::byte*>(raw.data());
    return {begin, begin + bytes};
  }
  switch (dtype) {
    case DType::f32: return from_field<float>(t.float_data(), count, what);
    case DType::f64: return from_field<double>(t.double_data(), count, what);
    case DType::i64: return from_field<std::int64_t>(t.int64_data(), count, what);
    case DType::u64: return from_field<std::uint64_t>(t.uint64_data(), count, what);
    case DType::u32: return from_field<std::uint32_t>(t.uint64_data(), count, what);
    case DType::i32: return from_field<std::int32_t>(t.int32_data(), count, what);
    case DType::f16:
    case DType::bf16:
    case DType::u16: return from_field<std::uint16_t>(t.int32_data(), count, what);
    case DType::i16: return from_field<std::int16_t>(t.int32_data(), count, what);
    case DType::i8: return from_field<std::int8_t>(t.int32_data(), count, what);
    default: return from_field<std::uint8_t>(t.int32_data(), count, what);
  }
}

}  // namespace

std::string data_type_name(int data_type) {
  for (const TypeRow& row : type_rows)
    if (row.type == data_type) return row.name;
  return fmt::format("data type {}", data_type);
}

std::optional<DType> dtype_of(int data_type) {
  for (const TypeRow& row : type_rows)
    if (row.type == data_type) return row.dtype;
  return std::nullopt;
}

int data_type_of(DType dtype) {
  for (const TypeRow& row : type_rows)
    if (row.dtype == dtype) return row.type;
  return 0;
}

bool is_short_float(int data_type) {
  return data_type == data_type_of(DType::f16) || data_type == data_type_of(DType::bf16);
}

std::uint64_t checked_count(const schema::TensorProto& t, std::uint64_t limit, const std::string& what) {
  std::uint64_t count = 1;
  bool empty = false;
  for (const auto d : t.dims()) {
    if (d < 0) throw UserError(fmt::format("{}: has an extent of {}", what, d));
    empty = empty || d == 0;
    if (d != 0 && (__builtin_mul_overflow(count, static_cast<std::uint64_t>(d), &count) || count > limit))
      throw UserError(fmt::format("{}: has more elements than the limit of {} allows", what, limit));
  }
  return empty ? 0 : count;
}

TensorData tensor_data(const schema::TensorProto& t, const ModelFolders& folders, const std::string& what) {
  const auto dtype = dtype_of(t.data_type());
  if (!dtype)
    throw UserError(fmt::format("{}: has elements of {}; expected a float, integer or bool type", what,
                                data_type_name(t.data_type())));
  const std::size_t n = checked_count(t, ~std::uint64_t{0} >> 8, what);
  TensorData data{*dtype, stored_elements(t, *dtype, n, folders, what)};
  if (*dtype == DType::boolean)
    for (std::byte& b : data.elements) b = b == std::byte{0} ? b : std::byte{1};
  if (!is_short_float(t.data_type())) return data;
  std::vector<float> floats(n);
  for (std::size_t i = 0; i < n; ++i)
    floats[i] = static_cast<float>(support::load(data.elements.data(), static_cast<std::int64_t>(i), *dtype));
  return {DType::f32, bytes_of(floats)};
}

}  // namespace unisono::network::onnx_import
