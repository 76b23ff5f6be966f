// The list of a visitor's reductions over rows whose results are stored (epilogue/fold_columns.cuh).
#pragma once
#include "unisono/epilogue/folds.cuh"

namespace unisono {

template <class Visitor>
struct StoredFolds : Visitor {
  static constexpr bool kReturned = false;
  // Where the workspace has this list's partial results, results and counters: the first of all. Of the latter the
  // first is of all, the next are of columns and rows; and which of the lists' counters of segments are its own.
  template <class Columns>
  static UNISONO_DEVICE size_t partials_before(const Columns&) {
    return 0;
  }
  template <class Columns>
  static UNISONO_DEVICE size_t results_before(const Columns&) {
    return 0;
  }
  template <class Columns>
  static UNISONO_DEVICE int counters_before(const Columns&) {
    return 0;
  }
  static UNISONO_DEVICE constexpr int number() { return 0; }
  // A result: stored functions of it.
  template <int d, class Columns>
  static UNISONO_DEVICE void deliver(const Columns& columns, int image, int group, float rows, float width,
                                     const float* folded, const Moments* moments) {
    Visitor::template finish<d>(columns.tail.visitor, columns.tail.uniform, image, group, rows, width, folded, moments);
  }
  // All of a column's shares are there, and domains wait for other columns: the last of all finishes them.
  template <class Columns>
  static UNISONO_DEVICE void finish_rest(const Columns& columns, int) {
    if (columns.comes_last(columns.counters(), columns.images() * columns.across())) columns.finish_all();
  }
  static UNISONO_DEVICE constexpr bool waits_for_all(const FoldDomain& d) { return d.groups != 0; }
};

}  // namespace unisono
