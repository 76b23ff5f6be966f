// Kernels for what stands between the contractions of a network, and for contractions that the tensor cores' kernels do not serve.
// One thread makes an octet of neighbouring channels of a pixel, or one element; any grid serves any extent.
#pragma once
#include "grid.cuh"
#include "math.cuh"
#include "operands.cuh"
#include "plain_params.cuh"
#include "visitor.cuh"

namespace unisono::plain {

struct Octet {
    float of[8];
};

template <class Element> UNISONO_DEVICE Octet load_octet(const PlainTensor& tensor, u64 row, u32 channel) {
    const auto octet = TensorSource<Element>{tensor.memory}.octet(row * tensor.pitch + channel);
    Octet x;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 pair = octet.pair(i);
        x.of[2 * i] = pair.x, x.of[2 * i + 1] = pair.y;
    }
    return x;
}

template <class Element> UNISONO_DEVICE void store_octet(const PlainTensor& tensor, u64 row, u32 channel, const Octet& x) {
    u16* at = static_cast<u16*>(const_cast<void*>(tensor.memory)) + row * tensor.pitch + channel;
    *reinterpret_cast<uint4*>(at) = {Element::pack(x.of[0], x.of[1]), Element::pack(x.of[2], x.of[3]), Element::pack(x.of[4], x.of[5]),
                                     Element::pack(x.of[6], x.of[7])};
}

// --- the border of the network: any order of memory and any float type outside ---------------------------------

UNISONO_DEVICE float load_caller(const CallerTensor& t, i64 offset) {
    if (t.type == 0) return __ldg(static_cast<const float*>(t.memory) + offset);
    const u16 bits = __ldg(static_cast<const u16*>(t.memory) + offset);
    return t.type == 1 ? Bf16::unpack(bits).x : F16::unpack(bits).x;
}
UNISONO_DEVICE void store_caller(const CallerTensor& t, i64 offset, float x) {
    if (t.type == 0)
        static_cast<float*>(t.memory)[offset] = x;
    else
        static_cast<u16*>(t.memory)[offset] = u16(t.type == 1 ? Bf16::pack(x, 0.f) : F16::pack(x, 0.f));
}

// The offset of what is padding outside. Strides may be negative, and so may any other offset.
constexpr i64 kNowhere = i64(u64(1) << 63);

// Where channel `channel` of the network's tensor lies outside: columns to the right, and elements from the pixel there.
struct BorderChannel {
    i64 offset;
    int column;
    UNISONO_DEVICE BorderChannel(const BorderParams& p, const CallerTensor& t, u32 channel) {
        const u32 tap = p.taps == 1 ? 0 : channel / p.channels;
        offset = i64(channel - tap * p.channels) * t.strides[3], column = int(tap) * p.dilation - p.pad;
    }
};
struct BorderPixel {
    i64 offset;  // of its line outside
    int column;  // there, of the first tap without padding
    UNISONO_DEVICE BorderPixel(const BorderParams& p, const CallerTensor& t, u32 row) {
        const u32 line = row / p.width, image = line / p.height;
        offset = image * t.strides[0] + (line - image * p.height) * t.strides[1], column = int(row - line * p.width) * p.stride;
    }
};

// A block's part of the border at a time: so many channels of so many pixels, turned round in shared memory. Outside, neighbouring
// threads have what lies together there, pixels or channels; in the arena, octets of a pixel and then pixels.
constexpr u32 kBorderThreads = 256, kBorderElements = 4096;
struct BorderTile {
    float* elements;  // [channel][pixel], a channel pixels + 1 apart
    u32 channels_shift, pixels_shift;
    UNISONO_DEVICE u32 channels() const { return 1u << channels_shift; }
    UNISONO_DEVICE u32 pixels() const { return 1u << pixels_shift; }
    UNISONO_DEVICE float& at(u32 channel, u32 pixel) const { return elements[channel * (pixels() + 1) + pixel]; }
};

