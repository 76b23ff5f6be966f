#pragma once
/// Softmax and RMS norm over the channels of a row, written as normalisations: one statistic of a row, exchanged once.

#include <cstdint>
#include <optional>

#include "unisono/graph.hpp"

namespace unisono::passes {

/// What mean(x) and variance(x) of a row stand for: themselves; 0 and mean(x²); or softmax(x) for x - mean(x), which
/// reads neither.
enum class RowStatistic : std::uint8_t { moments, squares, softmax };

/// A graph in which y = (x - mean(x))·… stands for what its statistic says.
struct RowForm {
  Graph graph;
  RowStatistic statistic{};
};

/// squares: x·r, r a function of mean(square(x), over=n): x becomes x - mean(x), of which the mean is 0 to the kernel,
/// and mean(square(x)) the variance of x. softmax: exp(x - max(x)) / sum(exp(x - max(x))) becomes x - mean(x). Nothing:
/// the graph reduces something else over a row's channels, or reads what these forms do not have.
std::optional<RowForm> row_form(const Graph& optimised);

}  // namespace unisono::passes
