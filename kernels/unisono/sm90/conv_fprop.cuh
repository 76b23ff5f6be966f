// Conv2d forward as an implicit matrix product for sm_90a: persistent, warp-specialised, NHWC times KRSC.
//
// One producer warp fills rings of shared-memory stages by TMA (load/sm90_producer.cuh); consumer warpgroups multiply
// (sm90/main_loop.cuh) and then run the epilogue (sm90/consumer.cuh). One or two of them share a tile's rows
// (kTileWarpgroups), and such consumer groups work alone or take turns at the tensor cores (kConsumerGroups), so that
// one's epilogue runs during the other's main loop:
//   kTileWarpgroups, kConsumerGroups = 2, 1   cooperative
//   1, 2                                      ping-pong
//   2, 2                                      ping-pong with twice the warps an epilogue, for tiles of up to
//                                             128 x 128, whose epilogues, of one warp a scheduler, would otherwise
//                                             outlast a short main loop
//
// Two ways to load the activations of a tile:
//   im2col tiles  of consecutive output pixels by TMA's im2col mode, once for every filter tap: any stride, padding,
//                 dilation; of products by boxes of rows; of volumes by im2col loads of five dimensions
//   halo tiles    8 pixels wide, with a halo, once for all filter taps: each reads the same stage from another pixel, a
//                 seventh of the traffic for a 3x3 filter. Stride 1. What comes from L2 a clock, and what shared memory
//                 takes on top of the matrix instructions' reads, bounds these kernels, so halo tiles win wherever they
//                 cover the image well.
//
// Where a CTA's tiles all have the same channels and their filters fit, these stay in shared memory for the whole
// launch (kStationary): the TMA then brings activations alone, and what it writes no longer competes with the matrix
// instructions' reads.
//
// Where to look: tiles and their order in tile/tile_scheduler.cuh, the producer in load/, the main loop and the warps'
// roles in sm90/, the epilogue in epilogue/, the statistics that CTAs exchange in exchange/.
#pragma once
#include "unisono/epilogue/fold_results.cuh"
#include "unisono/epilogue/general_elements.cuh"
#include "unisono/epilogue/general_rows.cuh"
#include "unisono/epilogue/general_shared.cuh"
#include "unisono/epilogue/sm90_epilogue_statistics.cuh"
#include "unisono/epilogue/sm90_epilogue_stores.cuh"
#include "unisono/epilogue/sm90_second_pass_normalise.cuh"
#include "unisono/load/sm90_filters_ahead.cuh"
#include "unisono/load/sm90_im2col_tiles.cuh"
#include "unisono/load/sm90_producer_warps.cuh"
#include "unisono/sm90/consumer.cuh"
#include "unisono/sm90/conv_kernel.cuh"
#include "unisono/sm90/main_loop.cuh"
#include "unisono/sm90/warp_roles.cuh"
