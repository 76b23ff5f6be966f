#include "network/digits.hpp"

#include <algorithm>
#include <cstring>

namespace unisono::network {

namespace {

constexpr std::size_t most_digits = 8;

template <class T>
std::vector<std::int64_t> numbers(std::span<const std::byte> bytes) {
  std::vector<T> all(bytes.size() / sizeof(T));
  std::memcpy(all.data(), bytes.data(), all.size() * sizeof(T));
  return {all.begin(), all.end()};
}

// How many places from the first one on are as far apart as the first two, of which there are several times as many
std::size_t run_of(const std::vector<std::int64_t>& places) {
  std::size_t run = 2;
  while (run < places.size() && places[run] - places[run - 1] == places[1] - places[0]) ++run;
  while (places.size() % run != 0) --run;
  return run;
}

}  // namespace

bool is_table(const NetworkTensor& indices, std::int64_t extent) {
  if (!indices.is_constant() || indices.dtype != DType::i64) return false;
  return std::ranges::all_of(numbers<std::int64_t>(indices.elements()),
                             [&](std::int64_t place) { return place >= 0 && place < extent; });
}

std::optional<PlaceDigits> digits_of_places(const NetworkTensor& indices, std::int64_t extent) {
  if (!indices.is_constant() || (indices.dtype != DType::i64 && indices.dtype != DType::i32)) return std::nullopt;
  std::vector<std::int64_t> places = indices.dtype == DType::i64 ? numbers<std::int64_t>(indices.elements())
                                                                 : numbers<std::int32_t>(indices.elements());
  for (std::int64_t& place : places) {
    if (place < 0) place += extent;
    if (place < 0 || place >= extent) return std::nullopt;
  }
  PlaceDigits digits;
  while (places.size() > 1) {
    const std::size_t run = run_of(places);
    if (run < 2 || digits.extents.size() == most_digits) return std::nullopt;
    const std::int64_t step = places[1] - places[0];
    std::vector<std::int64_t> firsts;
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (i % run == 0) firsts.push_back(places[i]);
      if (places[i] != firsts.back() + static_cast<std::int64_t>(i % run) * step) return std::nullopt;
    }
    digits.extents.insert(digits.extents.begin(), static_cast<std::int64_t>(run));
    digits.steps.insert(digits.steps.begin(), step);
    places = std::move(firsts);
  }
  if (places.empty()) return std::nullopt;
  digits.begin = places[0];
  return digits;
}

}  // namespace unisono::network