UNISONO_DEVICE Octet load_caller_octet(const CallerTensor& t, i64 offset) {
    const PlainTensor at{static_cast<const char*>(t.memory) + offset * (t.type == 0 ? 4 : 2), 0};
    if (t.type == 0) return load_octet<float>(at, 0, 0);
    return t.type == 1 ? load_octet<Bf16>(at, 0, 0) : load_octet<F16>(at, 0, 0);
}
UNISONO_DEVICE void store_caller_octet(const CallerTensor& t, i64 offset, const Octet& x) {
    const PlainTensor at{static_cast<const char*>(t.memory) + offset * (t.type == 0 ? 4 : 2), 0};
    if (t.type == 1) return store_octet<Bf16>(at, 0, 0, x);
    if (t.type == 2) return store_octet<F16>(at, 0, 0, x);
    float4* const to = static_cast<float4*>(const_cast<void*>(at.memory));
    to[0] = {x.of[0], x.of[1], x.of[2], x.of[3]}, to[1] = {x.of[4], x.of[5], x.of[6], x.of[7]};
}

// Whether all elements lie together outside, channels first and then pixels, from an address that octets are read and written at.
UNISONO_DEVICE bool is_packed(const BorderParams& p, const CallerTensor& t) {
    const i64 line = i64(p.columns) * p.channels;
    return p.taps == 1 && t.strides[3] == 1 && t.strides[2] == p.channels && t.strides[1] == line && t.strides[0] == line * p.height &&
           reinterpret_cast<size_t>(t.memory) % 32 == 0;
}

// Calls outside(offset or kNowhere, element) for each element of a tile, and inside(row, first channel, pixel, channel in the tile, tile) for each
// octet of the arena. Entering: outside first.
template <bool kEnter, class Outside, class Inside>
UNISONO_DEVICE void turn_border(const BorderParams& p, const CallerTensor& t, const Outside& outside, const Inside& inside) {
    __shared__ float elements[kBorderElements + 64];
    __shared__ i64 lines[kBorderElements / 8], offsets[64];
    __shared__ int columns[kBorderElements / 8], shifts[64];
    const u32 all = p.channels * p.taps;
    BorderTile tile{elements, 3, 9};
    while (tile.channels_shift < 6 && tile.channels() < all) ++tile.channels_shift, --tile.pixels_shift;
    const u32 rows = p.images * p.height * p.width, across = (all - 1) / tile.channels() + 1;
    const u32 tiles = ((rows - 1) / tile.pixels() + 1) * across;
    const bool by_channel = t.strides[3] == 1;
    for (u32 i = blockIdx.x; i < tiles; i += gridDim.x) {
        const u32 row = i / across * tile.pixels(), channel = i % across * tile.channels();
        const u32 pixels = rows - row < tile.pixels() ? rows - row : tile.pixels();
        const u32 channels = all - channel < tile.channels() ? all - channel : tile.channels();
        for (u32 j = threadIdx.x; j < pixels; j += kBorderThreads) {
            const BorderPixel pixel(p, t, row + j);
            lines[j] = pixel.offset, columns[j] = pixel.column;
        }
        if (threadIdx.x < channels) {
            const BorderChannel c(p, t, channel + threadIdx.x);
            offsets[threadIdx.x] = c.offset, shifts[threadIdx.x] = c.column;
        }
        __syncthreads();
        auto without = [&] {
#pragma unroll 4
            for (u32 j = threadIdx.x; j < kBorderElements; j += kBorderThreads) {
                const u32 x = by_channel ? j >> tile.channels_shift : j & (tile.pixels() - 1);
                const u32 c = by_channel ? j & (tile.channels() - 1) : j >> tile.pixels_shift;
                if (x >= pixels || c >= channels) continue;
                const int w = columns[x] + shifts[c];
                outside(u32(w) < p.columns ? lines[x] + w * t.strides[2] + offsets[c] : kNowhere, tile.at(c, x));
            }
        };
        auto within = [&] {
#pragma unroll 2
            for (u32 j = threadIdx.x; j < kBorderElements / 8; j += kBorderThreads) {
                const u32 x = j >> (tile.channels_shift - 3), c = 8 * (j & (tile.channels() / 8 - 1));
                if (x < pixels && c < channels) inside(row + x, channel, x, c, tile);
            }
        };
        if (kEnter) without(); else within();
        __syncthreads();
        if (kEnter) within(); else without();
        __syncthreads();
    }
}

