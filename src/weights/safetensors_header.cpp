#include "weights/safetensors_header.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "unisono/error.hpp"

namespace unisono::weights {
namespace {

using nlohmann::json;

constexpr std::string_view metadata_key = "__metadata__";
constexpr std::size_t most_axes = 32;

struct TypeRow {
  std::string_view name;
  DType dtype;
};
constexpr std::array<TypeRow, 15> safetensors_types{{
    {"F64", DType::f64},
    {"F32", DType::f32},
    {"F16", DType::f16},
    {"BF16", DType::bf16},
    {"F8_E4M3", DType::f8e4m3},
    {"F8_E5M2", DType::f8e5m2},
    {"I64", DType::i64},
    {"I32", DType::i32},
    {"I16", DType::i16},
    {"I8", DType::i8},
    {"U64", DType::u64},
    {"U32", DType::u32},
    {"U16", DType::u16},
    {"U8", DType::u8},
    {"BOOL", DType::boolean},
}};

/// A name for messages: short, and without what a terminal might obey.
std::string shown(std::string_view name) {
  constexpr std::size_t most = 120;
  std::string text = "'";
  for (const char c : name.substr(0, most)) text += static_cast<unsigned char>(c) < ' ' || c == 0x7f ? '?' : c;
  return text + (name.size() > most ? "…'" : "'");
}

/// Reads the header as events, so that a hostile one builds no tree. Places in it: the object of all tensors, a
/// tensor's fields, the numbers of shape or offsets, the metadata.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  HeaderReader(const std::string& file, const SafetensorsLimits& limits) : file_(file), limits_(limits) {}

  SafetensorsHeader header;

  bool start_object(std::size_t) override {
    if (state_ == State::start) return go(State::tensors);
    if (state_ == State::tensors && name_ == metadata_key) return go(State::metadata);
    if (state_ != State::tensors) unexpected("an object");
    entry_ = {name_, {}, {}, 0, 0};
    dtype_.reset();
    shape_seen_ = false;
    offsets_.clear();
    offsets_seen_ = false;
    field_.clear();
    return go(State::fields);
  }
  bool key(std::string& key) override {
    if (state_ == State::tensors) return tensor_key(key);
    if (state_ == State::metadata && header.metadata.contains(key))
      fail(fmt::format("metadata {} is given twice", shown(key)));
    const bool twice =
        (key == "dtype" && dtype_) || (key == "shape" && shape_seen_) || (key == "data_offsets" && offsets_seen_);
    if (state_ == State::fields && twice) fail_at(fmt::format("has '{}' twice", key));
    if (state_ == State::fields && key != "dtype" && key != "shape" && key != "data_offsets")
      fail_at(fmt::format("has a field {}; expected dtype, shape and data_offsets", shown(key)));
    field_ = key;
    return true;
  }
  bool end_object() override {
    if (state_ == State::tensors) return go(State::end);
    if (state_ == State::fields) finish_tensor();
    return go(State::tensors);
  }
  bool start_array(std::size_t) override {
    if (state_ != State::fields || field_ == "dtype") unexpected("a list");
    (field_ == "shape" ? shape_seen_ : offsets_seen_) = true;
    return go(State::numbers);
  }
  bool end_array() override { return go(State::fields); }
  bool number_unsigned(number_unsigned_t x) override {
    if (state_ != State::numbers) unexpected("a number");
    if (x > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      fail_at(fmt::format("has the number {} in its {}; expected less than 2^63", x, field_));
    if (field_ == "shape") {
      if (entry_.shape.size() == most_axes) fail_at(fmt::format("has more than {} axes", most_axes));
      entry_.shape.push_back(static_cast<std::int64_t>(x));
    } else {
      if (offsets_.size() == 2) fail_at("has more than two data_offsets");
      offsets_.push_back(x);
    }
    return true;
  }
  bool string(std::string& text) override {
    if (state_ == State::metadata) {
      header.metadata[field_] = text;
      return true;
    }
    if (state_ != State::fields || field_ != "dtype") unexpected("a text");
    const auto row = std::find_if(safetensors_types.begin(), safetensors_types.end(),
                                  [&](const TypeRow& r) { return r.name == text; });
    if (row == safetensors_types.end()) {
      std::vector<std::string_view> names;
      for (const TypeRow& r : safetensors_types) names.push_back(r.name);
      fail_at(fmt::format("has the dtype {}; expected one of {}", shown(text), fmt::join(names, ", ")));
    }
    dtype_ = row->dtype;
    return true;
  }
  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("true or false"); }
  bool number_integer(number_integer_t x) override { unexpected(fmt::format("the number {}", x)); }
  bool number_float(number_float_t, const string_t& text) override { unexpected("the number " + text.substr(0, 40)); }
  bool binary(binary_t&) override { unexpected("binary data"); }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception&) override {
    fail(fmt::format("the header is not valid JSON at its byte {}", at));
  }

