// How threads of a CTA load an operand's part of a k-step: copies of kCopy bytes, each of neighbours in memory, zeros
// for what does not exist. Copies of 4, 8 and 16 bytes run during other work, those of 2 are ordinary loads.
//
// A loader has
//
//   open(…, k, …)              of a tile, from its k-th element of k on
//   load<part, parts>(stage)   a part of the step's copies, into a stage in shared memory, in the order of parts
//   advance()                  to the next step
//
// and all threads of the CTA do the same. kRowBytes: of each row in the table that open() writes; 0: there is none.
#pragma once
#include "unisono/sm80/operand_tiles.cuh"
#include "unisono/sm80/sights.cuh"

namespace unisono {

template <int kCopy>
UNISONO_DEVICE void copy_to_shared(u8* shared, int to, const u8* from, bool exists) {
  if constexpr (kCopy == 2)
    *reinterpret_cast<u16*>(shared + to) = exists ? __ldg(reinterpret_cast<const u16*>(from)) : u16(0);
  else if constexpr (kCopy == 16)
    copy_async(shared_address(shared) + to, from, exists ? 16 : 0);
  else
    copy_async_few<kCopy>(shared_address(shared) + to, from, exists ? kCopy : 0);
}

// Which copies of a tile a thread makes: those of one span of kCopy bytes of every kAtOnce-th line.
template <class Of, int kCopy, int kThreads>
struct Copies {
  using Tile = typename Of::Tile;
  static constexpr int kSpans = Tile::kBytes / kCopy, kAtOnce = kThreads / kSpans,
                       kEach = divide_up(Tile::kLines, kAtOnce);
  static_assert(kThreads % kSpans == 0, "a thread has one span");
  static constexpr int begin(int part, int parts) { return part * kEach / parts; }
  static UNISONO_DEVICE int line() { return int(threadIdx.x) / kSpans; }
  static UNISONO_DEVICE int byte() { return int(threadIdx.x) % kSpans * kCopy; }
  // Whether all lines of a round exist in the tile.
  static constexpr bool is_whole(int i) { return (i + 1) * kAtOnce <= Tile::kLines; }
};

// A matrix, its rows or its columns side by side in memory (OperandTile::kColumns).
template <class Of, int kElement, int kCopy, int kThreads>
struct MatrixLoader {
  using Mine = Copies<Of, kCopy, kThreads>;
  using Tile = typename Of::Tile;
  const u8* from;    // of this thread's first copy
  i64 pitch;         // bytes from line to line
  int lines, along;  // that exist, from this thread's first on

  // Rows from `first` on (the matrix has `rows` rows and `depth` k); `step`: elements before the matrix.
  UNISONO_DEVICE void open(const void* matrix, i64 step, i64 elements_pitch, int first, int rows, int k, int depth) {
    pitch = elements_pitch * kElement;
    from = static_cast<const u8*>(matrix) +
           (step + first * (Of::kColumns ? 1 : elements_pitch) + k * (Of::kColumns ? elements_pitch : 1)) * kElement +
           Mine::line() * pitch + Mine::byte();
    lines = (Of::kColumns ? depth - k : rows) - Mine::line();
    along = (Of::kColumns ? rows : depth - k) - Mine::byte() / kElement;
  }
  template <int kPart, int kParts>
  UNISONO_DEVICE void load(u8* stage) const {
#pragma unroll
    for (int i = Mine::begin(kPart, kParts); i < Mine::begin(kPart + 1, kParts); ++i) {
      const int line = Mine::line() + i * Mine::kAtOnce;
      if (Mine::is_whole(i) || line < Tile::kLines)
        copy_to_shared<kCopy>(stage, Tile::at(line, Mine::byte()), from + i * Mine::kAtOnce * pitch,
                              along > 0 && i * Mine::kAtOnce < lines);
    }
  }
  UNISONO_DEVICE void advance() {
    if constexpr (Of::kColumns)
      from += Of::kDepth * pitch, lines -= Of::kDepth;
    else
      from += Of::kDepth * kElement, along -= Of::kDepth;
  }
};

// A product's left operand, and either's right one or filters (K, R, S, C/G).
template <class Of, int kElement, int kCopy, int kThreads>
struct MatrixOfRows : MatrixLoader<Of, kElement, kCopy, kThreads> {
  static constexpr int kRowBytes = 0;
  template <class Rows, class Taps>
  UNISONO_DEVICE void open(const Sm80ConvParams& f, const Tile& tile, const Rows& rows, int, const Taps&, int k, u8*) {
    MatrixLoader<Of, kElement, kCopy, kThreads>::open(f.image, tile.image * f.image_step, f.image_pitch, rows.first,
                                                      rows.end - rows.first, k, f.depth);
  }
};
template <class Of, int kElement, int kCopy, int kThreads>
struct Filters : MatrixLoader<Of, kElement, kCopy, kThreads> {
  template <class Taps>
  UNISONO_DEVICE void open(const Sm80ConvParams& f, const void* filter, int image, int n, const Taps&, int k) {
    MatrixLoader<Of, kElement, kCopy, kThreads>::open(filter, image * f.filter_step, f.filter_pitch, n,
                                                      f.tile.geometry.channels - n, k, f.depth);
  }
};

// Filters of a transposed convolution, (C, R, S, K/G): a line of a tile has the outputs of one channel and tap.
template <class Of, int kElement, int kCopy, int kThreads>
struct PhaseFilters {
  using Mine = Copies<Of, kCopy, kThreads>;
  static constexpr int kLines = Of::Tile::kLines, kBy = smaller(Mine::kAtOnce, kLines);  // lines from copy to copy
  static_assert(Of::kColumns && kLines % kBy == 0, "copies of a step end where those of the next begin");
  const u8* from;  // of this thread's outputs, the group's first channel, the phase's first tap
  TapOfK k;        // of this thread's next copy
  int along;       // outputs that exist, from this thread's first on
  int channels, rows, columns;
  int step_h, step_w;  // bytes
  i64 pitch;