// Whether octets of channels lie together outside too, as 16 or 32 aligned bytes.
UNISONO_DEVICE bool has_octets(const BorderParams& p, const CallerTensor& t) {
    const i64 all = p.channels | t.strides[0] | t.strides[1] | t.strides[2] | i64(reinterpret_cast<size_t>(t.memory) >> (t.type == 0 ? 2 : 1));
    return all % 8 == 0 && t.strides[3] == 1;
}
// Then calls visit(row, channel, offset or kNowhere) for each octet.
template <class Visit> UNISONO_DEVICE void for_octets(const BorderParams& p, const CallerTensor& t, const Visit& visit) {
    const u32 octets = p.channels * p.taps / 8;
    const u64 count = u64(p.images) * p.height * p.width * octets;
#pragma unroll 2
    for (u64 i = first_index(); i < count; i += index_step()) {
        const u32 row = count >> 32 ? u32(i / octets) : u32(i) / octets, channel = 8 * u32(i - u64(row) * octets);
        const BorderPixel pixel(p, t, row);
        const BorderChannel c(p, t, channel);
        const int w = pixel.column + c.column;
        visit(row, channel, u32(w) < p.columns ? pixel.offset + w * t.strides[2] + c.offset : kNowhere);
    }
}

// Packed outside, but not by octets of channels (seventeen heatmaps, say): eight neighbours there or here a thread, which reads them one by one,
// mostly from L1. Channels beyond the last are written as zero.
template <class Element> UNISONO_DEVICE void enter_packed(const BorderParams& p, const CallerTensor& t) {
    const u32 octets = (p.channels - 1) / 8 + 1, rows = p.images * p.height * p.width;
#pragma unroll 2
    for (u64 i = first_index(); i < u64(rows) * octets; i += index_step()) {
        const u32 row = i >> 32 ? u32(i / octets) : u32(i) / octets, channel = 8 * u32(i - u64(row) * octets);
        Octet x;
#pragma unroll
        for (u32 k = 0; k < 8; ++k) x.of[k] = channel + k < p.channels ? load_caller(t, i64(row) * p.channels + channel + k) : 0.f;
        store_octet<Element>(p.arena, row, channel, x);
    }
}
template <class Element> UNISONO_DEVICE void leave_packed(const BorderParams& p, const CallerTensor& t) {
    const u64 count = u64(p.images) * p.height * p.width * p.channels;
#pragma unroll 2
    for (u64 i = 8 * first_index(); i < count; i += 8 * index_step()) {
        u32 row = i >> 32 ? u32(i / p.channels) : u32(i) / p.channels, channel = u32(i - u64(row) * p.channels);
        const u16* from = static_cast<const u16*>(p.arena.memory) + row * p.arena.pitch + channel;
        const u32 here = count - i < 8 ? u32(count - i) : 8;
        Octet x;
#pragma unroll
        for (u32 k = 0; k < 8; ++k) {
            x.of[k] = k < here ? Element::unpack(__ldg(from)).x : 0.f;
            ++from;
            if (++channel == p.channels) channel = 0, from += p.arena.pitch - p.channels;
        }
        if (here == 8) store_caller_octet(t, i64(i), x);
        else
            for (u32 k = 0; k < here; ++k) store_caller(t, i64(i + k), x.of[k]);
    }
}

// Channels beyond the last are written as zero.
template <class Element> UNISONO_DEVICE void enter(const BorderParams& p) {
    const CallerTensor t = *p.caller;
    if (has_octets(p, t))
        return for_octets(p, t, [&](u32 row, u32 channel, i64 offset) {
            store_octet<Element>(p.arena, row, channel, offset == kNowhere ? Octet{} : load_caller_octet(t, offset));
        });
    if (is_packed(p, t)) return enter_packed<Element>(p, t);
    turn_border<true>(
        p, t, [&](i64 offset, float& element) { element = offset == kNowhere ? 0.f : load_caller(t, offset); },
        [&](u32 row, u32 channel, u32 pixel, u32 c, const BorderTile& tile) {
            Octet x;
#pragma unroll
            for (u32 k = 0; k < 8; ++k) x.of[k] = channel + c + k < p.channels * p.taps ? tile.at(c + k, pixel) : 0.f;
            store_octet<Element>(p.arena, row, channel + c, x);
        });
}
template <class Element> UNISONO_DEVICE void leave(const BorderParams& p) {
    const CallerTensor t = *p.caller;
    if (has_octets(p, t))
        return for_octets(p, t, [&](u32 row, u32 channel, i64 offset) {
            store_caller_octet(t, offset, load_octet<Element>(p.arena, row, channel));
        });
    if (is_packed(p, t)) return leave_packed<Element>(p, t);
    turn_border<false>(
        p, t, [&](i64 offset, float& element) { store_caller(t, offset, element); },
        [&](u32 row, u32 channel, u32 pixel, u32 c, const BorderTile& tile) {
            const Octet x = load_octet<Element>(p.arena, row, channel + c);
#pragma unroll
            for (u32 k = 0; k < 8; ++k) tile.at(c + k, pixel) = x.of[k];
        });
}

