#!/usr/bin/env python3
"""Puts faults into the kernels' headers, one at a time, and expects the emulator to find each.

usage: seeded_faults.py unisono_gpu_tests FOLDER_OF_EMULATOR kernels/unisono [I/N]

I/N: every N-th fault, from the I-th on (0 to N - 1).
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# what is wrong; the header in kernels/unisono; what is replaced by what, wherever it stands; the problem's plan; SMs; what the emulator says
FAULTS = [
    ("a stage is released before it is read", "sm90/main_loop.cuh", "wgmma_wait<1>();", ";", "mode=resident load=im2col", 8, "outside"),
    ("a stage waits for an arrival too many", "sm90/warp_roles.cuh", "mbarrier_init(barriers.empty(s), readers);",
     "mbarrier_init(barriers.empty(s), readers + 1);", "mode=resident load=im2col", 8, "deadlock"),
    ("an entry of the exchange is read before it is written", "exchange/message.cuh", "complete &= words[i].w == epoch + 1;", ";",
     "mode=resident load=halo", 24, "outside"),
    ("a halo tile is read at the wrong line", "sm90/main_loop.cuh", "line = (kLineBytes >> 4) * g.dilation_h - pixel * g.taps_w",
     "line = (kLineBytes >> 4) * g.dilation_h", "mode=resident load=halo", 24, "outside"),
    ("a box of columns is looked for where the next 8 k are", "mma/sm90_descriptor.cuh", "u64(kBoxBytes >> 4) << 16", "u64(1024 >> 4) << 16",
     "load=im2col tile=128x160", 24, "outside"),
    ("the second half of a step is looked for in the first", "sm90/main_loop.cuh", "k / 4 * kAtomBytesA + ", "", "depth=128 load=halo", 24, "outside"),
    ("behind the last tap the last channels are loaded again", "load/sm90_im2col_tiles.cuh", "place.c = g.channel_blocks, place.r = 0;", "place.c = 0, place.r = 0;", "depth=128 load=im2col tile=128x64", 24,
     "outside"),
    ("a stage of ordinary loads waits for a warp too many", "sm90/conv_kernel.cuh", "kFilledByWarps ? kProducers / 32", "kFilledByWarps ? 1 + kProducers / 32",
     "load=gather", 24, "deadlock"),
    ("a window is loaded over one of which im2col is being done", "load/sm90_producer_warps.cuh", "mbarrier_wait(barriers.empty_window(ahead.stage), ahead.parity ^ 1);", ";",
     "load=im2col_smem stages=2+2", 2, "deadlock"),
    ("odd pixels are read where the even ones are", "load/sm90_explicit_im2col.cuh", ">> (16 * odd)", ">> (0 * odd)", "load=im2col_smem order=pingpong", 24, "outside"),
    ("chunks that change places are stored where they were", "load/sm90_explicit_im2col.cuh", "place(stage, row, i ^ swizzle)", "place(stage, row, i)",
     "load=im2col_smem tile=128x32 depth=32", 24, "outside"),
    ("a slice is written over while TMA reads it", "epilogue/sm90_epilogue_stores.cuh", "else tma_store_wait_read<kStoreBuffers / kTogether - 1>();", ";",
     "load=im2col split=off", 24, "outside"),
    ("an operand is read before it has come", "epilogue/sm90_fetch.cuh", "mbarrier_wait(full(place), tail.fetch_parity >> place & 1);", ";",
     "fetch=3 tile=64x32", 24, "more arrivals at an mbarrier"),
    ("an operand is loaded over a slice that has not left", "epilogue/sm90_fetch.cuh", "tma_store_wait_read<kLag>();", ";", "fetch=1 tile=128x160 load=halo", 24, "outside"),
    ("a strided operand has the first image for all", "epilogue/placed.cuh", "i64(line / height) * image", "i64(line / height) * 0",
     "order=cooperative buffers=1", 24, "outside"),
    ("neighbours that lie apart are loaded together", "epilogue/placed.cuh", "if (vectors) return Dense::load(at);", "return Dense::load(at);",
     "order=cooperative buffers=1", 24, "outside"),
    ("an operand's barrier waits for one warp of four", "epilogue/sm90_fetch.cuh", "kShared ? 4 : 1", "1", "fetch=1 tile=64x64 load=im2col split=off swap=on", 24, "arrivals at an mbarrier"),
    ("a window of four pixels takes two", "epilogue/sm90_leaving.cuh", "load(8 + 2 * window), load(9 + 2 * window)", "load(2 * window), load(2 * window + 1)",
     "tile=64x32", 24, "p: element"),
    ("one of the parts of an upsampled tensor is not stored", "epilogue/sm90_epilogue_stores.cuh", "i < Resample::kCopies", "i + 1 < Resample::kCopies",
     "tile=64x40 load=im2col", 24, "e: element"),
    ("moments are left where another warp still reads its operands", "epilogue/sm90_epilogue_statistics.cuh", "if constexpr (kShared || kSwap) sync();",
     "if constexpr (kShared) sync();", "fetch=1 mode=resident tile=128x128 buffers=1", 24, "outside"),
    ("moments are of something else than what is stored", "epilogue/sm90_epilogue_stores.cuh", "own_x = as_float(stored.x)", "own_x = as_float(x)",
     "tile=128x120", 24, "moments: "),
    ("planes are loaded before they are converted", "load/sm90_from_planes.cuh", "if (lane == 0) return;", "return;",
     "mode=streamed load=im2col tile=128x64", 2, "outside"),
    ("a spare warp waits for what needs planes that it has not converted", "load/sm90_from_planes.cuh", "ahead - p.units_ahead", "ahead",
     "mode=streamed load=im2col tile=128x64 swap=on", 2, "deadlock"),
    ("every warp stores the same quarter of a slice of planes", "epilogue/sm90_fetch.cuh", "channel + m % 64 / 16 * (kSlice / 4)", "channel",
     "mode=streamed load=im2col tile=128x64", 24, "outside"),
    ("a phase begins at another's pixel", "load/sm90_halo_tiles.cuh", "(tile.phase % 2 + g.pad_w) / 2", "g.pad_w / 2", "load=halo mode=resident", 24, "outside"),
    ("a tap that a phase does not have is another's", "tile/tile_scheduler.cuh", "(phase / 2 + g.pad_h) % 2", "phase / 2 % 2", "load=halo mode=resident", 24, "outside"),
    ("a phase without taps has those of the tile before", "sm90/main_loop.cuh", "for (float& sum : block) sum = 0;", ";", "load=halo order=pingpong tile=64x72", 2, "outside"),
    ("taps of a transposed convolution are not reversed", "load/sm90_producer.cuh", "p.geometry.taps_h * p.geometry.taps_w - 1 - tap", "tap",
     "load=halo tile=128x104", 24, "outside"),
    ("the second half of a step's filters lies in the place of the first", "load/sm90_producer.cuh", "to + i * kBoxBytes + atom * (kAtomK * 128)", "to + i * kBoxBytes",
     "load=im2col depth=128 tile=64x104", 24, "outside"),
    ("a spilled tile is normalised before it is loaded back", "epilogue/sm90_second_pass_normalise.cuh", "if (spilled) tiles.await(step);", ";",
     "mode=streamed load=im2col", 2, "outside"),
    ("a tile waits where the results of another lie", "epilogue/sm90_waiting_tiles.cuh", "(kWideMain ? 2 : 1) *", "1 *",
     "raster=channels tile=64x64 order=pingpong", 2, "outside"),
    ("the lower halves of tiles that wait are their upper ones", "epilogue/held_tiles.cuh", "__byte_perm(first, second, 0x5410)", "__byte_perm(first, second, 0x7632)",
     "load=halo tile=64x32", 2, "outside"),
    ("of a tile's blocks of rows a reduction has the last alone", "epilogue/fold_columns.cuh", "to = b == 0 ? value : join(List::channel_fold(i), to, value);", "to = value;",
     "load=im2col tile=128x24 order=pingpong", 2, "outside"),
    ("behind a normalisation lanes of the same channels are left out", "epilogue/pass_folds.cuh", "value = join(List::channel_fold(i), value, __shfl_xor_sync(~0u, value, distance));", ";",
     "load=halo tile=64x64 order=pingpong", 2, "outside"),
    ("the second pass writes over what the first has reduced", "epilogue/fold_columns.cuh", "if (!Chosen::has(i)) continue; const Fold kind = List::channel_fold(i);",
     "const Fold kind = List::channel_fold(i);", "load=halo tile=128x32", 2, "outside"),
    ("shares of a reduction are merged before the last has come", "epilogue/fold_columns.cuh", "== u32(parties - 1);", "== u32(parties / 2);",
     "mode=general load=halo", 2, "outside"),
    ("a row is concluded before all its tiles have come", "exchange/row_exchange.cuh", "complete &= entry[i].w == epoch + 1;", ";",
     "mode=general tile=64x136", 24, "outside"),
    ("a row is normalised before all its tiles have come", "exchange/row_exchange.cuh", "complete &= entry[i].w == epoch + 1;", ";",
     "mode=rows tile=64x64", 24, "outside"),
    ("a tile that merges its share of the rows counts the last tile again", "exchange/row_exchange.cuh", "if (t + kLanes * i < across) add(part, entry[i]);", "add(part, entry[i]);",
     "mode=rows tile=128x24", 24, "outside"),
    ("a tile of a general epilogue merges the first rows of its share alone", "exchange/row_exchange.cuh", "first + lane() / kLanes * across", "first",
     "mode=general tile=64x16", 24, "deadlock"),
    ("a tile that waited is normalised by the columns of the next one", "epilogue/sm90_epilogue.cuh", "kDeferred * set", "0",
     "mode=rows tile=128x24 order=pingpong deferred=on", 24, "outside"),
    ("nobody merges the rows of tiles that wait", "sm90/consumer.cuh", ".share(warp, warps);", ";",
     "mode=rows tile=128x24 order=pingpong deferred=on", 24, "deadlock"),
    ("a cluster's tile beyond the channels counts", "epilogue/row_statistics.cuh", "if (Of::kMeets && of.channels() <= 0) return {0.f, 0.f, 0.f};", ";",
     "mode=rows tile=64x72 cluster=1x2", 24, "outside"),
    ("a row has the values of its neighbour", "epilogue/row_results.cuh", "rows.value[r], exists", "rows.value[r ^ 1], exists",
     "mode=rows tile=128x64 order=cooperative", 24, "outside"),
    ("a tile's exponentials keep the maximum of that tile", "epilogue/row_statistics.cuh", "affine.x * (exponential_from<Visitor>(own.x, all.x) / all.y)", "affine.x / all.y",
     "mode=rows tile=64x64", 24, "outside"),
    ("what elements read again is read before it is there", "epilogue/returned.cuh", "complete &= read[part].w == columns.tail.epoch + 1;", ";",
     "order=cooperative tile=128x48", 24, "outside"),
    ("a sum that tiles exchange is added twice", "epilogue/exchanged.cuh", "all.merge(part(i % 4, u * (kParts / 4) + i / 4));",
     "all.merge(part(i % 4, u * (kParts / 4) + i / 4)), all.merge(part(i % 4, u * (kParts / 4) + i / 4));",
     "mode=resident order=pingpong tile=64x32", 24, "outside"),
    ("what tiles exchange has the wrong sign", "epilogue/exchanged.cuh", "of_part.values[i] = of(", "of_part.values[i] = -of(",
     "mode=streamed order=pingpong tile=64x40", 24, "outside"),
    ("nobody exchanges a group's sums", "epilogue/exchanged.cuh", "if (own < kUnits && first == 0 && channel < tile.geometry.channels)",
     "if (own < kUnits && first == 0 && channel < tile.geometry.channels && u != 1)",
     "mode=resident order=cooperative tile=128x40", 24, "deadlock"),
    ("a value that waited has columns without what was exchanged", "epilogue/sm90_second_pass.cuh", "statistics.emit(  // a lane's", "if (false) statistics.emit(  // a lane's",
     "mode=streamed order=cooperative tile=128x24", 2, "outside"),
    ("results of what waited in registers are not reduced", "epilogue/row_results.cuh", "folds.close(b, s);", ";", "mode=resident order=pingpong tile=64x32", 24, "outside"),
    ("a segment of a reduction's places lacks the last", "epilogue/fold_results.cuh", "members, folded);", "members - 1, folded);",
     "mode=resident order=cooperative tile=128x40", 24, "outside"),
    ("all tiles of a warpgroup that wait in memory have one place", "epilogue/general_spilled.cuh", "(size_t(tile) * gridDim.x", "(size_t(0) * gridDim.x",
     "spill=f32 order=cooperative tile=128x24", 24, "outside"),
    ("results are waited for before all tiles of the image are multiplied", "epilogue/general_spilled.cuh", "(!kAllImages && is_other(tile(next), at))", "true",
     "spill=f32 order=pingpong tile=64x16", 4, "deadlock"),
    ("a tile has the rows of the warpgroup's first", "epilogue/general_spilled.cuh", "reinterpret_cast<float*>(memory(tile) + kSums)", "reinterpret_cast<float*>(memory(0) + kSums)",
     "spill=f32 order=pingpong tile=64x48", 2, "outside"),
    ("a row's shares are merged by nobody", "epilogue/general_spilled.cuh", "if constexpr (Passes::template reduces_rows<kBefore>())", "if constexpr (false)",
     "order=pingpong tile=64x8", 24, "deadlock"),
    ("of planes all warps' octets go to the first's channels", "epilogue/sm90_octet_stores.cuh", "+ m % 64 / 16 * Planes::kChannels", "",
     "spill=f32 load=halo order=pingpong tile=64x16", 24, "outside"),
    ("a group's reduction leaves out lanes", "epilogue/row_groups.cuh", "sum = join(kind, sum, __shfl_xor_sync(~0u, sum, 2));", ";",
     "load=halo order=pingpong", 24, "outside"),
    ("a line is multiplied by the taps of another", "sm90/depthwise_multiply.cuh", "const int r = u + k * kStrideH;", "const int r = u + (kOverlap - 1 - k) * kStrideH;",
     "thread=5x4x4", 24, "outside"),
    ("taps of a depthwise gradient are not reversed", "sm90/depthwise_multiply.cuh", "TapsInReverse<Config>::kValue ? taps - 1 - at : at", "at", "thread=3x2x4", 24, "outside"),
    ("columns beside the image are read", "sm90/depthwise_kernel.cuh", "< unsigned(image.width) ? end : 0", "< ~0u ? end : 0", "thread=5x4x4", 24, "outside"),
    ("a row's reduction leaves out lanes", "epilogue/general_rows.cuh", "for (int bit = 1; bit <= 2; bit *= 2)", "for (int bit = 1; bit <= 1; bit *= 2)",
     "mode=general tile=128x160", 24, "outside"),
    ("taps of the gradient of groups are not reversed", "load/sm90_group_filters.cuh", "kChannels * taps + taps - 1 - tap", "kChannels * taps + tap", "family=sm90_conv load=halo tile=64x32", 24, "outside"),
    ("a group's filters lie beside the diagonal", "load/sm90_group_filters.cuh", "n / kFilters * kChannels", "n / (2 * kFilters) * kChannels", "family=sm90_conv load=halo tile=64x64", 24,
     "outside"),
    ("what lies beside the diagonal is not cleared", "load/sm90_group_filters.cuh", "if (begin == thread) clear(to, taps, thread);", ";", "family=sm90_conv load=halo tile=64x64", 24,
     "outside"),
    ("a tile's groups are looked for in the first tile's channels", "tile/layout.cuh", "return k / kGroupFilters * kGroupChannels;", "return 0;",
     "family=sm90_conv load=im2col swap=on", 24, "outside"),
    ("both filters of a dual convolution are the first", "load/sm90_producer.cuh", "load_boxes(second_filter(p),", "load_boxes(p.filter,",
     "load=halo tile=128x64 order=cooperative", 24, "outside"),
    # Terms of statistics that are three percent off, in every place where parts are merged
    ("between tiles squares count for too few rows", "exchange/moments.cuh", "m2 += fmaf(delta * delta, m.count",
     "m2 += fmaf(delta * delta, 0.97f * m.count", "mode=resident load=im2col", 24, "outside"),
    ("between tiles means count for too few rows", "exchange/moments.cuh", "sum = fmaf(m.count", "sum = fmaf(0.97f * m.count",
     "mode=streamed load=im2col", 24, "outside"),
    ("a tile's own squares count too little", "exchange/moments.cuh", "m.count, m.m2);", "m.count, 0.97f * m.m2);", "mode=resident split=on",
     24, "outside"),
    ("between lanes that merge tiles squares count for too few rows", "exchange/moments.cuh", "m.m2 = fmaf(delta * delta, rows, m.m2);",
     "m.m2 = fmaf(delta * delta, 0.97f * rows, m.m2);", "mode=streamed load=halo", 24, "outside"),
    ("between units squares count for too few rows", "exchange/moments.cuh", "fmaf(delta * delta, into.count * share", "fmaf(delta * delta, 0.97f * into.count * share",
     "swap=on tile=128x64 mode=resident", 24, "outside"),
    ("between warps squares count for too few rows", "exchange/publish_moments.cuh", "m2 += fmaf(delta * delta, weight[w] * kWidth, moment.y);",
     "m2 += fmaf(delta * delta, 0.97f * weight[w] * kWidth, moment.y);", "mode=resident load=halo", 24, "outside"),
    ("squares of a lane's rows count too little", "exchange/warp_moments.cuh", "const float deviation = value(i) - mean;\n                if constexpr (kCentre)",
     "const float deviation = 0.985f * (value(i) - mean);\n                if constexpr (kCentre)", "swap=on tile=128x64 mode=resident", 24, "outside"),
    ("what was centred is not moved all the way", "epilogue/sm90_second_pass_normalise.cuh", "fmaf(centre[i] - column(0)[n]", "fmaf(0.97f * (centre[i] - column(0)[n])",
     "swap=on tile=256x64 mode=streamed load=halo", 24, "outside"),
    ("between tiles of a stored reduction squares count too little", "epilogue/folds.cuh", "merger.add(values[i][0]", "merger.add(0.97f * values[i][0]",
     "mode=general load=halo", 24, "outside"),
    ("a pixel's squares count too little", "epilogue/row_statistics.cuh", "mean, sum_over<4>(m2)}", "mean, 0.97f * sum_over<4>(m2)}", "load=halo split=off", 24,
     "outside"),
    ("stored moments have too small squares", "exchange/moment_store.cuh", "__float_as_uint(m.m2)", "__float_as_uint(0.97f * m.m2)", "tile=128x120", 24, "moments: "),
    # Groups and tiles that cut one another, and tiles that wait for those of the same channels alone
    ("a border of a group and a tile counts twice", "exchange/pieces.cuh", "- divided(channel, p.by_common_channels)", "", "--gtest_filter=*ExchangeSmall*sums_of_cut_groups", 24, "deadlock"),
    ("a group has the pieces of the one behind", "exchange/pieces.cuh", "return before(p, group * p.group_channels);", "return before(p, (group + 1) * p.group_channels);",
     "mode=streamed tile=128x192", 24, "deadlock"),
    ("a piece ends with the tile ahead of its group", "exchange/pieces.cuh", "smaller(of_tile.last, border + p.group_channels)", "of_tile.last",
     "mode=resident tile=64x96 raster=channels", 24, "outside"),
    ("of a piece squares count too little", "exchange/publish_moments.cuh", "own.m2 += fmaf(delta * delta,", "own.m2 += 0.97f * fmaf(delta * delta,", "mode=streamed tile=128x168", 24, "outside"),
    ("sums of a piece lack a lane's part", "epilogue/exchanged.cuh", "i < to / kWidth * 4; i += lanes", "i < to / kWidth * 4 - 4; i += lanes", "mode=resident tile=128x152", 24, "outside"),
    ("tiles that wait for those of their channels come row by row", "sm90/conv_kernel.cuh", "kByChannels ? -1 : Config::kGroup", "Config::kGroup",
     "mode=resident tile=64x96 raster=channels", 8, "deadlock"),
    # Kernels for tensors of any type: a test instead of a plan
    ("an axis has the place of the ones ahead of it", "tensor/space.cuh", "visit(axis, number - next * space.extents[axis]);", "visit(axis, next);",
     "--gtest_filter=TensorSmall.ReshapesKeepTheOrderOfElements", 24, "FAILED"),
    ("an index does not count from the end", "tensor/faults.cuh", "index < 0 ? index + extent : index", "index", "--gtest_filter=TensorSmall.GathersOfElements", 24, "FAILED"),
    ("another update than the last wins", "tensor/indexed.cuh", "place.slot, u32(at.of[2]) + 1);", "place.slot, 1u);", "--gtest_filter=TensorSmall.ScattersOfAlignedSlicesMoveLongWords", 24, "FAILED"),
    ("two owners of a place", "tensor/scatter_lines.cuh", "u64(place.slot) % p.owners != owner", "false", "--gtest_filter=TensorSmall.InPlaceNothingIsCopied", 24, "FAILED"),
    ("a NaN is no extreme", "tensor/folds.cuh", "if (x != x || (s == s && (kSmallest ? x < s : x > s))) s = x;", "if (kSmallest ? x < s : x > s) s = x;",
     "--gtest_filter=TensorSmall.ExtremesOfSpecialValuesAndOfNothing", 24, "FAILED"),
    ("a part of a reduction is left out", "tensor/reduce.cuh", "for (u32 part = Group::lane(); part < p.parts", "for (u32 part = 1 + Group::lane(); part < p.parts",
     "--gtest_filter=TensorSmall.ReductionsInParts", 24, "FAILED"),
    ("floats beyond an integer type's range are cut off", "tensor/number.cuh", "if (x >= From(kLargest<To>)) return kLargest<To>;", ";",
     "--gtest_filter=TensorSmall.CastsFromDoublesAreTheCpus", 24, "FAILED"),
    ("short floats are rounded twice", "tensor/number.cuh", "bits - 1 : bits) | 1u);", "bits : bits));", "--gtest_filter=TensorSmall.CastsFromDoublesAreTheCpus", 24, "FAILED"),
    ("the last part of a filter's gradient is not added", "product/filter_gradient.cuh", "part < p.parts; ++part) sum +=", "part + 1 < p.parts; ++part) sum +=",
     "--gtest_filter=*FilterGradientSmall*1x1__stride_2", 24, "FAILED"),
    ("taps of a filter's gradient are mirrored", "product/filter_gradient.cuh", "right = tap % p.taps_w * p.dilation_w", "right = (p.taps_w - 1 - tap % p.taps_w) * p.dilation_w",
     "--gtest_filter=*FilterGradientSmall*wide_margins", 24, "FAILED"),
    ("the next row of pixels is looked for beyond the image", "product/filter_gradient.cuh", "h += p.stride_h, from += next_row", "h += p.stride_h",
     "--gtest_filter=*FilterGradientSmall*1x1__stride_2", 24, "FAILED"),
    ("the next tap of a halo tile is two pixels on", "product/sm90_filter_gradient.cuh", "columns_descriptor<128, Shape", "columns_descriptor<256, Shape",
     "--gtest_filter=*FilterGradientSmall*one_pixel", 24, "FAILED"),
    ("the next slab has the tap of the one before", "product/sm90_filter_gradient_parts.cuh", "slab / p.channel_slabs, slab % p", "column * kSlabs / p.channel_slabs, slab % p",
     "--gtest_filter=*FilterGradientSmall*one_pixel", 24, "FAILED"),
    ("a team adds one part less than its share", "product/sm90_filter_gradient_parts.cuh", "smaller(begin + share, p.parts);", "smaller(begin + share - 1, p.parts);",
     "--gtest_filter=*FilterGradientSmall*wide_margins", 24, "FAILED"),
    ("a stage of a gradient is free before it was read", "product/sm90_filter_gradient.cuh", "release(previous); } previous", "release(at.stage); } previous",
     "--gtest_filter=*FilterGradientSmall*many_steps", 24, "FAILED"),
    # What a launch may rely on of the one ahead, and the one behind on this
    ("a kernel does not wait for the launches ahead", "sm90/warp_roles.cuh", "await_launches_ahead();", ";", "mode=resident load=im2col", 24, "ahead of griddepcontrol.wait"),
    ("a kernel without tiles does not wait for the launches ahead", "ptx/grid.cuh", "await_launches_ahead();", ";", "thread=5x4x4", 24, "ahead of griddepcontrol.wait"),
    # Filters that are loaded ahead of it. AheadSmall.TheWrongDecisionIsFoundOnTheEmulatedGpu has a launch that writes them
    ("with filters ahead a kernel waits for nothing else", "sm90/warp_roles.cuh", "await_launches_ahead();", ";", "--gtest_filter=Cases/FiltersAheadSmall.*/1", 24,
     "ahead of griddepcontrol.wait"),
    ("filters ahead are expected twice", "load/sm90_im2col_tiles.cuh", "if (!filter_was_ahead) mbarrier_arrive_expect", "mbarrier_arrive_expect",
     "--gtest_filter=Cases/FiltersAheadSmall.*/0", 24, "arrivals at an mbarrier"),
    ("filters ahead reach barriers that are not there yet", "sm90/warp_roles.cuh", "if (kClusterM > 1) cluster_sync();", ";", "--gtest_filter=Cases/FiltersAheadSmall.*/5", 24,
     "deadlock"),
    ("filters ahead are of other taps", "load/sm90_filters_ahead.cuh", "int tap = kHaloTile ? step % taps", "int tap = kHaloTile ? step % taps / 2", "--gtest_filter=Cases/FiltersAheadSmall.*/1", 24,
     "outside"),
    ("a slice of a volume is stored into another plane", "epilogue/sm90_epilogue.cuh", "at.rows.store_image(at.image)", "at.image",
     "load=halo mode=streamed tile=64x64 cluster=2x1", 24, "outside"),
]


def with_fault(text, good, bad):
    """`text` with `bad` in every place of `good`, wherever its lines are broken."""
    return re.sub(r"\s+".join(map(re.escape, good.split())), lambda match: bad, text)


def found(fault, program, emulator, headers):
    what, header, good, bad, plan, sms, symptom = fault
    text = (headers / header).read_text()
    faulty = with_fault(text, good, bad)
    if faulty == text:
        return f"{what}: {header} has no '{good}' any more; put the fault elsewhere"
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, header)
        path.parent.mkdir()
        path.write_text(faulty)
        environment = dict(os.environ, UNISONO_EMULATOR_HEADERS=folder, UNISONO_CACHE_DIR=folder + "/cache", CUDA_HOME=str(emulator),
                           LD_LIBRARY_PATH=str(emulator / "lib"), UNISONO_EMULATOR_SMS=str(sms))
        chosen = [plan, "--gtest_fail_fast"] if plan.startswith("--") else ["--sanitizer", "--first-failure", "--only", plan]
        done = subprocess.run([program, *chosen], env=environment, capture_output=True, text=True)
    said = done.stdout + done.stderr
    if done.returncode != 0 and symptom in said:
        return None
    return f"{what}: expected '{symptom}' and a failure; exit code {done.returncode}, and:\n{said}"


def main():
    program, emulator, headers = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    first, step = (int(n) for n in sys.argv[4].split("/")) if len(sys.argv) > 4 else (0, 1)
    faults = FAULTS[first::step]
    missed = [m for m in (found(f, program, emulator, headers) for f in faults) if m]
    print("\n".join(missed) if missed else f"{len(faults)} seeded faults, all found")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
