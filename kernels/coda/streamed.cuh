// The second pass of a streamed normalisation: a warp re-reads the rows that it stored itself, centred by its
// warpgroup's channel means, normalises them and stores them in place. Nothing but the image's statistics comes
// from other warps, so the only wait is for the image's flag.
#pragma once
#include "epilogue.cuh"

namespace coda {

template <class Config, class Visitor> struct SecondPass {
    using First = Epilogue<Config, Visitor>;
    using Element = typename Config::Element;
    using Place = typename First::Place;
    static constexpr int kSlice = First::kSlice;
    static constexpr int kLanesPerRow = kSlice / 8;            // 16 bytes a lane
    static constexpr int kRowsAtOnce = 32 / kLanesPerRow;
    static constexpr int kLoads = First::kBlocks * 16 / larger(1, smaller(16, kRowsAtOnce));  // a lane and slice
    static constexpr int kStoresPerTile = First::kBlocks * First::kSlices;  // bulk groups a warp commits a tile
    static constexpr int kOperands = 2 + Visitor::kColumns;    // floats a channel: factor, offset, visitor's columns
    static_assert(kOperands * kSlice * 4 <= First::kStaging, "the slice's operands do not fit the warp's staging buffer");

    // y = stored * factor + offset, with factor = scale * rstd and offset = (mean of the tile - mean) * factor + shift.
    static CODA_DEVICE void load_operands(const First& e, const Place& at, int slice, float* operands, int lane) {
        for (int n = lane; n < kSlice; n += 32) {
            const int channel = at.first_channel + slice * kSlice + n;
            if (channel >= e.geometry.channels) break;
            const size_t image = size_t(at.image) * e.geometry.channels + channel;
            const float2 group = load_l2(e.norm.groups + image);
            const float2 slot = load_l2(e.norm.slots + (size_t(at.image) * e.norm.slots_per_image + at.slot.slot) * e.geometry.channels + channel);
            const float factor = group.y * Visitor::scale(e.visitor, at.image, channel);
            operands[n] = factor;
            operands[kSlice + n] = fmaf(slot.x - group.x, factor, Visitor::shift(e.visitor, at.image, channel));
            load_columns(e, at, channel, operands + 2 * kSlice + n);
        }
    }
    template <int i = 0> static CODA_DEVICE void load_columns(const First& e, const Place& at, int channel, float* operands) {
        if constexpr (i < Visitor::kColumns) {
            operands[i * kSlice] = Visitor::template column<i>(e.visitor, at.image, channel);
            load_columns<i + 1>(e, at, channel, operands);
        }
    }
    template <int i = 0> static CODA_DEVICE void load_tensors(const First& e, u64 offset, uint4 (&words)[larger(1, Visitor::kTensors)]) {
        if constexpr (i < Visitor::kTensors) {
            words[i] = __ldg(reinterpret_cast<const uint4*>(static_cast<const u16*>(Visitor::template tensor<i>(e.visitor)) + offset));
            load_tensors<i + 1>(e, offset, words);
        }
    }

    // kLater: this warp has committed the stores of at least that many later tiles.
    template <int kLater> static CODA_DEVICE void run(const First& e, const Place& at, u16* output) {
        const int warp = e.thread / 32, lane = e.thread & 31;
        if (lane == 0) {
            tma_store_wait<kLater * kStoresPerTile>();  // the values are written, not only read from shared memory
            tma_store_wait_read<0>();                   // the staging buffer is free
        }
        fence_async_global();
        __syncwarp();
        float* operands = reinterpret_cast<float*>(e.staging(warp));
        const int chunk = lane % kLanesPerRow, row_of_lane = lane / kLanesPerRow;
#pragma unroll 1
        for (int slice = 0; slice < First::kSlices; ++slice) {
            const int channel = at.first_channel + slice * kSlice + 8 * chunk;
            uint4 values[kLoads];
            auto row_at = [&](int i) { return at.first_row + 16 * warp + 64 * (i * kRowsAtOnce / 16) + i * kRowsAtOnce % 16 + row_of_lane; };
            auto inside = [&](int i) { return row_of_lane < 16 && row_at(i) < e.geometry.rows && channel < e.geometry.channels; };
            auto offset_at = [&](int i) { return (u64(at.image) * e.geometry.rows + row_at(i)) * e.geometry.channels + channel; };
#pragma unroll
            for (int i = 0; i < kLoads; ++i)
                if (inside(i)) values[i] = load_l2(reinterpret_cast<const uint4*>(output + offset_at(i)));
            __syncwarp();
            load_operands(e, at, slice, operands, lane);
            __syncwarp();
            float operand[kOperands][8];
#pragma unroll
            for (int o = 0; o < kOperands; ++o)
#pragma unroll
                for (int k = 0; k < 8; ++k) operand[o][k] = operands[o * kSlice + 8 * chunk + k];
#pragma unroll
            for (int i = 0; i < kLoads; ++i) {
                if (!inside(i)) continue;
                uint4 tensors[larger(1, Visitor::kTensors)];
                load_tensors(e, offset_at(i), tensors);
                *reinterpret_cast<uint4*>(output + offset_at(i)) = normalise(e, values[i], operand, tensors);
            }
        }
    }

    static CODA_DEVICE uint4 normalise(const First& e, const uint4& raw, const float (&operand)[kOperands][8],
                                       const uint4 (&tensors)[larger(1, Visitor::kTensors)]) {
        u32 words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            const float2 pair = Element::unpack(words[w]);
            float y[2] = {pair.x, pair.y};
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const int k = 2 * w + h;
                float column[larger(1, Visitor::kColumns)], tensor[larger(1, Visitor::kTensors)];
#pragma unroll
                for (int c = 0; c < Visitor::kColumns; ++c) column[c] = operand[2 + c][k];
#pragma unroll
                for (int t = 0; t < Visitor::kTensors; ++t) {
                    const u32 word = w == 0 ? tensors[t].x : w == 1 ? tensors[t].y : w == 2 ? tensors[t].z : tensors[t].w;
                    const float2 both = Element::unpack(word);
                    tensor[t] = h ? both.y : both.x;
                }
                y[h] = Visitor::after(fmaf(y[h], operand[0][k], operand[1][k]), column, tensor, e.visitor);
            }
            words[w] = Element::pack(y[0], y[1]);
        }
        return {words[0], words[1], words[2], words[3]};
    }
};

}  // namespace coda
