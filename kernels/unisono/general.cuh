// Epilogues beyond a value for each element: values of rows, coordinates, reductions over the channels of a row that elements read,
// functions called for their effect, results [m,n] of any type, none at all, and reductions that are stored (folds.cuh). Pixels first only.
//
// The visitor computes, of a row and of an element, from the accumulators as they are; each level of reductions over a row's channels is
// a pass over the tile. What it supplies beside the members that visitor.cuh names (kTensorsBefore and kColumnsBefore are 0):
//
//   static constexpr int kTiled;             results [m,n] that TMA stores: 0, 1 (Output) or 2 (Output, Side)
//   static constexpr bool kElements;         whether `element` does anything, kRowEnds: whether `close_row` does
//   static constexpr int kLevels;            of reductions over a row's channels
//   static constexpr int row_folds(int level); static constexpr Fold row_fold(int level, int i);
//   struct Row;                              values with axes [m]
//   static Row row(const Params&, const Uniform&, const Where&);               those that need no reduction
//   template <int level> static void contribute(float acc, const float* column, const float* tensor, const Uniform&, const Row&,
//                                               int channel, float* value);    what an element adds to the level's reductions
//   template <int level> static void conclude(const Uniform&, float channels, const float* folded, Row&);  values [m] from their results
//   struct Result;                           an element's results [m,n]
//   static Result element(float acc, const float* column, const float* tensor, const Uniform&, const Row&, const Where&, int channel,
//                         bool exists, float* value);                          and what it adds to channel folds, moments, tile folds
//   static float tiled(const Result&, int i);
//   static void put(const Params&, u64 offset, const Result& x, const Result& y);  stores the other results of two neighbours; one: without y
//   static void close_row(const Params&, const Uniform&, const Where&, const Row&, float* tile_value);  once a row: stores [m]
//   static constexpr int kChannelFolds, kMoments, kTileFolds;
//   static constexpr Fold channel_fold(int i), tile_fold(int i);
//   static constexpr int kDomains; static constexpr FoldDomain domain(int i);
//   template <int domain> static void finish(const Params&, const Uniform&, int image, int group, float rows, float columns,
//                                            const float* folded, const Moments*);   stores what follows from a domain's results
//
// Groups of a row's channels: row_groups.cuh. Reductions over rows that elements read again: returned.cuh.
//
// Config::kWide: several tiles across the channels. What they have of their rows meets in the workspace. If only close_row reads it (one
// level), the last of them concludes the rows. Config::kMeets: all of them read it; each publishes its part, as tagged entries, then waits
// for the others', as in exchange.cuh with a row of tiles in the place of an image: these are neighbours in the order of tiles and all in flight.
#pragma once
#include "epilogue.cuh"
#include "exchange.cuh"
#include "fold_columns.cuh"
#include "returned.cuh"
#include "row_groups.cuh"

