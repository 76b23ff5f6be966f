/// Elements of ONNX tensors.

#include <cstring>

#include "network/onnx/importer.hpp"
#include "support/float_convert.hpp"

namespace coda::network::onnx_import {

namespace {

// TensorProto.DataType
constexpr int type_float = 1, type_uint8 = 2, type_int8 = 3, type_int32 = 6, type_int64 = 7, type_bool = 9,
              type_float16 = 10, type_double = 11, type_bfloat16 = 16;

struct TypeName {
  int type;
  const char* name;
};
constexpr TypeName type_names[] = {
    {0, "undefined"}, {1, "float32"}, {2, "uint8"},      {3, "int8"},        {4, "uint16"},   {5, "int16"},
    {6, "int32"},     {7, "int64"},   {8, "string"},     {9, "bool"},        {10, "float16"}, {11, "float64"},
    {12, "uint32"},   {13, "uint64"}, {14, "complex64"}, {15, "complex128"}, {16, "bfloat16"}};

// Elements that lie as bytes in raw_data (little endian), by way of their own type
template <class Raw, class Convert>
auto from_raw(const std::string& raw, std::size_t count, const std::string& what, Convert convert) {
  if (raw.size() != count * sizeof(Raw))
    throw UserError(fmt::format("{}: has {} bytes of data; its shape takes {}", what, raw.size(), count * sizeof(Raw)));
  std::vector<decltype(convert(Raw{}))> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    Raw x;
    std::memcpy(&x, raw.data() + i * sizeof(Raw), sizeof(Raw));
    out[i] = convert(x);
  }
  return out;
}

template <class Field, class Convert>
auto from_field(const Field& field, std::size_t count, const std::string& what, Convert convert) {
  if (static_cast<std::size_t>(field.size()) != count)
    throw UserError(fmt::format("{}: has {} elements of data; its shape takes {}", what, field.size(), count));
  std::vector<decltype(convert(field.Get(0)))> out;
  out.reserve(count);
  for (const auto x : field) out.push_back(convert(x));
  return out;
}

void check_in_file(const schema::TensorProto& t, const std::string& what) {
  if (t.data_location() != 0 || t.external_data_size() > 0)
    throw UserError(what + ": its data lie in another file; save the model as one file (external_data=False)");
}

}  // namespace

std::string data_type_name(int data_type) {
  for (const TypeName& row : type_names)
    if (row.type == data_type) return row.name;
  return fmt::format("data type {}", data_type);
}

bool is_float_tensor(const schema::TensorProto& t) {
  return t.data_type() == type_float || t.data_type() == type_float16 || t.data_type() == type_bfloat16 ||
         t.data_type() == type_double;
}

bool is_integer_tensor(const schema::TensorProto& t) {
  return t.data_type() == type_int64 || t.data_type() == type_int32 || t.data_type() == type_uint8 ||
         t.data_type() == type_int8 || t.data_type() == type_bool;
}

std::uint64_t checked_count(const schema::TensorProto& t, std::uint64_t limit, const std::string& what) {
  std::uint64_t count = 1;
  for (const auto d : t.dims()) {
    if (d < 0) throw UserError(fmt::format("{}: has an extent of {}", what, d));
    if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(d), &count) || count > limit)
      throw UserError(fmt::format("{}: has more elements than the limit of {} allows", what, limit));
  }
  return count;
}

std::vector<float> float_elements(const schema::TensorProto& t, const std::string& what) {
  check_in_file(t, what);
  const std::size_t n = checked_count(t, ~std::uint64_t{0} >> 8, what);
  const bool raw = !t.raw_data().empty();
  const auto half = [](auto x) { return support::f16_to_float(static_cast<std::uint16_t>(x)); };
  const auto brain = [](auto x) { return support::bf16_to_float(static_cast<std::uint16_t>(x)); };
  const auto same = [](auto x) { return static_cast<float>(x); };
  switch (t.data_type()) {
    case type_float:
      return raw ? from_raw<float>(t.raw_data(), n, what, same) : from_field(t.float_data(), n, what, same);
    case type_double:
      return raw ? from_raw<double>(t.raw_data(), n, what, same) : from_field(t.double_data(), n, what, same);
    case type_float16:
      return raw ? from_raw<std::uint16_t>(t.raw_data(), n, what, half) : from_field(t.int32_data(), n, what, half);
    case type_bfloat16:
      return raw ? from_raw<std::uint16_t>(t.raw_data(), n, what, brain) : from_field(t.int32_data(), n, what, brain);
    default:
      throw UserError(
          fmt::format("{}: has elements of {}; expected a float type", what, data_type_name(t.data_type())));
  }
}

std::vector<std::int64_t> integer_elements(const schema::TensorProto& t, const std::string& what) {
  check_in_file(t, what);
  const std::size_t n = checked_count(t, ~std::uint64_t{0} >> 8, what);
  const bool raw = !t.raw_data().empty();
  const auto wide = [](auto x) { return static_cast<std::int64_t>(x); };
  switch (t.data_type()) {
    case type_int64:
      return raw ? from_raw<std::int64_t>(t.raw_data(), n, what, wide) : from_field(t.int64_data(), n, what, wide);
    case type_int32:
      return raw ? from_raw<std::int32_t>(t.raw_data(), n, what, wide) : from_field(t.int32_data(), n, what, wide);
    case type_uint8:
    case type_bool:
      return raw ? from_raw<std::uint8_t>(t.raw_data(), n, what, wide) : from_field(t.int32_data(), n, what, wide);
    case type_int8:
      return raw ? from_raw<std::int8_t>(t.raw_data(), n, what, wide) : from_field(t.int32_data(), n, what, wide);
    default:
      throw UserError(
          fmt::format("{}: has elements of {}; expected an integer type", what, data_type_name(t.data_type())));
  }
}

}  // namespace coda::network::onnx_import
