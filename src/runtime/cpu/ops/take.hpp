#pragma once
/// Movement by tables of places.

#include "runtime/cpu/ops/tensor.hpp"

namespace unisono::cpu {

/// to[i0,i1,…] = x[tables[0][i0],tables[1][i1],…]; one table an axis, of places inside x.
void take(const std::vector<std::vector<std::int64_t>>& tables, const Strided& x, const Strided& to,
          const Parallel& parallel);

/// to = the slices of x along `axis` that the dense row-major indices (i32 or i64) name: to has x's axes with those of
/// the indices in place of `axis`. Throws UserError for an index that is not in [-extent, extent).
void gather(int axis, const Strided& x, const Strided& indices, const Strided& to, const Parallel& parallel);

}  // namespace unisono::cpu