namespace unisono {

template <class Config, class Visitor> struct General {
    using Tail = Epilogue<Config, Visitor>;
    using At = typename Tail::At;
    using Row = typename Visitor::Row;
    using Columns = FoldColumns<Config, Visitor>;
    using Groups = RowGroups<Config, Visitor>;
    using Ring = typename Tail::template Ring<0, Visitor::kTensors>;
    using ElementRing = typename Tail::template Ring<0, Visitor::kTensors, Tail::kFetch>;  // of the last pass
    using Returning = Returns<Visitor>;
    static constexpr int kSlice = Tail::kSlice, kSlices = Tail::kSlices, kBlocks = Tail::kBlocks, kRows = 2 * kBlocks, kEach = kSlice / 4;
    static constexpr int kTiled = Visitor::kTiled, kTensors = Visitor::kTensors, kBuffers = Tail::kStoreBuffers;
    static constexpr int kChannelFolds = Visitor::kChannelFolds, kMoments = Visitor::kMoments, kTileFolds = Visitor::kTileFolds;
    static constexpr int kValues = kChannelFolds + kMoments + kTileFolds;
    static constexpr bool kChannels = kChannelFolds + kMoments > 0, kInOrder = !kChannels || kBlocks == 1;
    static constexpr bool kPairs = Tail::kStores == Stores::kTma;  // of neighbouring channels both exist or none
    static constexpr bool kFetches = Tail::kFetch > 0;
    static_assert(!kFetches || (Visitor::kLevels == 0 && kInOrder), "what is fetched is read once, in the order of slices");
    static_assert(!Tail::kSwap, "rows of a tile are a thread's, or four threads'");

    Tail& tail;

    UNISONO_DEVICE int lane() const { return tail.thread & 31; }
    // Row r of this thread, counted from the tile's first.
    UNISONO_DEVICE int row_of(int r) const { return 64 * (r / 2) + tail.thread / 32 * 16 + lane() / 4 + 8 * (r & 1); }
    // Rows that do not exist read the image's first.
    UNISONO_DEVICE Where where(const At& at, int m) const { return {at.image, at.image * tail.geometry.rows + (at.rows.valid(m) ? at.rows.pixel(m) : 0)}; }
    UNISONO_DEVICE bool leads() const { return (lane() & 3) == 0; }
    UNISONO_DEVICE Groups groups() const { return {reinterpret_cast<float*>(tail.memory + Tail::kFoldOffset + Tail::Needs::kFoldOnly), lane()}; }
    // A row as channel n of the tile finds it: with its group's results.
    UNISONO_DEVICE decltype(auto) row_at(const Row& row, int r, int n) const {
        if constexpr (Groups::kAny) {
            Row own = row;
            Visitor::template read_groups<Groups>(own, groups().line(row_of(r)), n);
            return own;
        } else {
            return (row);
        }
    }

    UNISONO_DEVICE void run(const At& at) {
        Row rows[kRows];
#pragma unroll
        for (int r = 0; r < kRows; ++r) rows[r] = Visitor::row(tail.visitor, tail.uniform, where(at, row_of(r)));
        fold_rows<0>(at, rows);
        float whole[larger(1, kTileFolds)];
#pragma unroll
        for (int i = 0; i < kTileFolds; ++i) whole[i] = nothing_of(Visitor::tile_fold(i));
        if constexpr (Visitor::kRowEnds && (!Config::kWide || Config::kMeets || Visitor::kLevels == 0)) {
            if (at.first_channel == 0 && leads()) {
#pragma unroll
                for (int r = 0; r < kRows; ++r)
                    if (at.rows.valid(row_of(r))) close_row(where(at, row_of(r)), rows[r], whole);
            }
        }
        close_groups<0>(at, rows);
        if constexpr (Visitor::kElements) elements(at, rows, whole);
        if constexpr (kValues > 0) {
            const Columns columns{tail};
            columns.add_whole(whole);
            columns.publish(at);
        }
    }

    UNISONO_DEVICE void close_row(const Where& at, const Row& row, float* whole) const {
        float value[larger(1, kTileFolds)];
#pragma unroll
        for (int i = 0; i < kTileFolds; ++i) value[i] = nothing_of(Visitor::tile_fold(i));
        Visitor::close_row(tail.visitor, tail.uniform, at, row, value);
#pragma unroll
        for (int i = 0; i < kTileFolds; ++i) whole[i] = join(Visitor::tile_fold(i), whole[i], value[i]);
    }

    // Results of groups of a row's channels, by the row's four lanes.
    template <int store> UNISONO_DEVICE void close_groups(const At& at, const Row (&rows)[kRows]) const {
        if constexpr (store < Groups::kStores) {
            constexpr int kWidth = Visitor::group_store_width(store);
            const int first = at.first_channel / kWidth, count = smaller(Tail::kN, tail.geometry.channels - at.first_channel) / kWidth;
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                if (!at.rows.valid(row_of(r))) continue;
                for (int g = lane() & 3; g < count; g += 4)
                    Visitor::template close_group<store>(tail.visitor, tail.uniform, where(at, row_of(r)), row_at(rows[r], r, g * kWidth), tail.geometry.channels / kWidth, first + g);
            }
            close_groups<store + 1>(at, rows);
        }
    }