 private:
  enum class State : std::uint8_t { start, tensors, fields, numbers, metadata, end };

  bool go(State state) {
    state_ = state;
    return true;
  }
  [[noreturn]] void fail(const std::string& what) const { throw UserError(fmt::format("'{}': {}", file_, what)); }
  [[noreturn]] void fail_at(const std::string& what) const { fail(fmt::format("tensor {} {}", shown(name_), what)); }
  [[noreturn]] void unexpected(const std::string& what) const {
    switch (state_) {
      case State::start: fail(fmt::format("the header is {}; expected an object that names tensors", what));
      case State::metadata: fail(fmt::format("metadata {} is {}; expected a text", shown(field_), what));
      case State::tensors: fail_at(fmt::format("is {}; expected an object with dtype, shape and data_offsets", what));
      default:
        fail_at(fmt::format("has {} in its {}; expected {}", what, shown(field_),
                            field_ == "dtype" ? "a text such as \"F32\"" : "a list of numbers from 0 on"));
    }
  }
  bool tensor_key(const std::string& key) {
    name_ = key;
    if (!names_.insert(key).second) fail_at("is given twice");
    if (names_.size() > limits_.tensors) fail(fmt::format("more than {} tensors, the limit", limits_.tensors));
    return true;
  }
  void finish_tensor() {
    if (!dtype_ || !shape_seen_ || offsets_.size() != 2)
      fail_at("is not complete; expected dtype, shape and two data_offsets");
    entry_.dtype = *dtype_;
    entry_.begin = offsets_[0];
    entry_.end = offsets_[1];
    header.entries.push_back(std::move(entry_));
  }

  const std::string& file_;
  const SafetensorsLimits& limits_;
  State state_ = State::start;
  std::string name_, field_;
  std::set<std::string> names_;
  SafetensorsEntry entry_;  // while its fields are read
  std::optional<DType> dtype_;
  bool shape_seen_ = false, offsets_seen_ = false;
  std::vector<std::uint64_t> offsets_;
};

void check_size(const SafetensorsEntry& e, std::uint64_t data_bytes, const std::string& file) {
  std::uint64_t bytes = size_of(e.dtype);
  bool overflow = false;
  const bool empty = std::find(e.shape.begin(), e.shape.end(), 0) != e.shape.end();
  for (const std::int64_t extent : e.shape)
    overflow = overflow || (!empty && __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes));
  if (empty) bytes = 0;
  const std::string what = fmt::format("'{}': tensor {}", file, shown(e.name));
  if (e.end > data_bytes || e.begin > e.end)
    throw UserError(fmt::format("{} has the data_offsets [{}, {}]; the file has {} bytes of data", what, e.begin, e.end,
                                data_bytes));
  if (overflow || e.end - e.begin != bytes)
    throw UserError(fmt::format("{} has {} bytes at [{}, {}]; shape ({}) of {} takes {}", what, e.end - e.begin,
                                e.begin, e.end, fmt::join(e.shape, ","), to_string(e.dtype),
                                overflow ? "more than 2^64" : std::to_string(bytes)));
}

/// In order, every byte belongs to one tensor.
void check_cover(const std::vector<SafetensorsEntry>& entries, std::uint64_t data_bytes, const std::string& file) {
  std::uint64_t at = 0;
  for (const SafetensorsEntry& e : entries) {
    if (e.begin != at)
      throw UserError(fmt::format("'{}': tensor {} begins at byte {} of the data; expected {}: the tensors {}", file,
                                  shown(e.name), e.begin, at, e.begin < at ? "overlap" : "leave a hole"));
    at = e.end;
  }
  if (at != data_bytes)
    throw UserError(fmt::format("'{}': its tensors take {} bytes of data; the file has {}", file, at, data_bytes));
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_bytes, const std::string& file,
                                           const SafetensorsLimits& limits) {
  if (!text.starts_with('{'))
    throw UserError(fmt::format("'{}' is not a safetensors file: its header does not begin with '{{'", file));
  HeaderReader reader(file, limits);
  json::sax_parse(text.begin(), text.end(), &reader);
  auto& entries = reader.header.entries;
  for (const SafetensorsEntry& e : entries) check_size(e, data_bytes, file);
  std::sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_cover(entries, data_bytes, file);
  return std::move(reader.header);
}

std::string_view safetensors_name(DType dtype) {
  for (const TypeRow& row : safetensors_types)
    if (row.dtype == dtype) return row.name;
  throw UserError(fmt::format("safetensors files have no elements of {}", to_string(dtype)));
}

}  // namespace unisono::weights
