// How threads of a CTA load an operand's part of a k-step: copies of kCopy bytes, each of neighbours in memory, zeros
// for what does not exist. Copies of 4, 8 and 16 bytes are under way beside other work, those of 2 are ordinary loads.
//
// A loader has
//
//   open(…)                    of a tile, from its first k on
//   load<part, parts>(stage)   a part of the step's copies, into a stage in shared memory
//   advance()                  to the next step
//
// and all threads of the CTA do the same.
#pragma once
#include "unisono/params/sm80_conv_params.cuh"
#include "unisono/sm80/operand_tiles.cuh"
#include "unisono/tile/tile_scheduler.cuh"

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

  // `first`: the tile's first element; rows that exist of it, and k.
  UNISONO_DEVICE void open(const void* first, i64 elements_pitch, int rows, int depth) {
    pitch = elements_pitch * kElement;
    from = static_cast<const u8*>(first) + Mine::line() * pitch + Mine::byte();
    lines = (Of::kColumns ? depth : rows) - Mine::line();
    along = (Of::kColumns ? rows : depth) - Mine::byte() / kElement;
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

// Pixels of an image as its filter's taps see them. A table in shared memory says where a row's first tap is: how many
// copies from the image's first element, and its image row and pixel, 16 bits each. Rows that do not exist lie far
// above the image.
struct PixelOfRow {
  int copies, place;
};
constexpr int kFarAbove = -32768, kBeyondTaps = 65536;

template <class Of, int kElement, int kCopy, int kThreads>
struct PixelLoader {
  using Mine = Copies<Of, kCopy, kThreads>;
  using Tile = typename Of::Tile;
  static constexpr int kTogether = kCopy / kElement;  // elements of a copy
  const PixelOfRow* table;
  const u8* image;
  int channel, tap_h, tap_w;     // of this thread's copies
  int height, width;             // of the image
  int channels, taps_h, taps_w;  // of a group; of the filter
  int dilation_h, dilation_w, pitch;

  // By all threads, ahead of a barrier: the table of a tile whose rows begin at the group's first channel.
  template <class Rows>
  static UNISONO_DEVICE void write_table(PixelOfRow* table, const Sm80ConvParams& f, const Rows& rows, int image,
                                         int first_channel) {
    const ConvGeometry& g = f.tile.geometry;
    for (int m = threadIdx.x; m < Of::kRows; m += kThreads) {
      PixelOfRow row{0, int(u32(kFarAbove) << 16)};
      if (rows.valid(m)) {
        const int pixel = rows.pixel(m), beyond = divided(pixel, g.by_pixels),
                  within = pixel - beyond * g.height * g.width, p = divided(within, g.by_width),
                  q = within - p * g.width;
        const int h = p * g.stride_h - g.pad_h, w = q * g.stride_w - g.pad_w;
        const i64 element = (image + beyond) * f.image_step + (i64(h) * f.in_width + w) * f.image_pitch + first_channel;
        row = {int(element / kTogether), int(u32(h) << 16 | (u32(w) & 0xffffu))};
      }
      table[m] = row;
    }
  }
  UNISONO_DEVICE void open(const PixelOfRow* rows, const Sm80ConvParams& f) {
    const ConvGeometry& g = f.tile.geometry;
    table = rows, image = static_cast<const u8*>(f.image);
    height = f.in_height, width = f.in_width, channels = f.group_channels, taps_h = g.taps_h, taps_w = f.taps_w;
    dilation_h = g.dilation_h, dilation_w = g.dilation_w, pitch = int(f.image_pitch);
    const int k = Mine::byte() / kElement, tap = divided(k, f.by_group_channels);
    channel = k - tap * channels;
    tap_h = divided(tap, f.by_taps_w), tap_w = tap - tap_h * taps_w;
  }
  template <int kPart, int kParts>
  UNISONO_DEVICE void load(u8* stage) const {
    const int down = tap_h < taps_h ? tap_h * dilation_h : kBeyondTaps, right = tap_w * dilation_w,
              further = ((tap_h * dilation_h * width + right) * pitch + channel) / kTogether;
#pragma unroll
    for (int i = Mine::begin(kPart, kParts); i < Mine::begin(kPart + 1, kParts); ++i) {
      const int line = Mine::line() + i * Mine::kAtOnce;
      if (!Mine::is_whole(i) && line >= Tile::kLines) continue;
      const PixelOfRow row = table[line];
      const int h = (row.place >> 16) + down, w = int(short(row.place & 0xffff)) + right;
      copy_to_shared<kCopy>(stage, Tile::at(line, Mine::byte()), image + i64(row.copies + further) * kCopy,
                            u32(h) < u32(height) && u32(w) < u32(width));
    }
  }
  UNISONO_DEVICE void advance() {
    channel += Of::kDepth;
    while (channel >= channels) {
      channel -= channels;
      if (++tap_w == taps_w) tap_w = 0, ++tap_h;
    }
  }
};

}  // namespace unisono
