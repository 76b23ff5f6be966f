// What the generator says of a kernel besides its visitor (epilogue/visitor.cuh). A configuration is a struct that has
// all of these; nothing may be left out:
//
//   using Element                     Bf16, F16 or Tf32: of the operands
//   int kTileM, kTileN, kTileK        of a tile; kTileK: 128 bytes; of 16-bit elements 256 too, and for im2col tiles 64
//   int kTileWarpgroups               of a consumer group, which shares a tile: 1 or 2
//   int kConsumerGroups               1: cooperative; 2: ping-pong: sm90/conv_fprop.cuh
//   int kWarpgroupRows                kTileM / kTileWarpgroups: 64, 128 or 256
//   int kStages                       of filters; for im2col tiles of both operands; if kStationary a tile's k-steps
//   int kStagesA                      of activations, for halo tiles and with stationary filters; windows of
//                                     load/sm90_explicit_im2col.cuh
//   int kHaloH, kHaloW                halo tiles: (R - 1) * dilation at most; (S - 1) * dilation
//   int kStoreBuffers                 staging buffers of a warp, of a slice each
//   int kClusterM, kClusterN          CTAs of a cluster
//   bool kTwoDimensional              a tile is 8 pixels of each of kTileM / 8 image rows: halo tiles, Im2colSmem; not
//                                     consecutive pixels
//   bool kSplit                       ConvGeometry::splits may exceed 1; without clusters
//   bool kSwap                        operands swapped: epilogue/sm90_fragment.cuh
//   Norm kNorm                        epilogue/sm90_epilogue.cuh
//   int kUnit                         a divisor of the channels of a tile and of a group, which exchange statistics:
//                                     exchange/pieces.cuh
//   int kGroup                        tile/tile_scheduler.cuh; 0 with an exchange, which goes image by image
//   using Operands                    Images, Matrices<...>, Phases, Flipped, FlippedRows, any of them as
//                                     FiltersAhead<...> or, but for the transposed ones, FromPlanes<...>, Volumes,
//                                     DualMatrices<...>, DualImages, Groups<...>, FlippedGroups<...>, or a struct
//                                     derived from Gathered<...> or Im2colSmem: tile/layout.cuh
//   Stores kStores                    tile/tile_scheduler.cuh
//   using Resample                    AsItIs or Resampled<...>: tile/resample.cuh
//   int kMoments                      channels of an entry of exchange/moment_store.cuh; 0: none are stored
//   int kFetch                        operands [m,n] that TMA brings: epilogue/sm90_fetch.cuh
//   bool kStationary                  filters stay in shared memory for the whole launch
//   bool kWide, kMeets                if kNorm is kGeneral: epilogue/general.cuh; it may say kSpills and kSpillsRows
//                                     besides: epilogue/general_spilled.cuh
//
// Resident or streamed, it may say more: epilogue/held_tiles.cuh.
#pragma once
