// The layout of kernels/coda/params.cuh in numbers. The host's compiler checks it (tests/unit/cuda) and the device's
// (all_headers.cu), so the two agree.
#pragma once
#include <cstddef>
#include "../../kernels/coda/params.cuh"

static_assert(sizeof(coda::TensorMap) == 128 && alignof(coda::TensorMap) == 64);
static_assert(sizeof(coda::ConvGeometry) == 148 && alignof(coda::ConvGeometry) == 4);
static_assert(sizeof(coda::Entry) == 16 && alignof(coda::Entry) == 16);
static_assert(sizeof(coda::NormParams) == 40 && alignof(coda::NormParams) == 8);
static_assert(sizeof(coda::SplitParams) == 16 && alignof(coda::SplitParams) == 8);
static_assert(sizeof(coda::EpochParams) == 24 && alignof(coda::EpochParams) == 8);
static_assert(sizeof(coda::ConvParams) == 832 && alignof(coda::ConvParams) == 64);
static_assert(offsetof(coda::ConvGeometry, rows) == 4);
static_assert(offsetof(coda::ConvGeometry, tiles) == 20);
static_assert(offsetof(coda::ConvGeometry, width) == 28);
static_assert(offsetof(coda::ConvGeometry, channel_blocks) == 44);
static_assert(offsetof(coda::ConvGeometry, splits) == 48);
static_assert(offsetof(coda::ConvGeometry, dilation_w) == 72);
static_assert(offsetof(coda::ConvGeometry, by_splits) == 140);
static_assert(offsetof(coda::Entry, tag) == 12);
static_assert(offsetof(coda::NormParams, slots_per_image) == 16);
static_assert(offsetof(coda::NormParams, group_channels) == 28);
static_assert(offsetof(coda::SplitParams, flags) == 8);
static_assert(offsetof(coda::EpochParams, by_blocks) == 12);
static_assert(offsetof(coda::ConvParams, filter) == 128);
static_assert(offsetof(coda::ConvParams, output) == 256);
static_assert(offsetof(coda::ConvParams, side) == 384);
static_assert(offsetof(coda::ConvParams, geometry) == 512);
static_assert(offsetof(coda::ConvParams, norm) == 664);
static_assert(offsetof(coda::ConvParams, split) == 704);
static_assert(offsetof(coda::ConvParams, launch) == 720);
static_assert(offsetof(coda::ConvParams, side_memory) == 744);
static_assert(offsetof(coda::ConvParams, timeline) == 752);
static_assert(sizeof(coda::FoldParams) == 32 && alignof(coda::FoldParams) == 8);
static_assert(offsetof(coda::FoldParams, counters) == 24);
static_assert(offsetof(coda::ConvParams, folds) == 760);
