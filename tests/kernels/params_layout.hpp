// The layout of kernels/unisono/params/params.cuh in numbers. The host's compiler checks it (tests/unit/cuda) and the
// device's (all_headers.cu), so the two agree.
#pragma once
#include <cstddef>
#include "../../kernels/unisono/params/params.cuh"
#include "../../kernels/unisono/params/plain_conv_params.cuh"
#include "../../kernels/unisono/params/tensor_params.cuh"

static_assert(sizeof(unisono::TensorMap) == 128 && alignof(unisono::TensorMap) == 64);
static_assert(sizeof(unisono::ConvGeometry) == 176 && alignof(unisono::ConvGeometry) == 4);
static_assert(sizeof(unisono::Entry) == 16 && alignof(unisono::Entry) == 16);
static_assert(sizeof(unisono::ExchangeParams) == 48 && alignof(unisono::ExchangeParams) == 8);
static_assert(sizeof(unisono::SplitParams) == 16 && alignof(unisono::SplitParams) == 8);
static_assert(sizeof(unisono::EpochParams) == 24 && alignof(unisono::EpochParams) == 8);
static_assert(sizeof(unisono::MapOr<unisono::GatheredImage>) == 128);
static_assert(sizeof(unisono::ConvParams) == 832 && alignof(unisono::ConvParams) == 64);
static_assert(offsetof(unisono::ConvGeometry, rows) == 4);
static_assert(offsetof(unisono::ConvGeometry, tiles) == 20);
static_assert(offsetof(unisono::ConvGeometry, width) == 28);
static_assert(offsetof(unisono::ConvGeometry, channel_blocks) == 44);
static_assert(offsetof(unisono::ConvGeometry, splits) == 48);
static_assert(offsetof(unisono::ConvGeometry, dilation_w) == 72);
static_assert(offsetof(unisono::ConvGeometry, by_splits) == 140);
static_assert(offsetof(unisono::ConvGeometry, plane_height) == 148);
static_assert(offsetof(unisono::ConvGeometry, by_plane_height) == 168);
static_assert(offsetof(unisono::Entry, tag) == 12);
static_assert(offsetof(unisono::ExchangeParams, slots_per_image) == 16);
static_assert(offsetof(unisono::ExchangeParams, group_channels) == 28);
static_assert(offsetof(unisono::SplitParams, flags) == 8);
static_assert(offsetof(unisono::EpochParams, by_ctas) == 12);
static_assert(offsetof(unisono::ConvParams, filter) == 128);
static_assert(offsetof(unisono::ConvParams, output) == 256);
static_assert(offsetof(unisono::ConvParams, side) == 384);
static_assert(offsetof(unisono::ConvParams, geometry) == 512);
static_assert(offsetof(unisono::ConvParams, norm) == 688);
static_assert(offsetof(unisono::ConvParams, split) == 736);
static_assert(offsetof(unisono::ConvParams, launch) == 752);
static_assert(offsetof(unisono::ConvParams, side_memory) == 776);
static_assert(offsetof(unisono::ConvParams, timeline) == 784);
static_assert(sizeof(unisono::FoldParams) == 32 && alignof(unisono::FoldParams) == 8);
static_assert(offsetof(unisono::FoldParams, counters) == 24);
static_assert(offsetof(unisono::ConvParams, folds) == 792);
static_assert(sizeof(unisono::DepthwiseImage) == 104 && alignof(unisono::DepthwiseImage) == 8);
static_assert(sizeof(unisono::DepthwiseParams) == 448 && alignof(unisono::DepthwiseParams) == 64);
static_assert(offsetof(unisono::DepthwiseParams, filter) == 128);
static_assert(offsetof(unisono::DepthwiseParams, output) == 192);
static_assert(offsetof(unisono::DepthwiseParams, side_memory) == 256);
static_assert(offsetof(unisono::DepthwiseParams, geometry) == 264);
static_assert(sizeof(unisono::PlainConvGeometry) == 240 && alignof(unisono::PlainConvGeometry) == 8);
static_assert(offsetof(unisono::PlainConvGeometry, image_n) == 88);
static_assert(offsetof(unisono::PlainConvGeometry, by_tiles_across) == 160);
static_assert(sizeof(unisono::PlainNormParams) == 56 && alignof(unisono::PlainNormParams) == 8);
static_assert(sizeof(unisono::PlainConvParams) == 344 && alignof(unisono::PlainConvParams) == 8);
static_assert(offsetof(unisono::PlainConvParams, geometry) == 40);
static_assert(offsetof(unisono::PlainConvParams, norm) == 280);
static_assert(offsetof(unisono::PlainConvParams, filter1) == 336);
static_assert(sizeof(unisono::IndexSpace) == 104 && alignof(unisono::IndexSpace) == 4);
static_assert(sizeof(unisono::TensorStatus) == 24 && alignof(unisono::TensorStatus) == 8);
static_assert(sizeof(unisono::MapHead) == 128 && alignof(unisono::MapHead) == 8);
static_assert(sizeof(unisono::MapTensor) == 80);
static_assert(sizeof(unisono::MapParams<3>) == 128 + 3 * 80 && offsetof(unisono::MapParams<3>, tensors) == 128);
static_assert(sizeof(unisono::MoveParams) == 320 && offsetof(unisono::MoveParams, fill) == 312);
static_assert(sizeof(unisono::GatherParams) == 544 && offsetof(unisono::GatherParams, faults) == 528);
static_assert(sizeof(unisono::ScatterParams) == 688 && offsetof(unisono::ScatterParams, faults) == 672);
static_assert(sizeof(unisono::ScatterLinesParams) == 784 && offsetof(unisono::ScatterLinesParams, owners) == 776);
static_assert(sizeof(unisono::ReduceParams) == 440 && offsetof(unisono::ReduceParams, partials) == 424);
static_assert(sizeof(unisono::ScanParams) == 280 && offsetof(unisono::ScanParams, length) == 264);
static_assert(sizeof(unisono::TopParams) == 280 && offsetof(unisono::TopParams, kept) == 268);
static_assert(sizeof(unisono::RecurrenceParams) == 720 && offsetof(unisono::RecurrenceParams, functions) == 536 &&
              offsetof(unisono::RecurrenceParams, last) == 708);
static_assert(sizeof(unisono::ProductParams) == 344 && offsetof(unisono::ProductParams, depth) == 336);
static_assert(sizeof(unisono::WindowParams) == 712 && offsetof(unisono::WindowParams, count_pad) == 704);
static_assert(sizeof(unisono::ResampleParams) == 512 && offsetof(unisono::ResampleParams, outside) == 504);
static_assert(sizeof(unisono::GridParams) == 392 && offsetof(unisono::GridParams, extents) == 352);
static_assert(sizeof(unisono::VolumeParams) == 448 && offsetof(unisono::VolumeParams, axis) == 304 &&
              offsetof(unisono::VolumeParams, lane_bits) == 440);
