#pragma once
/// Numbers in a graph: when two are one and the same, and how the text form spells them.

#include <optional>
#include <string>

namespace unisono::ir {

/// Equality of numbers as parts of a graph: 0 and -0 differ, all NaNs are one.
bool same_number(double x, double y);
bool same_number(const std::optional<double>& x, const std::optional<double>& y);

/// The shortest decimal that reads back as exactly `value`: "2", "0.1", "1e-5", "-inf", "nan".
std::string number_text(double value);

}  // namespace unisono::ir