// --- windows and places of pixels ------------------------------------------------------------------------------

// The octet, column and line, and image of thread i's output; octets first.
struct Pixel {
    u32 octet, w, h, n;
    UNISONO_DEVICE Pixel(u64 i, u32 octets, u32 width, u32 height) {
        octet = u32(i % octets), i /= octets;
        w = u32(i % width), i /= width;
        h = u32(i % height), n = u32(i / height);
    }
    UNISONO_DEVICE u64 row(u32 width, u32 height) const { return (u64(n) * height + h) * width + w; }
};

// Taps [first, last) of a window from `start` on that lie in [low, high).
struct Taps {
    int first, last;
    UNISONO_DEVICE Taps(int start, int kernel, int dilation, int low, int high) {
        first = smaller(start >= low ? 0 : divide_up(low - start, dilation), kernel);
        last = larger(smaller(start >= high ? 0 : divide_up(high - start, dilation), kernel), first);
    }
    UNISONO_DEVICE int count() const { return last - first; }
};

template <class Element> UNISONO_DEVICE void pool(const PoolParams& p) {
    const u64 count = u64(p.images) * p.out_height * p.out_width * p.octets;
    for (u64 i = first_index(); i < count; i += index_step()) {
        const Pixel at(i, p.octets, p.out_width, p.out_height);
        const int top = int(at.h) * p.stride_h - p.pad_top, left = int(at.w) * p.stride_w - p.pad_left;
        const Taps lines(top, p.kernel_h, p.dilation_h, 0, int(p.height)), columns(left, p.kernel_w, p.dilation_w, 0, int(p.width));
        Octet y;
#pragma unroll
        for (int k = 0; k < 8; ++k) y.of[k] = p.average ? 0.f : -__int_as_float(0x7f800000);
        for (int r = lines.first; r < lines.last; ++r)
            for (int s = columns.first; s < columns.last; ++s) {
                const u64 row = (u64(at.n) * p.height + u32(top + r * p.dilation_h)) * p.width + u32(left + s * p.dilation_w);
                const Octet x = load_octet<Element>(p.from, row, 8 * at.octet);
#pragma unroll
                for (int k = 0; k < 8; ++k) y.of[k] = p.average ? y.of[k] + x.of[k] : math::max(y.of[k], x.of[k]);
            }
        if (p.average) {
            int terms = lines.count() * columns.count();
            if (p.count_pad)
                terms = Taps(top, p.kernel_h, p.dilation_h, -p.pad_top, int(p.height) + p.pad_bottom).count() *
                        Taps(left, p.kernel_w, p.dilation_w, -p.pad_left, int(p.width) + p.pad_right).count();
#pragma unroll
            for (int k = 0; k < 8; ++k) y.of[k] /= float(terms);
        }
        store_octet<Element>(p.to, at.row(p.out_width, p.out_height), 8 * at.octet, y);
    }
}

UNISONO_DEVICE Octet between(const Octet& low, const Octet& high, float weight) {
    Octet y;
#pragma unroll
    for (int k = 0; k < 8; ++k) y.of[k] = (1.f - weight) * low.of[k] + weight * high.of[k];
    return y;
}

template <class Element> UNISONO_DEVICE void resize(const ResizeParams& p) {
    const u64 count = u64(p.images) * p.out_height * p.out_width * p.octets;
    for (u64 i = first_index(); i < count; i += index_step()) {
        const Pixel at(i, p.octets, p.out_width, p.out_height);
        auto source = [&](int h, int w) { return load_octet<Element>(p.from, (u64(at.n) * p.height + u32(h)) * p.width + u32(w), 8 * at.octet); };
        const int top = __ldg(p.row_low + at.h), left = __ldg(p.column_low + at.w);
        Octet y = source(top, left);
        if (p.row_weight != nullptr) {
            const int bottom = __ldg(p.row_high + at.h), right = __ldg(p.column_high + at.w);
            const float across = __ldg(p.column_weight + at.w);
            y = between(between(y, source(top, right), across), between(source(bottom, left), source(bottom, right), across),
                        __ldg(p.row_weight + at.h));
        }
        store_octet<Element>(p.to, at.row(p.out_width, p.out_height), 8 * at.octet, y);
    }
}

