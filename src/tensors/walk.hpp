#pragma once
/// Index spaces in as few axes as possible: what kernels walk over.

#include <optional>
#include <span>
#include <vector>

#include "plan/expected.hpp"
#include "tensors/parameters.hpp"
#include "tensors/strided.hpp"

namespace unisono::tensors {

/// An index space, and the strides by which it walks over tensors.
struct Walk {
  Extents extents;
  std::vector<Extents> strides;  ///< by tensor
};

/// What collapse() has to leave as it is.
struct Kept {
  std::optional<std::size_t> order_of = {};  ///< the axes may change places: by falling strides of this tensor
  std::vector<bool> axes = {};               ///< those that are true stay axes of their own; empty: none
};

/// The same walk in fewer axes, of which there is at least one: those of extent 1 are dropped, and neighbours along
/// which all tensors walk alike become one. With `from`, says of each new axis which one it was; of joined axes the
/// innermost.
Walk collapse(const Walk& walk, const Kept& kept = {}, std::vector<std::size_t>* from = nullptr);

/// As kernels count it. Refuses more axes or indices than they have room for.
plan::Expected<IndexSpace> index_space(const Extents& extents);

/// Strides as parameters have them; zero beyond the last.
template <class Strides>
void set_strides(Strides& to, const Extents& strides) {
  for (std::size_t i = 0; i < strides.size(); ++i) to[i] = strides[i];
}

/// Elements that may be moved as one word of at most 16 bytes, a power of two: neighbours along the innermost axis in
/// the tensors `moved`, while the others stand still.
struct WordRule {
  std::vector<std::size_t> moved = {};  ///< tensors of the walk
  Extents starts = {};                  ///< offsets and strides, in elements, that must be whole words too
  std::size_t element_bytes = 1;
  std::size_t alignment = 1;  ///< bytes; of all tensors that are moved
};
std::int64_t elements_of_word(const Walk& walk, const WordRule& rule);

/// The walk by words of so many elements.
void count_in_words(Walk& walk, const WordRule& rule, std::int64_t elements);

}  // namespace unisono::tensors
