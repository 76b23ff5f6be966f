#include "families/interface/override.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/suggest.hpp"
#include "unisono/error.hpp"

namespace unisono::plan {
namespace {

using Values = std::vector<std::string_view>;

struct Key {
  std::string_view name, form;
  Values known;  ///< values that are words
  int most = 0;  ///< of its numbers: no kernel has more, and products of them fit 32 bits by far
};

const std::array<Key, 16>& keys() {
  static const std::array<Key, 16> list{{
      {"family", "the name of a family of kernels", {}},
      {"tile", "ROWSxCHANNELS, such as 128x160", {}, 8192},
      {"depth", "128, 64 or 32", {"128", "64", "32"}},
      {"order", "cooperative, pingpong or pingpong2", {"cooperative", "pingpong", "pingpong2"}},
      {"load",
       "halo, im2col, gather, im2col_smem or depthwise",
       {"halo", "im2col", "gather", "im2col_smem", "depthwise"}},
      {"stages",
       "a number, or of filters + of halo tiles or activations (im2col_smem: of rows of k + of windows), such as 5+3",
       {},
       4096},
      {"buffers", "a number of store buffers", {}, 1024},
      {"cluster", "ROWSxCHANNELS in CTAs, such as 1x2", {}, 16},
      {"split", "on or off", {"on", "off"}},
      {"swap", "on or off", {"on", "off"}},
      {"stationary", "on or off", {"on", "off"}},
      {"mode", "none, resident, streamed, rows or general", {"none", "resident", "streamed", "rows", "general"}},
      {"unit", "a number of channels", {}, 1024},
      {"group", "a number of rows of tiles", {}, 1 << 16},
      {"fetch", "0 to 3 operands", {"0", "1", "2", "3"}},
      {"thread", "ROWSxPIXELSxCHANNELS of a depthwise convolution, such as 8x4x4", {}, 1024},
  }};
  return list;
}

Values key_names() {
  Values names;
  for (const Key& key : keys()) names.push_back(key.name);
  return names;
}

std::string near_miss(std::string_view word, const Values& known) { return ir::did_you_mean(ir::nearest(word, known)); }

/// Words that plans had before: of rows that are stored, and of whoever has written one down
struct FormerWord {
  std::string_view key, before, now;
};
constexpr FormerWord former_words[] = {{"load", "patch", "halo"},
                                       {"load", "runs", "im2col"},
                                       {"load", "unfold", "im2col_smem"},
                                       {"order", "pairs", "pingpong2"}};

std::string_view as_now(std::string_view key, std::string_view value) {
  for (const FormerWord& w : former_words)
    if (w.key == key && w.before == value) return w.now;
  return value;
}

const Key& find_key(std::string_view name) {
  const auto& list = keys();
  const auto* found = std::ranges::find(list, name, &Key::name);
  if (found == list.end())
    throw UserError(fmt::format("plan override: unknown field '{}'; known are {}{}", name, fmt::join(key_names(), ", "),
                                near_miss(name, key_names())));
  return *found;
}

[[noreturn]] void bad_value(const Key& key, std::string_view value) {
  throw UserError(fmt::format("plan override: {}={}: expected {}{}{}", key.name, value, key.form,
                              key.most == 0 ? "" : fmt::format("; numbers of 1 to {}", key.most),
                              near_miss(value, key.known)));
}

int number(const Key& key, std::string_view value, std::string_view whole) {
  int x = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), x);
  if (error != std::errc() || end != value.data() + value.size() || x < 1 || (key.most != 0 && x > key.most))
    bad_value(key, whole);
  return x;
}

/// "128x160" with separator x, "5+3" with +.
std::pair<int, int> two_numbers(const Key& key, std::string_view value, char separator) {
  const std::size_t at = value.find(separator);
  if (at == std::string_view::npos) bad_value(key, value);
  return {number(key, value.substr(0, at), value), number(key, value.substr(at + 1), value)};
}

std::array<int, 3> three_numbers(const Key& key, std::string_view value) {
  const std::size_t at = value.find('x');
  const std::size_t next = at == std::string_view::npos ? at : value.find('x', at + 1);
  if (next == std::string_view::npos) bad_value(key, value);
  return {number(key, value.substr(0, at), value), number(key, value.substr(at + 1, next - at - 1), value),
          number(key, value.substr(next + 1), value)};
}

