// The convolution as a matrix product, and which tile of it a block computes when.
//   M = output pixels, N = output channels, K = filter taps x input channels.
#pragma once
#include "types.cuh"

namespace coda {

struct ConvGeometry {
    // The output as images x rows x channels. A tile never straddles images. Without anything per image, `images`
    // is 1 and `rows` is all N*P*Q pixels, so that tiles run through the borders between images.
    int images, rows, channels;
    int tiles_m, tiles_n, tiles;         // cluster tiles: per image, across the channels, in all
    int height, width;                   // output pixels of an image: P, Q
    int taps_h, taps_w, channel_blocks;  // R, S, ceil(C / kTileK)
    int stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;

    CODA_DEVICE int k_blocks() const { return taps_h * taps_w * channel_blocks; }
};

struct Tile {
    int image, tile_m, tile_n;  // this block's tile, in tiles
};

// Tiles of one input region (all channel tiles) are neighbours in the order, then those of one image.
template <int kClusterM, int kClusterN>
CODA_DEVICE Tile tile_at(const ConvGeometry& g, int index, int rank) {
    const int n = index % g.tiles_n;
    const int rest = index / g.tiles_n;
    return {rest / g.tiles_m, rest % g.tiles_m * kClusterM + rank / kClusterN, n * kClusterN + rank % kClusterN};
}

// Position in a ring of kStages buffers; `block` counts every k-block that the ring has carried so far.
template <int kStages> struct RingPosition {
    u32 stage, parity;
    CODA_DEVICE explicit RingPosition(u32 block) : stage(block % kStages), parity(block / kStages & 1) {}
    CODA_DEVICE void advance() {
        if (++stage == kStages) stage = 0, parity ^= 1;
    }
};

}  // namespace coda
