#pragma once
/// Arrays as the element type that a network takes.

#include <string>
#include <string_view>

#include "media/npy.hpp"

namespace unisono::media {

struct Converted {
  Array array;
  std::string note;  ///< what was done, for people; empty if nothing was
};

/// The array as `dtype`. Numbers keep their value, with one exception: a float is rounded to a shorter one, to nearest
/// even, and the note counts how many were. Throws UserError that names the first element of another kind: an integer
/// that the float type lacks, a number that is no integer of the integer type, a finite number beyond the float type's
/// range, anything but 0 and 1 for bool. `name` is used in messages.
Converted convert(Array array, DType dtype, std::string_view name);

}  // namespace unisono::media
