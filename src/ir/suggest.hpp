#pragma once
/// Near misses: the word that a misspelt one was meant to be.

#include <span>
#include <string>
#include <string_view>

namespace unisono::ir {

/// Insertions, deletions, substitutions and swaps of neighbours that lead from x to y; `limit` + 1 if it takes more
/// than `limit`.
int edit_distance(std::string_view x, std::string_view y, int limit);

/// The candidate nearest to `word`, if it is near enough to be a misspelling (case aside, a third of the letters, at
/// most 3); else empty. Of equally near ones, the first.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

/// What other systems call one of our operations or dtypes ("swish" → "silu", "float16" → "f16"); else empty.
std::string_view known_as(std::string_view foreign);

/// "; did you mean 'x'?", or nothing if `suggestion` is empty.
std::string did_you_mean(std::string_view suggestion);

}  // namespace unisono::ir
