#pragma once
/// The shape of an epilogue as a kernel of kernels/unisono sees it: what is computed before a normalisation, the
/// normalisation, what is computed after it, and what is stored where.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "passes/affine_form.hpp"
#include "unisono/contraction.hpp"
#include "unisono/graph.hpp"

namespace unisono::plan {

/// Reductions with the same domain, and the stores of functions of them.
struct Statistics {
  ReduceDomain domain;
  std::vector<ValueId> folds, moments = {};  ///< the reductions; moments: the variances
  std::vector<std::size_t> stores = {};
  std::vector<ValueId> means = {};  ///< what elements read again: means that go with the moments of this place, or the
                                    ///< variance there once more

  /// Over rows: groups of channels; 1: all together; 0: a result for each channel.
  int groups() const { return domain.cols ? domain.groups : 0; }
  bool runs_over(const ReduceDomain& other) const;
  std::vector<ValueId> reductions() const;  ///< folds, then moments
};

/// What elements are computed from besides accumulators and what stages give, in the order of the values' numbers.
struct ElementReads {
  std::vector<ValueId> columns = {};  ///< values of channels and images: [n], [b], [b,n]
  std::vector<ValueId> tensors = {};  ///< operands [m,n]
  std::vector<ValueId> rows = {};     ///< values [m] (per pixel: any), where results are any
};

/// Values, the statistics that these give, complete at the same time, and what waits for them.
struct Stage {
  ElementReads reads = {};  ///< what its values read: those that are reduced, wait, or are stored ahead of completion.
                            ///< Where elements are computed once more (Results::again), Epilogue::reads has them
  std::vector<Statistics> statistics = {};    ///< over a row's channels; then over groups of these; then over rows
  std::optional<passes::Affine> affine = {};  ///< elements read them by this function of one value alone: a
                                              ///< normalisation
  std::optional<ValueId> waits = {};          ///< the element that waits for them, as they are of one domain that tiles
                                              ///< exchange: all that elements behind them read of the accumulators, a
                                              ///< normalisation's input. Without it elements behind them are computed
                                              ///< once more from these
  bool rows_wait = false;  ///< something reads `rows()`: they are in one tile, or its tiles wait for one another
  bool read = true;        ///< by rows or elements; else they are stored, and this is the last stage

  std::vector<ValueId> reductions() const;  ///< all of them
  /// Those that are read otherwise than by `affine`: over a row's channels, over each group of these, over rows.
  std::vector<ValueId> rows() const;
  std::vector<ValueId> groups() const;
  std::vector<Statistics> over_rows() const;
  /// The place of reductions over `domain`, which is made if there is none.
  Statistics& of(const ReduceDomain& domain);
};

/// What is computed of an element once stages are complete, and from what.
enum class Results : std::uint8_t {
  tiled,  ///< one or two results of 16 bits that TMA stores, from y, operands and values of channels and images
  any,    ///< any number of results, from these and values of rows; reductions that are stored. Behind a normalisation
          ///< over many pixels only kernels whose tiles wait in memory serve it (analyse_second_pass() in
          ///< second_pass.hpp); behind one over the channels of rows, and behind a value that waits for several
          ///< reductions (Stage::waits), tiles may wait in registers, too
  again   ///< the mode `general`: everything once more from the accumulators, stage by stage, with values of rows;
          ///< there is no normalisation
};

struct Output {
  std::size_t store{};  ///< index into Graph::stores
  enum class StorePath : std::uint8_t {
    before,      ///< a value ahead of the normalisation
    after,       ///< a value behind it. General: [m,n] of 16 bits by TMA, at most two
    statistics,  ///< a value per group
    direct,      ///< [m,n] from registers, unless results are tiled
    row,         ///< general: a value per row
    reduced,     ///< from reductions over rows, unless results are tiled
    grouped      ///< general: by groups of a row's channels
  } path{};
};

/// Tensors that stand beside the main store, by the names of the graph's pooled and upsampled stores; an empty name:
/// not made. Their elements are those of the store, as it is rounded. Pixels may lie apart, as the store's may.
struct Resampled {
  std::string pooled = {};      ///< StoreForm::max_pool_2x2
  std::string upsampled = {};   ///< StoreForm::upsample_2x2
  bool only_upsampled = false;  ///< the store itself is not written, and not bound
  std::string source = {};      ///< the store's name; empty: whichever is the main one
  bool any() const { return !pooled.empty() || !upsampled.empty(); }
  bool operator==(const Resampled&) const = default;
};

/// Moments of the main store that are stored beside it.
struct StoredMoments {
  std::string name;           ///< by which Arguments::outputs binds them
  std::int64_t channels = 0;  ///< those of an entry are a divisor of this, and begin at its multiples; 0: none
};

/// What a normalisation's statistics run over, or those that tiles exchange.
struct StatisticsDomain {
  std::int64_t group_channels = 0;  ///< channels of a group; of rows all of them
  bool batch = false;               ///< the rows of all images
  bool of_rows = false;             ///< each row's channels: nothing but y reads them, and x is not kept
};

/// The result of analysing an optimised graph.
struct Epilogue {
  Graph graph;                                ///< after passes::run_pipeline
  std::int64_t channels = 0;                  ///< each row has as many
  std::vector<Stage> stages;                  ///< each reads what those before gave
  Results results = Results::tiled;           ///< behind them
  std::vector<Output> outputs;                ///< [m,n] stores: the main one (written last) first; then the others
  std::vector<ValueId> uniforms;              ///< values without axes, in topological order
  ElementReads reads;                         ///< what elements after all stages read; `rows`: those before them, too
  bool uses_raw = false;                      ///< they read the normalisation's input itself
  Resampled resampled = {};                   ///< what is made of the main store; set by resample() (resampling.hpp)
  std::map<std::string, DType> storage = {};  ///< CompileOptions::storage: of operands whose dtype in memory the graph
                                              ///< does not declare; whoever has them sets it
  StoredMoments moments = {};                 ///< the main store's; set by store_moments() (moment_store.hpp)

