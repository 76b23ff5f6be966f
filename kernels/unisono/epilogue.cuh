// What a consumer warpgroup does with a tile's accumulators: visitors, statistics, normalisation, stores.
// What a visitor supplies is in visitor.cuh.
#pragma once
#include "columns.cuh"
#include "exchange.cuh"
#include "fetch.cuh"
#include "fragment.cuh"
#include "head.cuh"
#include "layout.cuh"
#include "publish.cuh"
#include "row_groups.cuh"
#include "row_statistics.cuh"
#include "tensors.cuh"
#include "tiles.cuh"
#include "tma.cuh"
#include "visitor.cuh"
#include "wgmma.cuh"

namespace unisono {

enum class Norm {
    kNone,
    kResident,  // accumulators wait in registers for the image's statistics
    kStreamed,  // centred values wait in shared memory while the next tile is multiplied; if the image is not complete by then, in the
                // output's place in memory
    kRows,      // over the channels of one pixel, all of which are in the tile: nothing is exchanged
    kGeneral,   // none of these; rows have values of their own, reductions are read or stored: general.cuh
};

// What only a general epilogue's visitor says: how many results TMA stores, and the shared memory of its reductions.
template <class Config, class Visitor, bool kGeneral> struct GeneralNeeds {
    static constexpr int kTiled = 1, kFoldBytes = 0;
    static constexpr bool kMeets = false;
};
template <class Config, class Visitor> struct GeneralNeeds<Config, Visitor, true> {
    static constexpr int kTiled = Visitor::kTiled;
    static constexpr bool kMeets = Config::kMeets;
    static constexpr int kFoldWords = larger(Visitor::kChannelFolds + 2 * Visitor::kMoments, Returns<Visitor>::words());
    static constexpr int kFoldOnly = 16 * (kFoldWords * Config::kTileN + Visitor::kTileFolds + 1), kFoldBytes = kFoldOnly + RowGroups<Config, Visitor>::kBytes;
};

// The rows and channels of a tile that one warpgroup holds.
template <class Rows> struct Place {
    int image, slot, first_channel;
    Rows rows;
};

template <class Config, class Visitor> struct Epilogue {
    using Element = typename Config::Element;
    using EpilogueVisitor = Visitor;
    static constexpr bool kByPhases = OperandsOf<Config>::Type::kPhases;
    static constexpr int kPhases = kByPhases ? 4 : 1;
    using Rows = RowsIn<Config>;
    using At = Place<Rows>;
    static constexpr int kN = Config::kTileN;
    static constexpr bool kSwap = Config::kSwap;
    static constexpr int kPixels = Config::kWarpgroupRows, kBlocks = kPixels / 64;  // rows, and blocks of them
    static constexpr int kAccBlocks = kSwap ? kN / 64 : kBlocks, kAccCount = kSwap ? kPixels / 2 : kN / 2;
    using Accumulators = float[kAccBlocks][kAccCount];  // fragment.cuh
    static constexpr Norm kNorm = Config::kNorm;
    static constexpr Stores kStores = stores_of<Config>(0);
    static_assert(kStores == Stores::kTma || kNorm != Norm::kStreamed, "the second pass loads and stores by TMA");
    using Resample = typename ResampleOf<Config>::Type;
    static_assert(Resample::kMaps == 0 || !kByPhases, "what is resampled is no phase");
    static_assert(Resample::kMaps == 0 || kStores == Stores::kTma, "what is resampled goes through TMA");
    static_assert(!Resample::kPooled || Config::kPatch, "the 2x2 pixels of a window are in one slice of a patch");
    using Head = typename HeadOf<Config>::Type;
    static_assert(Head::kEights == 0 || (kStores == Stores::kTma && !kByPhases && Config::kClusterN == 1 && kNorm != Norm::kGeneral),
                  "a head multiplies rows that are staged whole");
    static constexpr bool kExchange = kNorm == Norm::kResident || kNorm == Norm::kStreamed;
    using Needs = GeneralNeeds<Config, Visitor, kNorm == Norm::kGeneral>;
    static constexpr int kMoments = moments_of<Config>(0);  // channels of an entry of moment_store.cuh
    static_assert(kMoments == 0 || kNorm == Norm::kNone, "moments are stored of what the launch does not normalise");
    static constexpr int kUnit = kMoments > 0 ? kMoments : Config::kUnit;
    static_assert(kN % kUnit == 0, "a unit of channels does not cross tiles");
    static_assert(!kSwap || (kN % 64 == 0 && kPixels <= 256), "a matrix instruction has 64 rows, here channels, and at most 256 columns");
    // Channels first, a resident tile is centred by its channels' means where it lies, which costs nothing beside M2.
    static constexpr bool kCentred = kSwap && kNorm == Norm::kResident && !Visitor::kRaw;

    // Stores go in slices of 16 rows x kSlice channels, each by one warp. Pixels first, a warp writes its slices itself: no barrier
    // between warps. Channels first, all four warps write to each of four slices, which are stored after a barrier.
    static constexpr int kSlice = kN % 64 == 0 ? 64 : kN % 32 == 0 ? 32 : kN % 16 == 0 ? 16 : 8;
    static constexpr int kSliceBytes = 16 * kSlice * 2;
    static constexpr int kSlices = kN / kSlice;
    static constexpr int kStoresPerTile = kBlocks * kSlices;  // bulk groups that a warp commits
    static constexpr int kStoreBuffers = Config::kStoreBuffers;
    // Narrow slices are stored several at a time, behind one fence: as many as have 64 channels, if the others' buffers are free meanwhile.
    static constexpr int kStoreGroup = kStoreBuffers == kStoresPerTile || kStoreBuffers % (2 * (64 / kSlice)) == 0 ? 64 / kSlice : 1;
    // Operands that arrive in the staging buffers: fetch.cuh. Of those ahead of a normalisation, if any of these can be, else of `after`.
    static constexpr int kFetch = fetch_of<Config>(0);
    static constexpr bool kFetchBefore = kNorm != Norm::kNone && fetchable_tensors<Visitor, 0, Visitor::kTensorsBefore>() > 0;
    static constexpr int kFetchFirst = kFetchBefore ? 0 : Visitor::kTensorsBefore, kFetchEnd = kFetchBefore ? Visitor::kTensorsBefore : Visitor::kTensors;
    static constexpr int kStaging = divide_up(larger(kSliceBytes * kStoreBuffers, kExchange ? kN * 8 : 0), 1024) * 1024;  // a warp
    // Moments of the warps' rows, later scratch: in the staging buffers, or apart where those hold a tile or are being stored.
    static constexpr bool kApart = kNorm == Norm::kStreamed || kMoments > 0 || (kExchange && kFetch > 0 && !kFetchBefore);
    static constexpr int kMomentBytes = kApart ? kN * 8 : kStaging;  // a warp
    static constexpr int kScratch = smaller(larger(128, kN + 126), (4 * kMomentBytes - kN * 4) / int(sizeof(Moments)));
    static_assert(kNorm != Norm::kStreamed || kStoreBuffers == kStoresPerTile, "the staging buffers hold a whole tile");
    static_assert(!kSwap || kStoreBuffers >= smaller(2, kStoresPerTile), "four warps write a slice while the one before is stored");

    // Column values in shared memory: the visitor's for `before`, those for `after` (unless the second pass has them), then mean,
    // factor, shift of the normalisation; the operands of the last two lie in their place until the statistics are known.
    static constexpr bool kNormalises = kExchange || kNorm == Norm::kRows, kRows = kNorm == Norm::kRows, kSecondPass = kNorm == Norm::kStreamed;
    static constexpr int kBefore = kNormalises ? Visitor::kColumnsBefore : 0, kAfter = kSecondPass ? 0 : Visitor::kColumnsAfter;
    static constexpr int kLate = divide_up(int(sizeof(typename Visitor::Late)), 4);  // words of a channel
    static constexpr int kMean = kBefore + kAfter, kFactor = kMean + 1, kShift = kMean + 2;
    static constexpr int kColumns = kMean + (kNormalises && !kRows ? kSecondPass ? 1 : 1 + larger(2, kLate) : 0);
    static constexpr int kTensorsBefore = kNormalises ? Visitor::kTensorsBefore : 0, kTensorsAfter = Visitor::kTensors - Visitor::kTensorsBefore;

    // The second store has staging buffers of its own; the second pass writes it from registers.
    static constexpr SideStore kSide = Visitor::kSide;
    static_assert(kNormalises || kSide != SideStore::kBefore, "without a normalisation everything is `after`");
    static constexpr int kSideBuffers = kSide == SideStore::kBefore ? smaller(2, kStoresPerTile) : kSide == SideStore::kAfter && !kSecondPass ? kStoreBuffers : 0;
    static constexpr int kSideStaging = kSideBuffers * kSliceBytes;  // a warp
    static constexpr int kSideOffset = divide_up(4 * kStaging + kColumns * kN * 4 + (kApart ? 4 * kMomentBytes : 0), 1024) * 1024;
    static constexpr int kFoldOffset = divide_up(kSideBuffers > 0 ? kSideOffset + 4 * kSideStaging : 4 * kStaging + kColumns * kN * 4 + (kApart ? 4 * kMomentBytes : 0), 16) * 16;
    static constexpr int kFetchOffset = divide_up(kFoldOffset + Needs::kFoldBytes, 1024) * 1024;
    static constexpr int kWarpgroupBytes = kFetch > 1 ? kFetchOffset + (kFetch - 1) * 4 * kStoreBuffers * kSliceBytes : kFoldOffset + Needs::kFoldBytes;
    static_assert(kFetch <= fetchable_tensors<Visitor, kFetchFirst, kFetchEnd>(), "operands that are fetched have 16 bits");
    static_assert(kFetch == 0 || (kStores == Stores::kTma && !kByPhases && !kSecondPass), "staging buffers that operands arrive in");

    const ConvParams& fixed;
    const ConvGeometry& geometry;
    const NormParams& norm;
    const typename Visitor::Params& visitor;
    const typename Visitor::Uniform& uniform;
    u8* const memory;  // this warpgroup's kWarpgroupBytes, aligned as a swizzled slice needs
    const int thread;   // in the warpgroup
    const int barrier;  // a named barrier of the warpgroup
    const u32 epoch;
    Accumulators& acc;
    const Trace& trace;
    const TensorMap* const further;  // Resample::kMaps, or phase_maps(); then those of fetched operands
    const u32 fetch_barriers;        // Fetch::kBarriers
    u32 fetch_parity = 0;            // a bit for each staging buffer

    UNISONO_DEVICE float* columns() const { return reinterpret_cast<float*>(memory + 4 * kStaging); }
    UNISONO_DEVICE u8* staging(int warp) const { return memory + warp * kStaging; }
    UNISONO_DEVICE u8* moments(int warp) const { return (kApart ? memory + 4 * kStaging + kColumns * kN * 4 : memory) + warp * kMomentBytes; }
    UNISONO_DEVICE void sync() const { named_barrier(barrier, 128); }

    UNISONO_DEVICE u8* side_staging(int warp, int i) const { return memory + kSideOffset + warp * kSideStaging + i * kSliceBytes; }

    // Column values of a thread's channels: columns.cuh.
    static constexpr int kLateColumns = kNorm == Norm::kResident && sizeof(typename Visitor::Late) >= 4 ? kLate : 0, kLoaded = kBefore + kAfter + kLateColumns;
    using Columns = TileColumns<Epilogue>;

    // Tensor operands [kFirst, kEnd) on their way; for_pairs takes them pair by pair, and loads ahead up to pair `end`.
    template <int kFirst, int kEnd, int kFetched = 0> using Ring = typename TensorsOf<kStores, Visitor, kFirst, kEnd, kSwap, kSlice, kSlices, kFetched>::Type;
    static constexpr int kPairs = kStoresPerTile * (kSlice / 4);  // of a tile, a lane

    // The offset of an element of the output.
    UNISONO_DEVICE u64 offset_of(const At& at, int m, int channel) const { return output_offset<kStores>(geometry, at, m, channel); }

    // Calls f(x, y, columns of x, columns of y, tensors of x, tensors of y) for each pair of neighbours x, y of block b and slice s in
    // the order in which a slice is packed, with tensor operands [kFirst, kEnd): neighbouring channels of a row, or channels first
    // neighbouring rows of a channel.
    template <int kFirst, int kEnd, class F> UNISONO_DEVICE void for_pairs(const At& at, int b, int s, F&& f) const {
        const int first = (b * kSlices + s) * (kSlice / 4), end = first + kSlice / 4;
        Ring<kFirst, kEnd> ring{visitor, geometry, thread / 32, thread & 31};
        ring.open(first, end, at);
        for_pairs<kFirst, kEnd>(at, b, s, ring, end, f);
    }
    template <int kFirst, int kEnd, class Tensors, class F> UNISONO_DEVICE void for_pairs(const At& at, int b, int s, Tensors& ring, int end, F&& f) const {
        const int warp = thread / 32, lane = thread & 31;
        int p = (b * kSlices + s) * (kSlice / 4);
        if constexpr (kSwap) {
            float column[2][larger(1, kColumns)];
#pragma unroll
            for (int half = 0; half < 2; ++half)
#pragma unroll
                for (int c = 0; c < kColumns; ++c) column[half][c] = columns()[c * kN + 64 * s + 16 * warp + lane / 4 + 8 * half];
#pragma unroll
            for (int j = 0; j < 8; ++j)
#pragma unroll
                for (int half = 0; half < 2; ++half, ++p) {
                    float t1[larger(1, kEnd - kFirst)] = {}, t2[larger(1, kEnd - kFirst)] = {};
                    ring.take(p, end, t1, t2, at);
                    float* pair = acc[s] + 4 * (8 * b + j) + 2 * half;
                    f(pair[0], pair[1], column[half], column[half], t1, t2);
                }
        } else {
#pragma unroll
            for (int i = 0; i < kSlice / 8; ++i) {
                const int j = s * (kSlice / 8) + i, n = 8 * j + 2 * (lane & 3);
                float one[larger(1, kColumns)], two[larger(1, kColumns)];
#pragma unroll
                for (int c = 0; c < kColumns; ++c) {
                    const float2 pair = *reinterpret_cast<const float2*>(columns() + c * kN + n);
                    one[c] = pair.x, two[c] = pair.y;
                }
#pragma unroll
                for (int half = 0; half < 2; ++half, ++p) {
                    float t1[larger(1, kEnd - kFirst)] = {}, t2[larger(1, kEnd - kFirst)] = {};
                    ring.take(p, end, t1, t2, at);
                    f(acc[b][4 * j + 2 * half], acc[b][4 * j + 2 * half + 1], one, two, t1, t2);
                }
            }
        }
    }

    // Before the first of several slices is written: the staging buffers are free, of every warp whose buffers this one writes.
    UNISONO_DEVICE void open_staging() const {
        if ((thread & 31) == 0) tma_store_wait_read<0>();
        if constexpr (kSwap) sync();
        else __syncwarp();
    }
    // What this warp writes of block b and slice s to staging buffers `stride` bytes apart from warp to warp.
    UNISONO_DEVICE void write_slice(u8* first_warp, int stride, const u32 (&packed)[kSlice / 4]) const {
        const int warp = thread / 32, lane = thread & 31;
        if constexpr (kSwap) write_channels(first_warp, stride, packed, warp, lane);
        else write_rows<kSlice>(first_warp + warp * stride, packed, lane);
    }
    // Once this warp's part of the slices is written: they are whole, and those of kBuffers - 1 slices ago are free (kFetches: when their
    // operands have come).
    template <int kBuffers, bool kFetches = false> UNISONO_DEVICE void close_slice() const {
        fence_async_shared();
        if constexpr (kSwap) {
            if (!kFetches && (thread & 31) == 0) tma_store_wait_read<larger(0, kBuffers - 2)>();
            sync();
        } else {
            __syncwarp();
        }
    }

    // The accumulators become the input of the normalisation; the second store, if it comes from here, is on its way.
    UNISONO_DEVICE void apply_before(const At& at) {
        const int warp = thread / 32, lane = thread & 31;
        constexpr bool kFetches = kFetch > 0 && kFetchBefore;
        Ring<0, kTensorsBefore, kFetches ? kFetch : 0> ring{visitor, geometry, warp, lane};
        const Fetch<Epilogue> fetch{*this};
        ring.open(0, kPairs, at);
        if constexpr (kSwap && kSide == SideStore::kBefore) open_staging();
#pragma unroll
        for (int b = 0; b < kBlocks; ++b)
#pragma unroll
            for (int s = 0; s < kSlices; ++s) {
                u32 packed[kSlice / 4];
                int pair = 0;
                if constexpr (kFetches) fetch.await((b * kSlices + s) % kStoreBuffers, ring);
                for_pairs<0, kTensorsBefore>(at, b, s, ring, kPairs, [&](float& x, float& y, const float* one, const float* two, const float* t1, const float* t2) {
                    const float v = as_float(x), w = as_float(y);
                    if constexpr (kSide == SideStore::kBefore)
                        packed[pair++] = Visitor::Side::pack(Visitor::side(v, one, t1, uniform), Visitor::side(w, two, t2, uniform));
                    x = as_float(Visitor::before(v, one, t1, uniform));
                    y = as_float(Visitor::before(w, two, t2, uniform));
                });
                if constexpr (kSide == SideStore::kBefore) {
                    const int place = (b * kSlices + s) % kSideBuffers;
                    if (!kSwap && lane == 0) tma_store_wait_read<kSideBuffers - 1>();
                    if (!kSwap) __syncwarp();
                    write_slice(side_staging(0, place), kSideStaging, packed);
                    close_slice<kSideBuffers>();
                    if constexpr (kStores != Stores::kTma) store_plain(fixed.side, side_staging(warp, place), at, 64 * b + 16 * warp, s * kSlice);
                    else if (lane == 0) store_slice(side_map(at), side_staging(warp, place), at, 64 * b + 16 * warp, s * kSlice), tma_store_commit();
                }
                if constexpr (kFetches) fetch.refill_read(at, b * kSlices + s);
            }
    }

    // Tensor maps of the pixels of the tile's parity phase.
    UNISONO_DEVICE const TensorMap& output_map(const At& at) const { return map_of(fixed.output, 0, at); }
    UNISONO_DEVICE const TensorMap& side_map(const At& at) const { return map_of(fixed.side, 3, at); }
    UNISONO_DEVICE const TensorMap& map_of(const TensorMap& first, int others, const At& at) const {
        if constexpr (kByPhases) return at.rows.phase == 0 ? first : further[others + at.rows.phase - 1];
        else return first;
    }

    UNISONO_DEVICE const TensorMap& fetch_map(int i) const { return further[Resample::kMaps + i]; }

    static UNISONO_DEVICE void store_slice(const TensorMap& map, const u8* buffer, const At& at, int m, int slice) {
        delay_point();
        tma_store_4d(map, shared_address(buffer), at.first_channel + slice, at.rows.store_x(m), at.rows.store_y(m), at.image);
    }

    // A slice of the main store, to every place that TMA writes it to.
    UNISONO_DEVICE void store_main(const u8* buffer, const At& at, int m, int slice) const {
        if constexpr (!Head::kOnly) store_slice(output_map(at), buffer, at, m, slice);
#pragma unroll
        for (int i = 0; i < Resample::kCopies; ++i) store_slice(further[i], buffer, at, m, slice);
    }

    // The largest of each 2x2 pixels of a slice that this warp, or its warpgroup, has written and synchronised: a lane has 16 bytes of one of
    // the four windows in 2 lines of 8 pixels. Windows that hang over the image's edge have no place in the result.
    UNISONO_DEVICE void store_pooled(const u8* buffer, const At& at, int m, int slice) const {
        if constexpr (Resample::kPooled) {
            constexpr int kChunks = kSlice / 8;
            const int lane = thread & 31, chunk = lane % kChunks, window = lane / kChunks;
            const int line = (at.rows.top + m / 8) / 2, pixel = at.rows.left / 2 + window, channel = at.first_channel + slice + 8 * chunk;
            if (window >= 4 || line >= geometry.height / 2 || pixel >= geometry.width / 2 || channel >= geometry.channels) return;
            auto load = [&](int row) { return *reinterpret_cast<const uint4*>(buffer + SliceSwizzle<kSlice>::offset(row, chunk)); };
            using Element = typename Visitor::Output;
            const uint4 upper = largest<Element>(load(2 * window), load(2 * window + 1)), lower = largest<Element>(load(8 + 2 * window), load(9 + 2 * window));
            const PooledOutput& to = reinterpret_cast<const PooledOutput&>(further[Resample::kCopies]);
            const u64 row = (u64(at.image) * (geometry.height / 2) + line) * (geometry.width / 2) + pixel;
            delay_point();
            *reinterpret_cast<uint4*>(static_cast<u16*>(to.memory) + row * to.pitch + channel) = largest<Element>(upper, lower);
        }
    }

    // The head's sums over a slice that this warp, or its warpgroup, has written and synchronised; with a row's last slice its values are stored.
    using HeadTile = HeadProduct<Head, Visitor, kSlice, kN>;
    UNISONO_DEVICE const auto& head_params() const { return reinterpret_cast<const typename HeadTile::Params&>(further[Resample::kMaps + kFetch]); }
    UNISONO_DEVICE void begin_head(HeadTile& head, const At& at) const {
        if constexpr (Head::kEights > 0) head.begin(head_params(), at.image, geometry.channels, thread & 31);
    }
    UNISONO_DEVICE void multiply_by_head(HeadTile& head, const u8* buffer, const At& at, int m, int slice) const {
        if constexpr (Head::kEights > 0) {
            const auto& params = head_params();
            if (slice == 0) head.open();
            head.add(params, buffer, at.first_channel + slice, geometry.channels, thread & 31);
            if (slice == kN - kSlice) head.store(params, at, geometry.rows, m, thread & 31);
        }
    }

    // A slice by a warp's ordinary stores; the map's place holds a PlainOutput.
    UNISONO_DEVICE void store_plain(const TensorMap& map, const u8* buffer, const At& at, int m, int slice) const {
        u16* memory = static_cast<u16*>(reinterpret_cast<const PlainOutput&>(map).memory);
        delay_point();
#pragma unroll
        for (int i = 0; i < kSlice / 2; ++i) {
            const int element = i * 32 + (thread & 31);  // neighbours in a warp are neighbours in memory
            const int row = kStores == Stores::kPlanes ? element % 16 : element / kSlice, n = kStores == Stores::kPlanes ? element / 16 : element % kSlice;
            const int channel = at.first_channel + slice + n;
            if (at.rows.valid(m + row) && channel < geometry.channels)
                memory[offset_of(at, m + row, channel)] = *reinterpret_cast<const u16*>(buffer + SliceSwizzle<kSlice>::offset(row, n / 8) + n % 8 * 2);
        }
    }

    // The moments of this warpgroup's rows, written to its slot. Leaves their units' means in column kMean; if kCentred their channels',
    // which the accumulators have been centred by.
    UNISONO_DEVICE void reduce_and_publish(const At& at) {
        if (!kApart) {
            if ((thread & 31) == 0) tma_store_wait_read<0>();  // the staging buffers are about to be reused
            if constexpr (kSwap) sync();
        }
        __syncwarp();
        const bool full = at.rows.all_valid(kPixels);
        Publisher<Epilogue>{*this}.publish(at, full);
        sync();
    }

    // Waits for the image's statistics; then columns kMean, kFactor and kShift hold the normalisation: of x, or if kCentred of
    // x - column kMean.
    UNISONO_DEVICE void load_statistics(const At& at) const {
        constexpr int kAtOnce = kAccBlocks * kAccCount <= 96 && Config::kTileWarpgroups * Config::kTurns == 2 ? 8 : 4;
        float* column = columns() + kMean * kN;
        const GroupStatistics<WarpgroupCrew<kAtOnce>, kN, kScratch, kUnit> statistics(norm, {thread, barrier}, reinterpret_cast<Moments*>(moments(0)), epoch,
                                                                             at.image, at.first_channel, geometry.channels);
        statistics.gather();
        trace.mark(6);
        statistics.emit(
            at.slot == 0,
            [&](int, int n, float mean, float variance) {
                typename Visitor::Late late;
                if constexpr (sizeof(late) >= 4) {
#pragma unroll
                    for (int i = 0; i < kLate; ++i) reinterpret_cast<float*>(&late)[i] = column[(1 + i) * kN + n];
                }
                const float2 affine = Visitor::affine(late, uniform, mean, variance);
                column[kN + n] = affine.x;
                if constexpr (kCentred) column[2 * kN + n] = fmaf(column[n] - mean, affine.x, affine.y);
                else column[n] = mean, column[2 * kN + n] = affine.y;
            },
            [&](int group, float mean, float variance) { record(at.image, group, mean, variance); });
    }

    UNISONO_DEVICE void record(int image, int group, float mean, float variance) const {
        if constexpr (Visitor::kStatistics) Visitor::statistics(visitor, uniform, image, group, mean, variance);
    }

    // Pixels first: before slice `i` of a tile is written by this warp, which stores kTogether slices at a time.
    template <int kTogether> UNISONO_DEVICE void await_buffers(int i) const {
        if (i % kTogether != 0 || (kStoreBuffers == kStoresPerTile && i > 0)) return;
        if ((thread & 31) == 0) {
            if (i == 0 && (kStoresPerTile % kStoreBuffers != 0 || kStoreBuffers == kStoresPerTile)) tma_store_wait_read<0>();
            else tma_store_wait_read<kStoreBuffers / kTogether - 1>();
        }
        __syncwarp();
    }

    // Stores f(accumulator, columns, tensors, row as in row_statistics.cuh) of the whole tile, slice by slice, through this
    // warp's staging buffers, and g of the same as the second store if kBoth.
    template <int kFirst, int kEnd, bool kBoth, class F, class G> UNISONO_DEVICE void store(const At& at, F&& f, G&& g) {
        const int warp = thread / 32, lane = thread & 31;
        constexpr bool kFetches = kFetch > 0 && kFirst < kEnd && !kFetchBefore;
        constexpr int kTogether = kSwap || kFetches || kStores != Stores::kTma ? 1 : kStoreGroup;
        Ring<kFirst, kEnd, kFetches ? kFetch : 0> ring{visitor, geometry, warp, lane};
        const Fetch<Epilogue> fetch{*this};
        ring.open(0, kPairs, at);
        HeadTile head;
        begin_head(head, at);
        if constexpr (kSwap && !kFetches) open_staging();
#pragma unroll
        for (int b = 0; b < kBlocks; ++b)
#pragma unroll
            for (int s = 0; s < kSlices; ++s) {
                const int place = (b * kSlices + s) % kStoreBuffers;
                u32 packed[kSlice / 4], beside[kBoth ? kSlice / 4 : 1];
                int pair = 0;
                if constexpr (kFetches) fetch.await(place, ring);
                for_pairs<kFirst, kEnd>(at, b, s, ring, kPairs, [&](float& own_x, float& own_y, const float* one, const float* two, const float* t1, const float* t2) {
                    const float x = as_float(own_x), y = as_float(own_y);
                    const int row = 2 * b + (pair & 1);
                    packed[pair] = Visitor::Output::pack(f(x, one, t1, row), f(y, two, t2, row));
                    if constexpr (kMoments > 0) {
                        const float2 stored = Visitor::Output::unpack(packed[pair]);
                        own_x = as_float(stored.x), own_y = as_float(stored.y);
                    }
                    if constexpr (kBoth) beside[pair] = Visitor::Side::pack(g(x, one, t1, row), g(y, two, t2, row));
                    ++pair;
                });
                if constexpr (!kSwap && !kFetches) await_buffers<kTogether>(b * kSlices + s);
                write_slice(staging(0) + place * kSliceBytes, kStaging, packed);
                if constexpr (kBoth) write_slice(side_staging(0, place), kSideStaging, beside);
                if ((b * kSlices + s + 1) % kTogether != 0 && b * kSlices + s + 1 < kStoresPerTile) continue;
                close_slice<kStoreBuffers, kFetches>();
                const int first = (b * kSlices + s) / kTogether * kTogether;
#pragma unroll
                for (int i = first; i <= b * kSlices + s; ++i) {
                    u8* const buffer = staging(warp) + i % kStoreBuffers * kSliceBytes;
                    const int m = 64 * (i / kSlices) + 16 * warp, slice = i % kSlices * kSlice;
                    if constexpr (kStores != Stores::kTma) {
                        store_plain(fixed.output, buffer, at, m, slice);
                        if constexpr (kBoth) store_plain(fixed.side, side_staging(warp, i % kStoreBuffers), at, m, slice);
                    } else if (lane == 0) {
                        store_main(buffer, at, m, slice);
                        if constexpr (kBoth) store_slice(side_map(at), side_staging(warp, i % kStoreBuffers), at, m, slice);
                        if (i == b * kSlices + s) tma_store_commit();
                    }
                    store_pooled(buffer, at, m, slice);
                    multiply_by_head(head, buffer, at, m, slice);
                }
                if constexpr (kFetches) fetch.refill(at, b * kSlices + s);
            }
    }

    UNISONO_DEVICE void store_result(const At& at) {
        RowAffine rows[2 * kBlocks];
        if constexpr (kRows) RowStatistics<Epilogue>{*this}.of(rows);
        // The difference first: exact where x is near the mean, so a large common offset costs no bits.
        auto normalised = [&](float x, const float* column, int row) {
            if constexpr (kRows) return fmaf(x - rows[row].mean, rows[row].factor, rows[row].shift);
            else if constexpr (kCentred) return fmaf(x, column[kFactor], column[kShift]);
            else if constexpr (kNormalises) return fmaf(x - column[kMean], column[kFactor], column[kShift]);
            else return x;
        };
        store<Visitor::kTensors - kTensorsAfter, Visitor::kTensors, kSide == SideStore::kAfter>(
            at,
            [&](float x, const float* column, const float* tensor, int row) {
                return Visitor::after(normalised(x, column, row), x, column + kBefore, tensor, uniform);
            },
            [&](float x, const float* column, const float* tensor, int row) {
                if constexpr (kSide == SideStore::kAfter) return Visitor::side(normalised(x, column, row), column + kBefore, tensor, uniform);
                else return 0.f;
            });
    }

    // Leaves the centred values in the staging buffers, which a barrier completes.
    UNISONO_DEVICE void keep_centred(const At& at) const {
        open_staging();
#pragma unroll
        for (int b = 0; b < kBlocks; ++b)
#pragma unroll
            for (int s = 0; s < kSlices; ++s) {
                u32 packed[kSlice / 4];
                int pair = 0;
                for_pairs<0, 0>(at, b, s, [&](float x, float y, const float* one, const float* two, const float*, const float*) {
                    packed[pair++] = Visitor::Output::pack(as_float(x) - one[kMean], as_float(y) - two[kMean]);
                });
                write_slice(staging(0) + (b * kSlices + s) * kSliceBytes, kStaging, packed);
            }
        fence_async_shared();
    }
};

}  // namespace unisono
