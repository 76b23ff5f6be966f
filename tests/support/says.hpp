// What tests pin of a message: its names and numbers, and what to do, in order. Its wording is free.
#pragma once
#include <gmock/gmock.h>

#include <string_view>

namespace unisono {

/// Whether `text` has every part of `pinned`, in order. Parts are separated by "…", which stands for any text.
inline bool says(std::string_view text, std::string_view pinned) {
  constexpr std::string_view any = "…", blank = " ";
  for (;;) {
    const std::size_t end = pinned.find(any);
    std::string_view part = pinned.substr(0, end);
    if (end != pinned.npos && part.ends_with(blank)) part.remove_suffix(1);
    const std::size_t at = text.find(part);
    if (at == text.npos) return false;
    if (end == pinned.npos) return true;
    text.remove_prefix(at + part.size());
    pinned.remove_prefix(end + any.size());
    if (pinned.starts_with(blank)) pinned.remove_prefix(1);
  }
}

MATCHER_P(Says, pinned, "has every part of " + ::testing::PrintToString(pinned)) { return says(arg, pinned); }

}  // namespace unisono