  const passes::Affine* norm() const;                  ///< that of the first stage that has one, or none
  std::optional<StatisticsDomain> normalised() const;  ///< its statistics'
  bool normalises_rows() const;                        ///< and those are of rows
  const Stage* exchanging() const;              ///< the stage for which a value waits that is no normalisation, or none
  const ElementReads& ahead_of_stages() const;  ///< the first stage's reads; without a stage none
  std::optional<ValueId> ahead() const;   ///< what sums become ahead of statistics: a normalisation's input, what waits
  std::optional<ValueId> behind() const;  ///< and what elements behind these read of it: its result, what waits
  std::optional<StatisticsDomain> exchanged() const;  ///< whose statistics tiles exchange, unless they are of rows
  std::span<const Stage> levels() const;              ///< the stages that rows and elements read
  std::vector<Statistics> folds() const;      ///< reductions over rows that are stored, of the stage that nothing
                                              ///< reads; Results::any: ahead of the normalisation or behind it
  bool reduces_rows() const;                  ///< for rows or elements, over all of a row's channels
  bool reduces_groups() const;                ///< over groups of a row's channels
  bool returns() const;                       ///< elements read reductions over rows
  bool rows_wait() const;                     ///< in one of the stages
  std::vector<int> levels_of_values() const;  ///< for each value of the graph: stages that are complete before it
  int group_width(const Node& grouped) const { return static_cast<int>(channels / grouped.axes.groups); }
  bool general() const { return results == Results::again; }

  bool side_before() const;  ///< the second [m,n] store is computed ahead of the normalisation
  bool side_after() const;
  /// The main store has 32 bits an element: a second pass writes it from registers.
  bool wide_main() const;
  bool per_image() const;  ///< what a tile computes depends on its image: tiles must not straddle images
};

/// A graph's epilogue in all forms that kernels have for it. A plan is of one of them.
struct Forms {
  std::vector<Epilogue> list;     ///< the first is what the graph needs: analyse(); all families know it
  std::string not_streamed = {};  ///< general, in tiles that wait for one another: why there is no second pass instead
};

/// An operand's dtype in memory: as the graph declares it, else as it is bound (f32 by default).
DType storage_of(const Epilogue& epilogue, ValueId operand);

/// Whether an operand does not lie as the output does: repeated along some coordinates of rows, or strided.
inline bool is_placed(const Node& operand) {
  return operand.op == Op::operand && (operand.attr.rows != RowCoordinates::all || operand.attr.strided);
}

/// Whether a graph has such an operand or a strided store.
bool places(const Graph& graph);

/// The store of which other stores are made: the first that TMA writes.
std::optional<std::size_t> main_store(const Epilogue& epilogue);

}  // namespace unisono::plan
