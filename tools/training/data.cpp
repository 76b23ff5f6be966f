#include "training/data.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "support/float_convert.hpp"
#include "unisono/elements.hpp"
#include "unisono/error.hpp"

namespace unisono::training {

namespace {

// SplitMix64 (G. Steele, D. Lea, C. Flood, OOPSLA 2014): the same numbers with every compiler
class Generator {
 public:
  explicit Generator(std::uint64_t state) : state_(state) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  /// Below `bound`, all equally likely.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t least = (0 - bound) % bound;  // 2^64 mod bound
    for (;;)
      if (const std::uint64_t x = next(); x >= least) return x % bound;
  }

 private:
  std::uint64_t state_;
};

template <class F>
void with_stored_type(DType t, const F& f) {
  switch (t) {
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    case DType::f16: return f(Float16{});
    case DType::u8:
    case DType::boolean: return f(std::uint8_t{});
    case DType::i8: return f(std::int8_t{});
    case DType::u16: return f(std::uint16_t{});
    case DType::i16: return f(std::int16_t{});
    case DType::u32: return f(std::uint32_t{});
    case DType::i32: return f(std::int32_t{});
    case DType::u64: return f(std::uint64_t{});
    case DType::i64: return f(std::int64_t{});
    default: throw InternalError("a NumPy array of an unknown type");
  }
}

template <class To, class From>
void convert(const std::uint8_t* from, std::size_t count, double scale, std::byte* to) {
  for (std::size_t i = 0; i < count; ++i) {
    From x;
    std::memcpy(&x, from + i * sizeof(From), sizeof(From));
    To y;
    if constexpr (std::is_same_v<From, Float16>) {
      y = static_cast<To>(static_cast<double>(static_cast<float>(x)) * scale);
    } else if constexpr (std::is_integral_v<To>) {
      y = static_cast<To>(x);
    } else {
      y = static_cast<To>(static_cast<double>(x) * scale);
    }
    std::memcpy(to + i * sizeof(To), &y, sizeof(To));
  }
}

}  // namespace

Examples::Examples(const std::vector<std::filesystem::path>& shards, const std::map<std::string, DataArray>& inputs,
                   const std::map<std::string, std::vector<std::int64_t>>& shapes,
                   const std::map<std::string, DType>& types) {
  for (const auto& [name, shape] : shapes) {
    const DType type = types.at(name);
    const auto from = inputs.find(name);
    const double scale = from == inputs.end() ? 1 : from->second.scale;
    if (type != DType::f32 && type != DType::i64 && type != DType::i32)
      throw UserError(fmt::format("input '{}' has elements of {}; data can be f32, i64 or i32", name, to_string(type)));
    if (type != DType::f32 && scale != 1)
      throw UserError(fmt::format("input '{}' has elements of {}, which take no scale", name, to_string(type)));
    const std::int64_t elements = std::accumulate(shape.begin() + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
    columns_.push_back({name, type, scale, elements, {}});
  }
  for (const auto& shard : shards) add_shard(shard, inputs, shapes);
}

void Examples::add_shard(const std::filesystem::path& shard, const std::map<std::string, DataArray>& inputs,
                         const std::map<std::string, std::vector<std::int64_t>>& shapes) {
  media::NamedArrays arrays = media::read_npz(shard, {.bytes = std::int64_t{64} << 30});
  std::int64_t count = -1;
  for (Column& column : columns_) {
    const auto given = inputs.find(column.input);
    const std::string name = given == inputs.end() ? column.input : given->second.array;
    const auto found = std::find_if(arrays.begin(), arrays.end(), [&](const auto& a) { return a.first == name; });
    if (found == arrays.end())
      throw UserError(fmt::format("{}: has no array '{}' for input '{}'; data.inputs names another", shard.string(),
                                  name, column.input));
    media::Array& array = found->second;
    const auto& wanted = shapes.at(column.input);
    if (array.shape.empty() || array.shape.size() != wanted.size() ||
        !std::equal(wanted.begin() + 1, wanted.end(), array.shape.begin() + 1))
      throw UserError(fmt::format("{}: array '{}' has shape {}; input '{}' takes (examples, {})", shard.string(), name,
                                  media::shape_text(array.shape), column.input,
                                  fmt::join(wanted.begin() + 1, wanted.end(), ", ")));
    const bool is_whole = array.type != DType::f32 && array.type != DType::f64 && array.type != DType::f16;
    if (column.type != DType::f32 && !is_whole)
      throw UserError(fmt::format("{}: array '{}' has elements of {}; input '{}' takes integers", shard.string(), name,
                                  media::numpy_name(array.type), column.input));
    if (count >= 0 && array.shape[0] != count)
      throw UserError(
          fmt::format("{}: array '{}' has {} examples, another one {}", shard.string(), name, array.shape[0], count));
    count = array.shape[0];
    column.parts.push_back(array);  // a copy: two inputs may read one array
  }
  count_ += count;
  first_.push_back(count_);
}

void Examples::gather(const std::vector<std::int64_t>& which,
                      std::map<std::string, std::vector<std::byte>>& batch) const {
  for (const Column& c : columns_) {
    std::vector<std::byte>& to = batch[c.input];
    const auto elements = static_cast<std::size_t>(c.elements);
    const std::size_t bytes = elements * size_of(c.type);
    to.resize(which.size() * bytes);
    for (std::size_t i = 0; i < which.size(); ++i) {
      const auto shard =
          static_cast<std::size_t>(std::upper_bound(first_.begin(), first_.end(), which[i]) - first_.begin() - 1);
      const media::Array& part = c.parts[shard];
      const auto at = static_cast<std::size_t>(which[i] - first_[shard]) * elements * size_of(part.type);
      with_stored_type(part.type, [&]<class From>(From) {
        const std::uint8_t* from = part.bytes.data() + at;
        std::byte* target = to.data() + i * bytes;
        if (c.type == DType::f32) return convert<float, From>(from, elements, c.scale, target);
        if constexpr (std::is_integral_v<From>) {
          if (c.type == DType::i64) return convert<std::int64_t, From>(from, elements, 1, target);
          convert<std::int32_t, From>(from, elements, 1, target);
        }
      });
    }
  }
}

std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  Generator random(Generator(seed).next() ^ (static_cast<std::uint64_t>(epoch) * 0xd1342543de82ef95ULL));
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[random.below(static_cast<std::uint64_t>(i))]);
  return order;
}

}  // namespace unisono::training
