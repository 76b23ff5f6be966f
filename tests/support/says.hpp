// What tests pin of a message: its names and numbers, and what to do, in order. Its wording is free.
#pragma once
#include <gmock/gmock.h>

#include <string_view>

namespace unisono {

/// Where `part` begins in `text`, not within a longer number: "2" is not in "20", "12" or "2.5".
inline std::size_t place_of(std::string_view part, std::string_view text) {
  const auto digit = [&](std::size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  const auto goes_on = [&](std::size_t i) { return digit(i) || (i < text.size() && text[i] == '.' && digit(i + 1)); };
  std::size_t at = text.find(part);
  const auto within_number = [&] {
    if (part.empty()) return false;
    const std::size_t last = at + part.size() - 1;
    const bool begun = at > 0 && digit(at) && (digit(at - 1) || (at > 1 && text[at - 1] == '.' && digit(at - 2)));
    return begun || (digit(last) && goes_on(last + 1));
  };
  while (at != text.npos && within_number()) at = text.find(part, at + 1);
  return at;
}

/// Whether `text` has every part of `pinned`, in order. Parts are separated by "…", which stands for any text.
inline bool says(std::string_view text, std::string_view pinned) {
  constexpr std::string_view any = "…", blank = " ";
  for (;;) {
    const std::size_t end = pinned.find(any);
    std::string_view part = pinned.substr(0, end);
    if (end != pinned.npos && part.ends_with(blank)) part.remove_suffix(1);
    const std::size_t at = place_of(part, text);
    if (at == text.npos) return false;
    if (end == pinned.npos) return true;
    text.remove_prefix(at + part.size());
    pinned.remove_prefix(end + any.size());
    if (pinned.starts_with(blank)) pinned.remove_prefix(1);
  }
}

MATCHER_P(Says, pinned, "has every part of " + ::testing::PrintToString(pinned)) { return says(arg, pinned); }

}  // namespace unisono