void set(FixedFields& f, const Key& key, std::string_view value) {
  if (!key.known.empty() && std::ranges::find(key.known, value) == key.known.end()) bad_value(key, value);
  if (key.name == "family") {
    f.family = value;
  } else if (key.name == "tile") {
    std::tie(f.tile_m, f.tile_n) = two_numbers(key, value, 'x');
  } else if (key.name == "cluster") {
    std::tie(f.cluster_m, f.cluster_n) = two_numbers(key, value, 'x');
  } else if (key.name == "thread") {
    f.thread = three_numbers(key, value);
  } else if (key.name == "stages" && value.find('+') != std::string_view::npos) {
    std::tie(f.stages, f.stages_a) = two_numbers(key, value, '+');
  } else if (key.name == "stages") {
    f.stages = number(key, value, value);
  } else if (key.name == "depth") {
    f.tile_k = number(key, value, value);
  } else if (key.name == "buffers") {
    f.store_buffers = number(key, value, value);
  } else if (key.name == "unit") {
    f.unit = number(key, value, value);
  } else if (key.name == "group") {
    f.group = number(key, value, value);
  } else if (key.name == "fetch") {
    f.fetch = value[0] - '0';
  } else if (key.name == "order") {
    f.order = static_cast<Order>(std::ranges::find(key.known, value) - key.known.begin());
  } else if (key.name == "load") {
    f.load = static_cast<Load>(std::ranges::find(key.known, value) - key.known.begin());
  } else if (key.name == "split") {
    f.split = value == "on";
  } else if (key.name == "swap") {
    f.swap = value == "on";
  } else if (key.name == "stationary") {
    f.stationary = value == "on";
  } else {
    f.mode = static_cast<NormMode>(std::ranges::find(key.known, value) - key.known.begin());
  }
}

}  // namespace

FixedFields resolve(const Override& fixed) {
  FixedFields f;
  for (const auto& [name, value] : fixed.fields) set(f, find_key(name), as_now(name, value));
  if (f.stages_a && f.load && f.load != Load::halo && f.load != Load::im2col_smem &&
      !(f.load == Load::im2col && f.stationary == true))
    throw UserError(
        fmt::format("plan override: stages={}+{} load={}: the second number counts stages of halo tiles, or of im2col "
                    "tiles beside stationary filters (stationary=on); {} one ring, so give one number",
                    *f.stages, *f.stages_a, find_key("load").known[static_cast<std::size_t>(*f.load)],
                    f.load == Load::im2col   ? "im2col tiles have"
                    : f.load == Load::gather ? "gathered images have"
                                             : "depthwise convolutions have not even"));
  if (f.stages_a && !f.load && f.stationary != true) f.load = Load::halo;
  return f;
}

Override Override::parse(const std::string& text) {
  Override result;
  const char* blank = " \t\n,";
  for (std::size_t begin = text.find_first_not_of(blank); begin != std::string::npos;) {
    const std::size_t end = std::min(text.find_first_of(blank, begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos)
      throw UserError(fmt::format("plan override: '{}': expected FIELD=VALUE; fields are {}{}", word,
                                  fmt::join(key_names(), ", "), near_miss(word, key_names())));
    const std::string name = word.substr(0, equals);
    const std::string_view value = as_now(name, std::string_view(word).substr(equals + 1));
    FixedFields checked;
    set(checked, find_key(name), value);
    if (!result.fields.emplace(name, value).second)
      throw UserError(fmt::format("plan override: '{}' stands twice", name));
    begin = text.find_first_not_of(blank, end);
  }
  return result;
}

std::string to_string(const Override& fixed) {
  std::string text;
  for (const Key& key : keys())
    if (const auto found = fixed.fields.find(std::string(key.name)); found != fixed.fields.end())
      text += fmt::format("{}{}={}", text.empty() ? "" : " ", found->first, found->second);
  return text;
}

std::string_view to_string(Order order) { return find_key("order").known[static_cast<std::size_t>(order)]; }

std::string_view to_string(NormMode mode) { return find_key("mode").known[static_cast<std::size_t>(mode)]; }

}  // namespace unisono::plan
