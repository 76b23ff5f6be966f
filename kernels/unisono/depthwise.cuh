// Convolutions whose groups have one input channel: every product is of elements of one channel, so that there is nothing for matrix
// instructions to add up, and memory bounds them. Ordinary multiplications, nothing staged but the filters.
//
// A thread computes kVector neighbouring channels of a strip of the output, kWide pixels wide and some lines high, in f32. It reads the lines of
// the image under them from the top, each once, as vectors of channels (16 bytes for 8 of 16 bits), kAhead lines ahead of their use; widens each
// element once; and multiplies it by all taps of the filter that some output of the strip has there, at most R lines of sums at a time. A line of
// outputs that is complete goes through the epilogue. At stride 1 an input is so loaded (kWide + S - 1) / kWide times, and a little more where strips
// meet, mostly from L1. Of dilation d a strip's pixels are d apart, and d x d such lattices fill the image: the taps of one meet
// again in the same inputs.
//
// A block has kTileN channels, of which its filters lie in shared memory as f32, [tap][channel]; threads that differ by one have neighbouring
// vectors of channels, then neighbouring strips. Those of a size that is known stay in registers. The order of every sum is that of
// the taps: the same bits each run.
//
// A configuration is a struct:
//   using Element = Bf16, F16 or Tf32;
//   static constexpr int kWide, kVector, kTileN, kThreads, kBlocks;   // kBlocks: that an SM has registers for
//   static constexpr int kTapsH, kTapsW, kStrideH, kStrideW;   // kTapsH 0: of any filter, stride and dilation, tap by tap, each from memory
//   static constexpr int kMultiplier;                          // output channels of an input channel: divides kVector
//   static constexpr bool kGeneral;                            // the visitor is one of general.cuh, without any reduction
#pragma once
#include "folds.cuh"
#include "grid.cuh"
#include "resample.cuh"
#include "visitor.cuh"

