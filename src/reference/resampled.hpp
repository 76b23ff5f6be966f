#pragma once
/// What is made of an image by pooling or upsampling it by 2: exactly its elements.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "reference/reference.hpp"
#include "unisono/tensor.hpp"

namespace unisono::reference {

/// What a store of this form has of an [m,n] value of these extents.
Values resampled(const Values& image, StoreForm form, const Extents& extents);

/// Shapes of what is made of an image (n, h, w, c).
std::vector<std::int64_t> pooled_shape(const std::vector<std::int64_t>& image);
std::vector<std::int64_t> upsampled_shape(const std::vector<std::int64_t>& image);

/// The dense image of which `upsampled`, dense (n, 2h, 2w, c), repeats each pixel: every second of every second line.
std::vector<std::byte> shrunk(const ConstTensorView& upsampled);

/// The first element of `made` that is not the largest of its 2x2 pixels of the image, or that pixel of it which it
/// repeats; by the shapes it is seen which. All dense, of one dtype.
std::optional<std::int64_t> first_other(const ConstTensorView& image, const ConstTensorView& made);

}  // namespace unisono::reference
