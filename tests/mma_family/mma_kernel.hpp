#pragma once
/// The device code of family mma_conv, and what it reads ahead of the visitor's fields.

#include "unisono/params/tile_params.cuh"

namespace unisono::mma {

inline constexpr int tile_rows = 64, tile_channels = 32, tile_depth = 32, threads = 128;

/// struct Fixed of the kernel.
struct Fixed {
  TileParams tile;
  const void *image, *filter;  ///< (N, H, W, C), (K, R, S, C)
  int height, width, channels, taps_w;
};

/// One warpgroup a CTA. The four warps load a step of both operands by cp.async while they multiply the one before it.
inline constexpr const char* kernel_text = R"(
template <class Config, class Visitor> struct MmaConv {
    struct Fixed {
        TileParams tile;
        const void *image, *filter;
        int height, width, channels, taps_w;
    };
    struct Params {
        Fixed fixed;
        typename Visitor::Params visitor;
    };
    using Element = typename Config::Element;
    using Tail = FragmentEpilogue<Config, Visitor>;
    using At = typename Tail::At;
    using Fragment = typename Config::Fragment;
    static constexpr int kThreads = 128, kM = Fragment::kRows, kN = Fragment::kChannels, kK = 32, kPitch = kK + 8;
    static constexpr int kStage = (kM + kN) * kPitch;  // elements

    // The step's k: channels [first, first + kK) of one tap.
    struct Step {
        int tap, first;
    };
    // Sixteen bytes a thread at a time; zeros beyond the image, its channels and the tile's rows.
    static UNISONO_DEVICE void load(const Fixed& f, const At& at, const Step& s, u32 to) {
        const ConvGeometry& g = f.tile.geometry;
        const int tap_h = s.tap / f.taps_w, tap_w = s.tap - tap_h * f.taps_w;
        for (int i = threadIdx.x; i < (kM + kN) * kK / 8; i += kThreads) {
            const int line = i / (kK / 8), c = s.first + i % (kK / 8) * 8;
            const u16* from = static_cast<const u16*>(f.image);
            bool exists = c < f.channels;
            if (line < kM) {
                const int pixel = at.rows.pixel(line), p = pixel / g.width, q = pixel - p * g.width;
                const int h = p * g.stride_h - g.pad_h + tap_h * g.dilation_h, w = q * g.stride_w - g.pad_w + tap_w * g.dilation_w;
                exists = exists && at.rows.valid(line) && h >= 0 && h < f.height && w >= 0 && w < f.width;
                if (exists) from += ((i64(at.image) * f.height + h) * f.width + w) * f.channels + c;
            } else {
                const int k = at.first_channel + line - kM;
                exists = exists && k < g.channels;
                from = static_cast<const u16*>(f.filter);
                if (exists) from += (i64(k) * (g.taps_h * f.taps_w) + s.tap) * f.channels + c;
            }
            copy_async(to + 2 * (line * kPitch + i % (kK / 8) * 8), from, exists ? 16 : 0);
        }
        copy_async_commit();
    }
    static UNISONO_DEVICE void fragment(u32 tile, int line, int k, u32 (&four)[4]) {
        const int lane = threadIdx.x % 32, low = lane / 8 % 2 * 8, high = lane / 16 * 8;
        load_matrices(tile + 2 * ((line + low + lane % 8) * kPitch + k + high), four);
    }
    static UNISONO_DEVICE void multiply(float (&sums)[kN / 8][4], u32 stage) {
        const int warp = threadIdx.x / 32;
        for (int k = 0; k < kK; k += 16) {
            u32 left[4];
            fragment(stage, 16 * warp, k, left);
            for (int j = 0; j < kN / 16; ++j) {
                u32 right[4];
                fragment(stage + 2 * kM * kPitch, 16 * j, k, right);
                const u32 low[2] = {right[0], right[2]}, high[2] = {right[1], right[3]};
                multiply_fragments<Element>(sums[2 * j], left, low);
                multiply_fragments<Element>(sums[2 * j + 1], left, high);
            }
        }
    }
    static UNISONO_DEVICE void main_loop(const Fixed& f, const At& at, u32 stages, typename Fragment::Accumulators& acc) {
        const int blocks = divide_up(f.channels, kK), steps = f.tile.geometry.taps_h * f.taps_w * blocks;
        auto step = [&](int i) { return Step{i / blocks, i % blocks * kK}; };
        float sums[kN / 8][4] = {};
        load(f, at, step(0), stages);
        for (int i = 0; i < steps; ++i) {
            if (i + 1 < steps) {
                load(f, at, step(i + 1), stages + (i + 1) % 2 * 2 * kStage);
                copy_async_wait<1>();
            } else {
                copy_async_wait<0>();
            }
            __syncthreads();
            multiply(sums, stages + i % 2 * 2 * kStage);
            __syncthreads();  // the stage is free
        }
        for (int j = 0; j < kN / 8; ++j)
            for (int i = 0; i < 4; ++i) acc[0][4 * j + i] = sums[j][i];
    }
    static UNISONO_DEVICE void run(const Params& params) {
        begin();
        UNISONO_DYNAMIC_SHARED(shared);
        const Fixed& f = params.fixed;
        const TileParams& t = f.tile;
        const ConvGeometry& g = t.geometry;
        const auto uniform = Visitor::uniform(params.visitor);
        if (Tail::kWaits && threadIdx.x == 0) enter_launch(t.launch);
        const u32 epoch = Tail::kWaits ? epoch_of(t.launch) : 0;
        typename Fragment::Accumulators acc;
        Tail tail{t, g, t.norm, params.visitor, uniform, shared + 2 * 2 * kStage, int(threadIdx.x), 1, epoch, acc};
        for (int i = blockIdx.x; i < g.tiles; i += gridDim.x) {
            const Tile tile = tile_at<1, 1, 0>(g, i, 0);
            const At at{tile.image, tile.tile_m, tile.tile_n * kN, LinearRows::of(g, tile, kM, 0)};
            typename Tail::Columns columns;
            columns.load(tail, at);
            main_loop(f, at, shared_address(shared), acc);
            tail.finish(at, columns);
        }
        __syncthreads();
        if (Tail::kWaits && threadIdx.x == 0) leave_launch(t.launch);
    }
};
)";

}  // namespace unisono::mma