// --- copies ------------------------------------------------------------------------------------------------------

UNISONO_DEVICE u16 filling(u32 value, u16) { return u16(value); }
UNISONO_DEVICE uint4 filling(u32 value, uint4) {
    const u32 pair = value | value << 16;
    return {pair, pair, pair, pair};
}

template <class Unit> UNISONO_DEVICE void copy(const CopyParams& p) {
    for (u64 i = first_index(); i < p.count; i += index_step()) {
        u32 rest = u32(i);
        i64 from = 0, to = 0;
        bool inside = true;
#pragma unroll
        for (int d = kCopyRank - 1; d >= 0; --d) {
            const int index = int(rest % p.extents[d]), place = index - p.before[d];
            rest /= p.extents[d];
            to += index * p.to_strides[d], from += place * p.from_strides[d];
            inside = inside && place >= 0 && u32(place) < p.source[d];
        }
        static_cast<Unit*>(p.to)[to] = inside ? __ldg(static_cast<const Unit*>(p.from) + from) : filling(p.value, Unit());
    }
}

UNISONO_DEVICE i64 offset_of(u32 index, const u32 (&extents)[kCopyRank], const i64 (&strides)[kCopyRank]) {
    i64 offset = 0;
#pragma unroll
    for (int d = kCopyRank - 1; d >= 0; --d) offset += index % extents[d] * strides[d], index /= extents[d];
    return offset;
}
UNISONO_DEVICE void reshape(const ReshapeParams& p) {
    for (u64 i = first_index(); i < p.count; i += index_step())
        static_cast<u16*>(p.to)[offset_of(u32(i), p.to_extents, p.to_strides)] =
            __ldg(static_cast<const u16*>(p.from) + offset_of(u32(i), p.from_extents, p.from_strides));
}

// --- contractions, one output a thread ---------------------------------------------------------------------------

// The input line that tap r of output line y reads; below 0 if none, as far as it is not beyond the image's end.
UNISONO_DEVICE int source_line(const DirectParams& p, int y, int r, int stride, int pad, int dilation) {
    if (!p.transposed) return y * stride - pad + r * dilation;
    const int line = y + pad - r * dilation;
    return line >= 0 && line % stride == 0 ? line / stride : -1;
}

template <class Element> UNISONO_DEVICE void direct(const DirectParams& p) {
    const u64 count = u64(p.images) * p.out_height * p.out_width * p.outputs;
    for (u64 i = first_index(); i < count; i += index_step()) {
        const Pixel at(i, p.outputs, p.out_width, p.out_height);
        const u32 output = at.octet;  // one channel here
        const u16* from = static_cast<const u16*>(p.from) + output / p.group_outputs * p.group_channels * p.from_channel;
        const u16* filter = static_cast<const u16*>(p.filter) + output * p.filter_output;
        float sum = 0.f;
        for (int r = 0; r < p.taps_h; ++r) {
            const int h = source_line(p, int(at.h), r, p.stride_h, p.pad_h, p.dilation_h);
            if (h < 0 || h >= int(p.height)) continue;
            for (int s = 0; s < p.taps_w; ++s) {
                const int w = source_line(p, int(at.w), s, p.stride_w, p.pad_w, p.dilation_w);
                if (w < 0 || w >= int(p.width)) continue;
                const u16* pixel = from + ((i64(at.n) * p.height + h) * p.width + w) * p.from_pixel;
                const u16* tap = filter + (r * p.taps_w + s) * p.filter_tap;
                for (u32 c = 0; c < p.group_channels; ++c)
                    sum = fmaf(Element::unpack(__ldg(pixel + c * p.from_channel)).x, Element::unpack(__ldg(tap + c * p.filter_channel)).x, sum);
            }
        }
        static_cast<float*>(const_cast<void*>(p.to.memory))[at.row(p.out_width, p.out_height) * p.to.pitch + output] = sum;
    }
}

}  // namespace unisono::plain