  UNISONO_DEVICE void open(const Sm80ConvParams& f, const void* filter, int, int n, const PhaseTaps& taps, int first) {
    const int group = divided(n, f.by_group_outputs), output = n - group * f.group_outputs + Mine::byte() / kElement;
    channels = f.group_channels, rows = taps.rows(), columns = taps.columns();
    const int of_tap = f.group_outputs * kElement, of_row = f.taps_w * of_tap;
    pitch = f.filter_pitch * kElement, step_h = f.phase.step_h * of_row, step_w = f.phase.step_w * of_tap;
    from = static_cast<const u8*>(filter) + i64(group) * channels * pitch + i64(taps.vertical.first) * of_row +
           taps.horizontal.first * of_tap + output * kElement;
    along = f.group_outputs - output;
    k = TapOfK::of(first + Mine::line(), f, taps);
  }
  template <int kPart, int kParts>
  UNISONO_DEVICE void load(u8* stage) {
#pragma unroll
    for (int i = Mine::begin(kPart, kParts); i < Mine::begin(kPart + 1, kParts); ++i) {
      const int line = Mine::line() + i * Mine::kAtOnce;
      if (Mine::is_whole(i) || line < kLines)
        copy_to_shared<kCopy>(stage, Of::Tile::at(line, Mine::byte()),
                              from + k.channel * pitch + i64(k.row) * step_h + k.column * step_w,
                              along > 0 && k.row < rows);
      k.advance(kBy, channels, columns);
    }
  }
  UNISONO_DEVICE void advance() {}
};

// Pixels as the filter's taps see them. A table in shared memory says of each row of a tile where its first tap is
// (Sight::Row): sm80/sights.cuh.
template <class Sight, class Of, int kElement, int kCopy, int kThreads>
struct PixelLoader {
  using Mine = Copies<Of, kCopy, kThreads>;
  using Tile = typename Of::Tile;
  using Row = typename Sight::Row;
  static constexpr int kRowBytes = sizeof(Row), kTogether = kCopy / kElement;  // elements of a copy
  const Row* table;
  const u8* image;
  TapOfK k;               // of this thread's copies
  int channels, columns;  // of a group; of taps
  Sight sight;

  // By all threads: the table of a tile whose rows begin at a group's first channel.
  template <class Rows, class Taps>
  static UNISONO_DEVICE void write_table(Row* table, const Sm80ConvParams& f, const Rows& rows, int image,
                                         int first_channel, const Taps& taps) {
    const ConvGeometry& g = f.tile.geometry;
    for (int m = threadIdx.x; m < Of::kRows; m += kThreads) {
      Row row = Sight::nowhere();
      if (rows.valid(m)) {
        const int pixel = rows.pixel(m), beyond = divided(pixel, g.by_pixels),
                  within = pixel - beyond * g.height * g.width, p = divided(within, g.by_width);
        i64 element = (image + beyond) * f.image_step + first_channel;
        row = Sight::row_of(f, p, within - p * g.width, taps, element);
        row.copies = int(element / kTogether);
      }
      table[m] = row;
    }
  }
  template <class Rows, class Taps>
  UNISONO_DEVICE void open(const Sm80ConvParams& f, const unisono::Tile& tile, const Rows& rows, int n,
                           const Taps& taps, int first, u8* memory) {
    Row* const written = reinterpret_cast<Row*>(memory);
    write_table(written, f, rows, tile.image, divided(n, f.by_group_outputs) * f.group_channels, taps);
    __syncthreads();
    table = written, image = static_cast<const u8*>(f.image);
    channels = f.group_channels, columns = taps.columns();
    sight.open(f, taps);
    k = TapOfK::of(first + Mine::byte() / kElement, f, taps);
  }
  template <int kPart, int kParts>
  UNISONO_DEVICE void load(u8* stage) const {
    const auto tap = sight.tap_of(k);
    const int away = (tap.elements + k.channel) / kTogether;
#pragma unroll
    for (int i = Mine::begin(kPart, kParts); i < Mine::begin(kPart + 1, kParts); ++i) {
      const int line = Mine::line() + i * Mine::kAtOnce;
      if (!Mine::is_whole(i) && line >= Tile::kLines) continue;
      const Row row = table[line];
      copy_to_shared<kCopy>(stage, Tile::at(line, Mine::byte()), image + i64(row.copies + away) * kCopy,
                            sight.has(row, tap));
    }
  }
  UNISONO_DEVICE void advance() { k.advance(Of::kDepth, channels, columns); }
};

}  // namespace unisono