    // The reductions of this and later levels: over the rows' channels, over rows.
    template <int level> UNISONO_DEVICE void fold_rows(const At& at, Row (&rows)[kRows]) {
        if constexpr (level < Visitor::kLevels) {
            constexpr int kFolds = Visitor::row_folds(level), kAll = kFolds + Groups::folds(level);
            float folded[kRows][larger(1, kFolds)];
#pragma unroll
            for (int r = 0; r < kRows; ++r)
#pragma unroll
                for (int i = 0; i < kFolds; ++i) folded[r][i] = nothing_of(Visitor::row_fold(level, i));
            if constexpr (kAll > 0) pass<level>(at, rows, folded);
            if constexpr (kFolds > 0) join_lanes<level>(folded);
            if constexpr (kFolds > 0 && Config::kWide && Config::kMeets) exchange<level>(at, folded);
            if constexpr (Returning::kAny) return_level<level>(at, rows);
            if constexpr (Config::kWide && !Config::kMeets) {
                static_assert(level == 0 && Visitor::kLevels == 1, "several tiles across reduce over channels once");
                meet<kFolds>(at, folded);
            } else {
#pragma unroll
                for (int r = 0; r < kRows; ++r) conclude<level>(folded[r], rows[r]);
                fold_rows<level + 1>(at, rows);
            }
        }
    }

    template <int level, int kCount> UNISONO_DEVICE void conclude(const float (&folded)[kCount], Row& row) const {
        if constexpr (Returning::kAny) {
            float column[larger(1, Tail::kColumns)];
#pragma unroll
            for (int c = 0; c < Tail::kColumns; ++c) column[c] = tail.columns()[c * Tail::kN];
            Visitor::template conclude<level>(tail.uniform, float(tail.geometry.channels), folded, column, row);
        } else {
            Visitor::template conclude<level>(tail.uniform, float(tail.geometry.channels), folded, row);
        }
    }

    template <int level, int kCount> UNISONO_DEVICE void pass(const At& at, const Row (&rows)[kRows], float (&folded)[kRows][kCount]) {
        constexpr int kFolds = Visitor::row_folds(level), kGroupFolds = Groups::folds(level);
        if constexpr (kGroupFolds > 0) {
#pragma unroll
            for (int r = 0; r < kRows; ++r) groups().template open<level>(row_of(r));
            __syncwarp();
        }
        Ring ring{tail.visitor, tail.geometry, tail.thread / 32, lane()};
        ring.open(0, Tail::kPairs, at);
#pragma unroll
        for (int b = 0; b < kBlocks; ++b)
#pragma unroll
            for (int s = 0; s < kSlices; ++s) {
                int pair = 0;
                tail.template for_pairs<0, kTensors>(at, b, s, ring, Tail::kPairs, [&](float x, float y, const float* one, const float* two, const float* t1, const float* t2) {
                    const int r = 2 * b + (pair & 1), chunk = s * kSlice + 8 * (pair / 2), n = chunk + 2 * (lane() & 3), channel = at.first_channel + n;
                    ++pair;
                    const bool exists = channel < tail.geometry.channels, both = kPairs || channel + 1 < tail.geometry.channels;
                    if (kGroupFolds == 0 && !exists) return;
                    float v[kFolds + kGroupFolds], w[kFolds + kGroupFolds];
                    Visitor::template contribute<level>(as_float(x), one, t1, tail.uniform, row_at(rows[r], r, n), channel, v);
                    Visitor::template contribute<level>(as_float(y), two, t2, tail.uniform, row_at(rows[r], r, n + 1), channel + 1, w);
                    if constexpr (kGroupFolds > 0) groups().template add<level>(row_of(r), chunk, v + kFolds, w + kFolds, exists, exists && both);
#pragma unroll
                    for (int i = 0; i < kFolds; ++i) w[i] = both ? w[i] : nothing_of(Visitor::row_fold(level, i));
                    if (kGroupFolds > 0 && !exists) return;
#pragma unroll
                    for (int i = 0; i < kFolds; ++i) folded[r][i] = join(Visitor::row_fold(level, i), folded[r][i], join(Visitor::row_fold(level, i), v[i], w[i]));
                });
            }
        if constexpr (kGroupFolds > 0) {
            __syncwarp();
#pragma unroll
            for (int r = 0; r < kRows; ++r) groups().template close<level>(row_of(r));
            __syncwarp();
        }
    }

