#pragma once
/// Epilogues for images of any size: what a second pass over the tiles of an image serves; and rows with such results.

#include "passes/epilogue_graphs.hpp"
#include "plan/epilogue.hpp"
#include "plan/expected.hpp"
#include "unisono/contraction.hpp"

namespace unisono::plan {

/// One normalisation over the pixels of an image or of
/// all images, and behind it whatever knows an element, its channel, its image and its row: any number of stores [m,n]
/// of bf16, f16 and f32, values of rows, coordinates, operands [m,n], functions called with elements for their effect.
/// Ahead of it elements and at most one store of 16 bits. Reductions over rows of elements of either side are stored,
/// for each channel, group or all, each image or all. The result's main store, whose memory unfinished tiles wait in,
/// is the last of f32, else the last. Refuses what else there is, with the value at fault.
Expected<Epilogue> analyse_second_pass(const passes::EpilogueGraphs& graphs, const Extents& extents);

/// The same of one normalisation over the channels of each row, without effects and
/// stored reductions: the elements wait in registers for one exchange, so there is no second pass, but what it has
/// behind it. Values of rows are read ahead of it, too.
Expected<Epilogue> analyse_row_results(const passes::EpilogueGraphs& graphs, const Extents& extents);

/// The same of reductions over rows in place of a normalisation: of any number of elements, all over the same rows and
/// groups of channels, as a normalisation's backward pass has two (Stage::waits). Behind them whatever is computed from
/// one element that is known ahead of them, from operands, columns and values of rows. Tiles wait in registers or in
/// memory.
Expected<Epilogue> analyse_exchanged(const passes::EpilogueGraphs& graphs, const Extents& extents);

}  // namespace unisono::plan