namespace unisono {

// So many bytes that lie together, aligned to their number or to 16.
template <int kBytes> struct Bundle {
    static constexpr int kWords = larger(1, kBytes / 4);
    static_assert(kBytes == 2 || kBytes == 4 || kBytes == 8 || kBytes % 16 == 0, "what one or several loads bring");
    u32 word[kWords];

    static UNISONO_DEVICE Bundle load(const void* from) {
        Bundle b;
        if constexpr (kBytes == 2) b.word[0] = __ldg(static_cast<const u16*>(from));
        else if constexpr (kBytes == 4) b.word[0] = __ldg(static_cast<const u32*>(from));
        else if constexpr (kBytes == 8) {
            const uint2 both = __ldg(static_cast<const uint2*>(from));
            b.word[0] = both.x, b.word[1] = both.y;
        } else {
#pragma unroll
            for (int i = 0; i < kBytes / 16; ++i) {
                const uint4 four = __ldg(static_cast<const uint4*>(from) + i);
                b.word[4 * i] = four.x, b.word[4 * i + 1] = four.y, b.word[4 * i + 2] = four.z, b.word[4 * i + 3] = four.w;
            }
        }
        return b;
    }
    UNISONO_DEVICE void store(void* to) const {
        if constexpr (kBytes == 4) *static_cast<u32*>(to) = word[0];
        else if constexpr (kBytes == 8) *static_cast<uint2*>(to) = {word[0], word[1]};
        else {
#pragma unroll
            for (int i = 0; i < kBytes / 16; ++i) static_cast<uint4*>(to)[i] = {word[4 * i], word[4 * i + 1], word[4 * i + 2], word[4 * i + 3]};
        }
    }
};

template <class Config, class Visitor> struct Depthwise {
    using Element = typename Config::Element;
    using Word = typename Element::Word;
    using Params = KernelParams<0, typename Visitor::Params>;
    static constexpr int kWide = Config::kWide, kVector = Config::kVector, kTileN = Config::kTileN, kThreads = Config::kThreads, kBlocks = Config::kBlocks;
    static constexpr int kR = Config::kTapsH, kS = Config::kTapsW, kStrideH = Config::kStrideH, kStrideW = Config::kStrideW;
    static constexpr int kInputs = kVector / Config::kMultiplier, kBytes = kInputs * int(sizeof(Word));  // of a load
    static constexpr int kVectors = kTileN / kVector, kStrips = kThreads / kVectors;                     // of a block: across, along the pixels
    static constexpr bool kAnyFilter = kR == 0;
    static constexpr int kTaps = larger(1, kR * kS);
    static constexpr int kColumnsIn = (kWide - 1) * kStrideW + kS, kOverlap = larger(1, divide_up(kR, kStrideH));  // lines of outputs that read an input's
    static constexpr int kAhead = kColumnsIn * kBytes > 48 ? 1 : 2;
    static constexpr int kFilterPitch = kTileN + 4;  // floats from tap to tap
    static constexpr int kTensors = Visitor::kTensors, kColumns = Visitor::kColumnsAfter;
    static_assert(kThreads % kVectors == 0 && kTileN % kVector == 0 && kVector % Config::kMultiplier == 0, "threads, and vectors, are whole");
    static_assert(Visitor::kTensorsBefore == 0 && Visitor::kColumnsBefore == 0 && !Visitor::kRaw, "nothing is normalised");

    using Line = Bundle<kBytes>[larger(1, kColumnsIn)];
    using Sums = float[kWide][kVector];  // of a line of outputs
    using Columns = float[kVector][larger(1, kColumns)];
    using Tensors = float[kVector][larger(1, kTensors)];
    using Uniform = typename Visitor::Uniform;
    struct Finish;

    const Params& params;
    const DepthwiseImage& image;
    const float* filter;  // of this thread's channels
    const Word* base;     // of the image, its first channel of this thread
    int channel, n;       // the first output channel; the image
    int h, w;             // the first output pixel

    UNISONO_DEVICE const ConvGeometry& geometry() const { return params.fixed.geometry; }

    // The first pixel of tile i along an axis, of which a lattice has every step-th pixel.
    static UNISONO_DEVICE int first_pixel(u32 i, int each, int step) {
        if (step == 1) return int(i) * each;
        return int(i) / step * (each * step) + int(i) % step;
    }

    static UNISONO_DEVICE void run(const Params& params) {
        begin();
        UNISONO_DYNAMIC_SHARED(memory);
        float* const filters = reinterpret_cast<float*>(memory);
        const ConvGeometry& g = params.fixed.geometry;
        const DepthwiseImage& image = reinterpret_cast<const DepthwiseImage&>(params.fixed.activation);
        static_assert(sizeof(DepthwiseImage) <= sizeof(TensorMap) && sizeof(DepthwiseFilter) <= sizeof(TensorMap) && sizeof(PitchedOutput) <= sizeof(TensorMap), "they stand in the maps' places");
        const u32 group = divided(blockIdx.x, image.by_channel_tiles);
        const int first_channel = int(blockIdx.x - group * g.tiles_n) * kTileN;
        load_filters(params, filters, first_channel);
        __syncthreads();
        const int vector = int(threadIdx.x) % kVectors, channel = first_channel + vector * kVector;
        const u32 strip = group * kStrips + threadIdx.x / kVectors;
        if (channel >= g.channels || strip >= image.strips) return;
        // Images, bands of neighbouring lines of strips, columns, lines: so that a block's strips share most of their edges
        const u32 n = divided(strip, image.by_image), of_image = strip - n * image.image_strips;
        const u32 band = divided(of_image, image.by_band), of_band = of_image - band * image.band_strips;
        const u32 column = divided(of_band, image.by_lines), line = of_band - column * image.band_lines + band * image.band_lines;
        const Word* const base = static_cast<const Word*>(image.memory) + n * image.step_image + channel / Config::kMultiplier;
        const int h = first_pixel(line, image.strip_lines, image.lattice_h), w = first_pixel(column, kWide, image.lattice_w);
        const Depthwise thread{params, image, filters + vector * kVector, base, channel, int(n), h, w};
        if constexpr (kAnyFilter) thread.multiply_taps();
        else thread.slide();
    }

    // (K, R, S) as [tap][channel]; zero for channels that do not exist.
    static UNISONO_DEVICE void load_filters(const Params& params, float* filters, int first_channel) {
        const ConvGeometry& g = params.fixed.geometry;
        const Word* const from = static_cast<const Word*>(reinterpret_cast<const DepthwiseFilter&>(params.fixed.filter).memory);
        const int taps = kAnyFilter ? g.taps_h * g.taps_w : kR * kS;
        for (int i = int(threadIdx.x); i < taps * kTileN; i += kThreads) {
            const int c = i / taps, tap = i - c * taps;
            filters[tap * kFilterPitch + c] = first_channel + c < g.channels ? widened(Element(), __ldg(from + size_t(first_channel) * taps + i)) : 0.f;
        }
    }

    // This thread's channels of a tap.
    UNISONO_DEVICE void load_tap(int tap, float (&f)[kVector]) const {
        const float* at = filter + tap * kFilterPitch;
        if constexpr (kVector == 2) {
            const float2 pair = *reinterpret_cast<const float2*>(at);
            f[0] = pair.x, f[1] = pair.y;
        } else {
#pragma unroll
            for (int v = 0; v < kVector; v += 4) {
                const float4 four = *reinterpret_cast<const float4*>(at + v);
                f[v] = four.x, f[v + 1] = four.y, f[v + 2] = four.z, f[v + 3] = four.w;
            }
        }
    }

    static UNISONO_DEVICE void widen(const Bundle<kBytes>& from, float (&x)[kInputs]) {
        if constexpr (sizeof(Word) == 4) {
#pragma unroll
            for (int v = 0; v < kInputs; ++v) x[v] = widened(Element(), from.word[v]);
        } else if constexpr (kInputs == 1) {
            x[0] = widened(Element(), u16(from.word[0]));
        } else {
#pragma unroll
            for (int v = 0; v < kInputs / 2; ++v) {
                const float2 pair = Element::unpack(from.word[v]);
                x[2 * v] = pair.x, x[2 * v + 1] = pair.y;
            }
        }
    }

    static UNISONO_DEVICE Bundle<kBytes> load(bool exists, const Word* from) { return exists ? Bundle<kBytes>::load(from) : Bundle<kBytes>{}; }

    // Where the columns of the next line under this thread's pixels lie, and which are in the image.
    struct Lines {
        const Word* at[larger(1, kColumnsIn)];
        i64 step;  // from line to line, in elements
        int y, step_y;
        int end[larger(1, kColumnsIn)];  // of the lines that are read; of columns outside 0

        // The next line; outside the image zeros.
        UNISONO_DEVICE void load(Line& line) {
#pragma unroll
            for (int j = 0; j < kColumnsIn; ++j) {
                line[j] = Depthwise::load(unsigned(y) < unsigned(end[j]), at[j]);
                at[j] += step;
            }
            y += step_y;
        }
    };
    UNISONO_DEVICE Lines first_lines() const {
        const ConvGeometry& g = geometry();
        Lines all;
        all.y = h * kStrideH - g.pad_h, all.step_y = g.dilation_h, all.step = g.dilation_h * image.step_h;
        const int end = larger(0, smaller(image.height, all.y + ((image.strip_lines - 1) * kStrideH + kR - 1) * g.dilation_h + 1));
        const int left = w * kStrideW - g.pad_w;
        const Word* const first = base + all.y * image.step_h + left * image.step_w;
        const i64 step = g.dilation_w * image.step_w;
#pragma unroll
        for (int j = 0; j < kColumnsIn; ++j) {
            all.at[j] = first + j * step;
            all.end[j] = unsigned(left + j * g.dilation_w) < unsigned(image.width) ? end : 0;
        }
        return all;
    }

    // Filters of a size that is known: each input is widened once, and multiplied by all taps that meet it.
    UNISONO_DEVICE void slide() const {
        const Finish finish(*this);
        float kept[kTaps][kVector];
#pragma unroll
        for (int tap = 0; tap < kTaps; ++tap) load_tap(tap, kept[tap]);
        Lines next = first_lines();
        Line line[kAhead + 1];
#pragma unroll
        for (int i = 0; i < kAhead; ++i) next.load(line[i]);
        Sums sums[kOverlap];  // of output lines t, t - 1, …
#pragma unroll
        for (int k = 0; k < kOverlap; ++k) clear(sums[k]);
        if (group<true>(0, next, line, kept, sums, finish)) return;
#pragma unroll 1
        for (int first = kOverlap;; first += kOverlap)
            if (group<false>(first, next, line, kept, sums, finish)) return;
    }
    // So many output lines that the registers have changed round: t = first, first + 1, … The first lines of a strip have none ahead of them; lines
    // behind the last are computed, and not stored. Whether the strip is complete.
    template <bool kFirst> UNISONO_DEVICE bool group(int first, Lines& next, Line (&line)[kAhead + 1], const float (&kept)[kTaps][kVector], Sums (&sums)[kOverlap], const Finish& finish) const {
#pragma unroll
        for (int i = 0; i < kOverlap; ++i) {
#pragma unroll
            for (int u = 0; u < kStrideH; ++u) {
                next.load(line[kAhead]);
                add_line(kFirst ? i : kOverlap - 1, u, line[0], kept, sums);
#pragma unroll
                for (int a = 0; a < kAhead; ++a) copy(line[a], line[a + 1]);
            }
            const int done = first + i - kOverlap + 1;
            if (!kFirst || i == kOverlap - 1) {
                finish.line(done, sums[kOverlap - 1]);
                if (done + 1 == image.strip_lines) return true;
            }
#pragma unroll
            for (int k = kOverlap - 1; k > 0; --k) copy(sums[k], sums[k - 1]);
        }
        return false;
    }

    static UNISONO_DEVICE void clear(Sums& sums) {
#pragma unroll
        for (int q = 0; q < kWide; ++q)
#pragma unroll
            for (int v = 0; v < kVector; ++v) sums[q][v] = 0.f;
    }
    static UNISONO_DEVICE void copy(Sums& to, const Sums& from) {
#pragma unroll
        for (int q = 0; q < kWide; ++q)
#pragma unroll
            for (int v = 0; v < kVector; ++v) to[q][v] = from[q][v];
    }
    static UNISONO_DEVICE void copy(Line& to, const Line& from) {
#pragma unroll
        for (int j = 0; j < kColumnsIn; ++j) to[j] = from[j];
    }
    static UNISONO_DEVICE void multiply(float (&sum)[kVector], const float (&x)[kInputs], const float (&f)[kVector]) {
#pragma unroll
        for (int v = 0; v < kVector; ++v) sum[v] = x[v / Config::kMultiplier] * f[v];
    }
    static UNISONO_DEVICE void add(float (&sum)[kVector], const float (&x)[kInputs], const float (&f)[kVector]) {
#pragma unroll
        for (int v = 0; v < kVector; ++v) sum[v] = fmaf(x[v / Config::kMultiplier], f[v], sum[v]);
    }

    // Line u of the step of output line t, to which it is under tap u; it is under tap u + k·stride of output line t - k, if k is at most `most`.
    UNISONO_DEVICE void add_line(int most, int u, const Line& line, const float (&kept)[kTaps][kVector], Sums (&sums)[kOverlap]) const {
        float x[kColumnsIn][kInputs];
#pragma unroll
        for (int j = 0; j < kColumnsIn; ++j) widen(line[j], x[j]);
#pragma unroll
        for (int k = 0; k < kOverlap; ++k) {
            const int r = u + k * kStrideH;
            if (r >= kR || k > most) continue;
#pragma unroll
            for (int s = 0; s < kS; ++s)
#pragma unroll
                for (int q = 0; q < kWide; ++q) {
                    if (r == 0 && s == 0) multiply(sums[k][q], x[q * kStrideW], kept[0]);
                    else add(sums[k][q], x[q * kStrideW + s], kept[r * kS + s]);
                }
        }
    }

    // Any filter, stride and dilation.
    UNISONO_DEVICE void multiply_taps() const {
        const ConvGeometry& g = geometry();
        const Finish finish(*this);
        const int left = w * g.stride_w - g.pad_w;
        const Word* const from = base + left * image.step_w;
#pragma unroll 1
        for (int p = 0; p < image.strip_lines; ++p) {
            Sums sums;
            clear(sums);
#pragma unroll 1
            for (int r = 0; r < g.taps_h; ++r) {
                const int y = (h + p) * g.stride_h - g.pad_h + r * g.dilation_h;
                if (unsigned(y) >= unsigned(image.height)) continue;
#pragma unroll 1
                for (int s = 0; s < g.taps_w; ++s) {
                    float f[kVector];
                    load_tap(r * g.taps_w + s, f);
                    Bundle<kBytes> of[kWide];
#pragma unroll
                    for (int q = 0; q < kWide; ++q) {
                        const int x = q * g.stride_w + s * g.dilation_w;
                        of[q] = load(unsigned(left + x) < unsigned(image.width), from + y * image.step_h + x * image.step_w);
                    }
#pragma unroll
                    for (int q = 0; q < kWide; ++q) {
                        float x[kInputs];
                        widen(of[q], x);
                        add(sums[q], x, f);
                    }
                }
            }
            finish.line(p, sums);
        }
    }

    // --- the epilogue ------------------------------------------------------------------------------------------

    UNISONO_DEVICE const PitchedOutput& output() const { return reinterpret_cast<const PitchedOutput&>(params.fixed.output); }

    // What the lines of a strip share.
    struct Finish {
        const Depthwise& of;
        const Uniform uniform;
        u8* to;                   // the main store's first pixel
        i64 step_h, step_w;       // from there, in bytes
        int m;                    // of the first pixel
        bool inside[kWide];
        Columns columns;

        explicit UNISONO_DEVICE Finish(const Depthwise& thread) : of(thread), uniform(Visitor::uniform(thread.params.visitor)) {
            const ConvGeometry& g = of.geometry();
            const i64 pitch = 2 * of.output().pitch;
            m = (of.n * g.height + of.h) * g.width + of.w;
            to = static_cast<u8*>(of.output().memory) + m * pitch + 2 * of.channel;
            step_w = pitch * of.image.lattice_w, step_h = pitch * g.width * of.image.lattice_h;
#pragma unroll
            for (int q = 0; q < kWide; ++q) inside[q] = of.w + q * of.image.lattice_w < g.width;
#pragma unroll
            for (int v = 0; v < kVector; ++v) Visitor::columns_after(of.params.visitor, uniform, of.n, of.channel + v, columns[v]);
        }
        UNISONO_DEVICE void line(int p, const Sums& sums) const {
            const int down = p * of.image.lattice_h, first = m + down * of.geometry().width;
            const bool exists = of.h + down < of.geometry().height;
            u8* const line = to + p * step_h;
#pragma unroll
            for (int q = 0; q < kWide; ++q) {
                const Where at{of.n, first + q * of.image.lattice_w};
                const Target target{exists && inside[q], line + q * step_w};
                if constexpr (!Config::kGeneral) of.finish_plain(at, target, sums[q], columns, uniform);
                else if (target.exists) of.finish_general(at, target, sums[q], columns, uniform);
            }
        }
    };

    // Where the main store has this thread's channels of a pixel, if there is one.
    struct Target {
        bool exists;
        u8* memory;
    };
    UNISONO_DEVICE u64 offset(const Where& at) const { return u64(at.m) * geometry().channels + channel; }

    template <int i> UNISONO_DEVICE void load_tensors(const Where& at, bool exists, Tensors& tensors) const {
        if constexpr (i < kTensors) {
            const auto source = Visitor::template tensor<i>(params.visitor);
            constexpr int kEach = decltype(source)::kElementBytes;
            using Each = Bundle<kVector * kEach>;
            const Each all = exists ? Each::load(static_cast<const u8*>(source.memory) + offset(at) * kEach) : Each{};
#pragma unroll
            for (int v = 0; v < kVector / 2; ++v) {
                float2 pair;
                if constexpr (kEach == 4) pair = {__uint_as_float(all.word[2 * v]), __uint_as_float(all.word[2 * v + 1])};
                else if constexpr (kEach == 2) pair = source.unpack(all.word[v]);
                else pair = source.unpack(all.word[v / 2] >> 16 * (v % 2));
                tensors[2 * v][i] = pair.x, tensors[2 * v + 1][i] = pair.y;
            }
            load_tensors<i + 1>(at, exists, tensors);
        }
    }

    using Packed = Bundle<2 * kVector>;
    UNISONO_DEVICE void store_side(const Where& at, const Packed& packed) const { packed.store(static_cast<u16*>(params.fixed.side_memory) + offset(at)); }

    UNISONO_DEVICE void finish_plain(const Where& at, const Target& target, const float (&sum)[kVector], const Columns& columns, const Uniform& uniform) const {
        Tensors tensors;
        load_tensors<0>(at, target.exists, tensors);
        Packed packed, beside;
#pragma unroll
        for (int v = 0; v < kVector; v += 2) {
            packed.word[v / 2] = Visitor::Output::pack(Visitor::after(sum[v], 0.f, columns[v], tensors[v], uniform),
                                                       Visitor::after(sum[v + 1], 0.f, columns[v + 1], tensors[v + 1], uniform));
            if constexpr (Visitor::kSide != SideStore::kNone)
                beside.word[v / 2] = Visitor::Side::pack(Visitor::side(sum[v], columns[v], tensors[v], uniform), Visitor::side(sum[v + 1], columns[v + 1], tensors[v + 1], uniform));
        }
        if (!target.exists) return;
        packed.store(target.memory);
        if constexpr (Visitor::kSide != SideStore::kNone) store_side(at, beside);
    }

    UNISONO_DEVICE void finish_general(const Where& at, const Target& target, const float (&sum)[kVector], const Columns& columns, const Uniform& uniform) const {
        static_assert(!Config::kGeneral || general_fits(), "reductions take the kernels with tiles");
        float none[1];
        Tensors tensors;
        load_tensors<0>(at, true, tensors);
        const typename Visitor::Row row = Visitor::row(params.visitor, uniform, at);
        if constexpr (Visitor::kRowEnds) {
            if (channel == 0) Visitor::close_row(params.visitor, uniform, at, row, none);
        }
        if constexpr (Visitor::kElements) {
            Packed packed, beside;
#pragma unroll
            for (int v = 0; v < kVector; v += 2) {
                const auto left = Visitor::element(sum[v], columns[v], tensors[v], uniform, row, at, channel + v, true, none);
                const auto right = Visitor::element(sum[v + 1], columns[v + 1], tensors[v + 1], uniform, row, at, channel + v + 1, true, none);
                if constexpr (Visitor::kTiled > 0) packed.word[v / 2] = Visitor::Output::pack(Visitor::tiled(left, 0), Visitor::tiled(right, 0));
                if constexpr (Visitor::kTiled > 1) beside.word[v / 2] = Visitor::Side::pack(Visitor::tiled(left, 1), Visitor::tiled(right, 1));
                Visitor::put(params.visitor, offset(at) + v, left, right);
            }
            if constexpr (Visitor::kTiled > 0) packed.store(target.memory);
            if constexpr (Visitor::kTiled > 1) store_side(at, beside);
        }
    }
    static UNISONO_DEVICE constexpr bool general_fits() {
        if constexpr (Config::kGeneral) return Visitor::kLevels == 0 && Visitor::kDomains == 0;
        else return true;
    }
};

}  // namespace unisono