    // What elements read again of reductions over rows: published, awaited, and put among the tile's columns.
    template <int level> UNISONO_DEVICE void return_level(const At& at, const Row (&rows)[kRows]) {
        using Folds = ReturnedFolds<Config, Visitor, level>;
        if constexpr (Folds::kDomains > 0) {
            const FoldColumns<Config, Visitor, Folds> own{tail};
            const Shares shares(*this, at);
            Ring ring{tail.visitor, tail.geometry, tail.thread / 32, lane()};
#pragma unroll
            for (int s = 0; s < kSlices; ++s) {
                Slice<Folds> slice;
#pragma unroll
                for (int b = 0; b < kBlocks; ++b) {
                    const int begin = (b * kSlices + s) * kEach;
                    int pair = 0;
                    ring.open(begin, begin + kEach, at);
                    tail.template for_pairs<0, kTensors>(at, b, s, ring, begin + kEach, [&](float x, float y, const float* one, const float* two, const float* t1, const float* t2) {
                        const int r = 2 * b + (pair & 1), first = 2 * (pair / 2), n = s * kSlice + 8 * (pair / 2) + 2 * (lane() & 3), channel = at.first_channel + n;
                        ++pair;
                        float v[Folds::kChannelFolds + Folds::kMoments], w[Folds::kChannelFolds + Folds::kMoments];
                        Folds::share(as_float(x), one, t1, tail.uniform, row_at(rows[r], r, n), channel, v);
                        Folds::share(as_float(y), two, t2, tail.uniform, row_at(rows[r], r, n + 1), channel + 1, w);
                        const bool exists = at.rows.valid(row_of(r));
                        slice.add(first, v, exists, shares.inverse[r]);
                        slice.add(first + 1, w, exists, shares.inverse[r]);
                    });
                }
                own.add_slice(s, slice.folded, slice.mean, slice.m2, shares.seen);
            }
            own.publish(at);
            for (int n = tail.thread; n < Tail::kN && at.first_channel + n < tail.geometry.channels; n += 128) {
                float value[Folds::all_values()], column[larger(1, Tail::kColumns)];
                Folds::template await<0>(own, at.image, at.first_channel + n, value);
#pragma unroll
                for (int c = 0; c < Tail::kColumns; ++c) column[c] = tail.columns()[c * Tail::kN + n];
                Folds::columns(tail.visitor, tail.uniform, at.image, at.first_channel + n, value, column);
#pragma unroll
                for (int c = 0; c < Tail::kColumns; ++c) tail.columns()[c * Tail::kN + n] = column[c];
            }
            tail.sync();
        }
    }

    // The four lanes of a row.
    template <int level, int kFolds> UNISONO_DEVICE void join_lanes(float (&folded)[kRows][kFolds]) const {
#pragma unroll
        for (int r = 0; r < kRows; ++r)
#pragma unroll
            for (int i = 0; i < kFolds; ++i)
#pragma unroll
                for (int bit = 1; bit <= 2; bit *= 2)
                    folded[r][i] = join(Visitor::row_fold(level, i), folded[r][i], __shfl_xor_sync(~0u, folded[r][i], bit));
    }

    // Entries of so many levels: three values each, [level and three][slot][row][tile across].
    static UNISONO_DEVICE constexpr int entries(int levels) {
        int count = 0;
        for (int level = 0; level < levels; ++level) count += divide_up(Visitor::row_folds(level), 3);
        return count;
    }
    // Joins what the tiles across have of this thread's rows: every fourth tile a lane, in order, then the four lanes of a row.
    template <int level, int kFolds> UNISONO_DEVICE void exchange(const At& at, float (&folded)[kRows][kFolds]) {
        const Columns columns{tail};
        const int across = columns.across(), own = at.first_channel / Tail::kN, quarter = lane() & 3;
        const size_t slots = size_t(tail.geometry.images) * columns.slots(), slot = size_t(at.image) * columns.slots() + at.slot;
        auto row = [&](int part, int r) {
            Entry* first = reinterpret_cast<Entry*>(tail.fixed.folds.rows);
            return first + (((entries(level) + part) * slots + slot) * Tail::kPixels + row_of(r)) * across;
        };
        auto value = [&](int r, int i) { return i < kFolds ? folded[r][i < kFolds ? i : 0] : 0.f; };
#pragma unroll
        for (int part = 0; part < divide_up(kFolds, 3); ++part)
#pragma unroll
            for (int r = 0; r < kRows; ++r)
                if ((r & 3) == quarter) write_entry(row(part, r) + own, {value(r, 3 * part + 2), value(r, 3 * part), value(r, 3 * part + 1)}, tail.epoch);
#pragma unroll
        for (int r = 0; r < kRows; ++r)
#pragma unroll
            for (int i = 0; i < kFolds; ++i) folded[r][i] = nothing_of(Visitor::row_fold(level, i));
#pragma unroll
        for (int part = 0; part < divide_up(kFolds, 3); ++part) {
            for (int tile = quarter; tile < across; tile += 4) {
                uint4 entry[kRows];
                Watchdog watchdog;
                delay_point();
                for (;;) {
                    bool complete = true;
#pragma unroll
                    for (int r = 0; r < kRows; ++r) entry[r] = load_whole(row(part, r) + tile);
#pragma unroll
                    for (int r = 0; r < kRows; ++r) complete &= entry[r].w == tail.epoch + 1;
                    if (complete) break;
                    __nanosleep(kPollPause);
                    watchdog.tick();
                }
#pragma unroll
                for (int r = 0; r < kRows; ++r) {
                    const float values[3] = {__uint_as_float(entry[r].x), __uint_as_float(entry[r].y), __uint_as_float(entry[r].z)};
#pragma unroll
                    for (int i = 0; i < 3; ++i)
                        if (3 * part + i < kFolds) {
                            float& to = folded[r][smaller(3 * part + i, kFolds - 1)];
                            to = join(Visitor::row_fold(level, 3 * part + i), to, values[i]);
                        }
                }
            }
        }
        __syncwarp();
        join_lanes<level>(folded);
    }

    // Several tiles across: what this one has of its rows goes to the workspace; the last of them concludes the rows.
    template <int kFolds> UNISONO_DEVICE void meet(const At& at, const float (&folded)[kRows][kFolds]) {
        const Columns columns{tail};
        const size_t slot = size_t(at.image) * columns.slots() + at.slot, plane = size_t(tail.geometry.images) * columns.slots() * columns.across() * Tail::kPixels;
        float* const own = tail.fixed.folds.rows + slot * columns.across() * Tail::kPixels;
        if (leads()) {
#pragma unroll
            for (int r = 0; r < kRows; ++r)
#pragma unroll
                for (int i = 0; i < kFolds; ++i) own[i * plane + at.first_channel / Tail::kN * Tail::kPixels + row_of(r)] = folded[r][i];
        }
        if (!columns.comes_last(tail.fixed.folds.counters + 1 + tail.geometry.images * columns.across() + slot, columns.across())) return;
        for (int m = tail.thread; m < Tail::kPixels; m += 128) {
            if (!at.rows.valid(m)) continue;
            Row row = Visitor::row(tail.visitor, tail.uniform, where(at, m));
            float total[kFolds], none[larger(1, kTileFolds)];
#pragma unroll
            for (int i = 0; i < kFolds; ++i) total[i] = fold_in_order(Visitor::row_fold(0, i), own + i * plane + m, Tail::kPixels, columns.across());
            Visitor::template conclude<0>(tail.uniform, float(tail.geometry.channels), total, row);
            Visitor::close_row(tail.visitor, tail.uniform, where(at, m), row, none);
        }
    }

    // What a slice adds to a list's channel folds and moments, over the blocks so far.
    template <class List> struct Slice {
        static constexpr int kFolds = List::kChannelFolds, kMeans = List::kMoments;
        float folded[larger(1, kFolds)][kEach], mean[larger(1, kMeans)][kEach], m2[larger(1, kMeans)][kEach];
        UNISONO_DEVICE Slice() {
#pragma unroll
            for (int k = 0; k < kEach; ++k) {
#pragma unroll
                for (int i = 0; i < kFolds; ++i) folded[i][k] = nothing_of(List::channel_fold(i));
#pragma unroll
                for (int i = 0; i < kMeans; ++i) mean[i][k] = m2[i][k] = 0.f;
            }
        }
        // An element's values; inverse: of the rows so far.
        UNISONO_DEVICE void add(int k, const float* value, bool counts, float inverse) {
#pragma unroll
            for (int i = 0; i < kFolds; ++i) folded[i][k] = join(List::channel_fold(i), folded[i][k], counts ? value[i] : nothing_of(List::channel_fold(i)));
#pragma unroll
            for (int i = 0; i < kMeans; ++i) {
                float& centre = mean[i][k];
                const float of = counts ? value[kFolds + i] : centre, delta = of - centre;
                centre = fmaf(delta, inverse, centre);
                m2[i][k] = fmaf(delta, of - centre, m2[i][k]);
            }
        }
    };
    // Moments: 1 over the rows so far, and how many there are.
    struct Shares {
        float inverse[kRows], seen = 0.f;
        UNISONO_DEVICE Shares(const General& of, const At& at) {
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                const bool valid = at.rows.valid(of.row_of(r));
                seen += valid ? 1.f : 0.f;
                inverse[r] = valid ? __fdividef(1.f, seen) : 0.f;
            }
        }
    };

    // The last pass: results, effects, and what the tile adds to reductions over rows. Where channels are reduced, all blocks of a slice come
    // before the next slice; else the order is that of the operands' ring, which then runs through the tile.
    UNISONO_DEVICE void elements(const At& at, const Row (&rows)[kRows], float* whole) {
        const Shares shares(*this, at);
        ElementRing ring{tail.visitor, tail.geometry, tail.thread / 32, lane()};
        const Fetch<Tail> fetch{tail};
        if constexpr (kInOrder) {
            ring.open(0, Tail::kPairs, at);
#pragma unroll
            for (int b = 0; b < kBlocks; ++b)
#pragma unroll
                for (int s = 0; s < kSlices; ++s) {
                    Slice<Visitor> slice;
                    if constexpr (kFetches) fetch.await((b * kSlices + s) % kBuffers, ring);
                    elements_of(at, rows, b, s, ring, Tail::kPairs, shares, slice, whole);
                    if constexpr (kFetches && kTiled > 0) fetch.refill(at, b * kSlices + s);
                    else if constexpr (kFetches) fetch.refill_read(at, b * kSlices + s);
                    if constexpr (kChannels) Columns{tail}.add_slice(s, slice.folded, slice.mean, slice.m2, shares.seen);
                }
        } else {
#pragma unroll
            for (int s = 0; s < kSlices; ++s) {
                Slice<Visitor> slice;
#pragma unroll
                for (int b = 0; b < kBlocks; ++b) {
                    const int first = (b * kSlices + s) * kEach;
                    ring.open(first, first + kEach, at);
                    elements_of(at, rows, b, s, ring, first + kEach, shares, slice, whole);
                }
                Columns{tail}.add_slice(s, slice.folded, slice.mean, slice.m2, shares.seen);
            }
        }
    }

    UNISONO_DEVICE void elements_of(const At& at, const Row (&rows)[kRows], int b, int s, ElementRing& ring, int end, const Shares& shares, Slice<Visitor>& slice, float* whole) {
        u32 packed[kEach], beside[kEach];
        int pair = 0;
        tail.template for_pairs<0, kTensors>(at, b, s, ring, end, [&](float x, float y, const float* one, const float* two, const float* t1, const float* t2) {
            const int r = 2 * b + (pair & 1), first = 2 * (pair / 2), n = s * kSlice + 8 * (pair / 2) + 2 * (lane() & 3), channel = at.first_channel + n;
            const bool exists = at.rows.valid(row_of(r)) && channel < tail.geometry.channels, next = kPairs ? exists : exists && channel + 1 < tail.geometry.channels;
            const Where place = where(at, row_of(r));
            float v[2][larger(1, kValues)];
            const auto left = Visitor::element(as_float(x), one, t1, tail.uniform, row_at(rows[r], r, n), place, channel, exists, v[0]);
            const auto right = Visitor::element(as_float(y), two, t2, tail.uniform, row_at(rows[r], r, n + 1), place, channel + 1, next, v[1]);
            if constexpr (kTiled > 0) packed[pair] = Visitor::Output::pack(Visitor::tiled(left, 0), Visitor::tiled(right, 0));
            if constexpr (kTiled > 1) beside[pair] = Visitor::Side::pack(Visitor::tiled(left, 1), Visitor::tiled(right, 1));
            if constexpr (kPairs) {
                if (exists) Visitor::put(tail.visitor, u64(place.m) * tail.geometry.channels + channel, left, right);
            } else {
                if (exists) Visitor::put(tail.visitor, tail.offset_of(at, row_of(r), channel), left);
                if (next) Visitor::put(tail.visitor, tail.offset_of(at, row_of(r), channel + 1), right);
            }
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const float* value = v[e];
                const bool counts = e == 0 ? exists : next;
                slice.add(first + e, value, counts, shares.inverse[r]);
                value += kChannelFolds + kMoments;
#pragma unroll
                for (int i = 0; i < kTileFolds; ++i) whole[i] = join(Visitor::tile_fold(i), whole[i], counts ? value[i] : nothing_of(Visitor::tile_fold(i)));
            }
            ++pair;
        });
        if constexpr (kTiled > 0) store_slices(at, b, s, tail.thread / 32, packed, beside);
    }

    UNISONO_DEVICE void store_slices(const At& at, int b, int s, int warp, const u32 (&packed)[kEach], const u32 (&beside)[kEach]) {
        const int place = (kInOrder ? b * kSlices + s : s * kBlocks + b) % kBuffers;
        if (!kFetches && lane() == 0) {
            if (Tail::kStoresPerTile % kBuffers != 0 && b + s == 0) tma_store_wait_read<0>();
            else tma_store_wait_read<kBuffers - 1>();
        }
        __syncwarp();
        tail.write_slice(tail.staging(0) + place * Tail::kSliceBytes, Tail::kStaging, packed);
        if constexpr (kTiled > 1) tail.write_slice(tail.side_staging(0, place), Tail::kSideStaging, beside);
        tail.template close_slice<kBuffers, kFetches>();
        if constexpr (!kPairs) {
            tail.store_plain(tail.fixed.output, tail.staging(warp) + place * Tail::kSliceBytes, at, 64 * b + 16 * warp, s * kSlice);
            if constexpr (kTiled > 1) tail.store_plain(tail.fixed.side, tail.side_staging(warp, place), at, 64 * b + 16 * warp, s * kSlice);
        } else if (lane() == 0) {
            tail.store_main(tail.staging(warp) + place * Tail::kSliceBytes, at, 64 * b + 16 * warp, s * kSlice);
            if constexpr (kTiled > 1) Tail::store_slice(tail.side_map(at), tail.side_staging(warp, place), at, 64 * b + 16 * warp, s * kSlice);
            tma_store_commit();
        }
        tail.store_pooled(tail.staging(warp) + place * Tail::kSliceBytes, at, 64 * b + 16 * warp, s * kSlice);
    }
};

}  // namespace unisono
