// The inter-CTA statistics exchange with statistics other than moments: a kernel of the tests' own reduces two tensors
// over the pixels of an image and the channels of a group, and its CTAs exchange what they have within the launch.
// Compared with float64. A CTA has several images, slots and tiles of channels, in odd numbers; tiles straddle groups,
// and the last ones are partial.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>

#include "gpu/kernels.hpp"
#include "lower/request.hpp"
#include "runtime/cuda/driver.hpp"
#include "unisono/params/params.cuh"

namespace unisono::gpu {
namespace {

constexpr int tile_channels = 32, group_channels = 12, unit = 4, channels = 132, groups = channels / group_channels,
              tile_rows = 5, blocks = 19;

/// The parameter of the kernel below.
struct Exchanged {
  ExchangeParams exchange;
  EpochParams launch;
  const void *x, *y;            // f32 (images, rows, channels)
  void *by_channel, *by_group;  // f32 (images, slots, channels, results), (images, groups, results)
  int images, rows, channels, tile_rows;
};

constexpr const char* own_kernel = R"(
struct Exchanged {
  unisono::ExchangeParams exchange;
  unisono::EpochParams launch;
  const float *x, *y;
  float *by_channel, *by_group;
  int images, rows, channels, tile_rows;
};

extern "C" __global__ void __launch_bounds__(128) exchange_statistics(const __grid_constant__ Exchanged p) {
  using namespace unisono;
  UNISONO_DYNAMIC_SHARED(memory);
  const int thread = int(threadIdx.x), across = divide_up(p.channels, kTileN), slots = p.exchange.slots_per_image,
            pieces = Of::before(p.exchange, p.channels);
  if (thread == 0) enter_launch(p.launch);
  const u32 epoch = epoch_of(p.launch);
  auto for_tiles = [&](auto&& what) {
    for (int i = int(blockIdx.x); i < p.images * slots * across; i += int(gridDim.x))
      what(i / across / slots, i / across % slots, i % across * kTileN);
  };
  for_tiles([&](int image, int slot, int first_channel) {
    auto own = [&](int from, int to, int lane, int lanes) {
      typename Statistic::Merger all;
      for (int row = slot * p.tile_rows; row < smaller((slot + 1) * p.tile_rows, p.rows); ++row)
        for (int channel = first_channel + from + lane; channel < first_channel + to; channel += lanes) {
          const size_t i = (size_t(image) * p.rows + row) * p.channels + channel;
          all.add(of_element(p.x[i], p.y[i]));
        }
      return all.total();
    };
    auto put = [&](int piece, const Statistic& of) {
      write_message(slots_of<Statistic>(p.exchange) + (size_t(image) * slots + slot) * pieces + piece, of, epoch);
    };
    const int from = thread * kUnit;
    if (kCut)
      for_pieces<Of>(p.exchange, thread, first_channel, p.channels, [&](int piece, int from, int to, int lane, int lanes) {
        const Statistic of = Statistic::over_lanes(own(from, to, lane, lanes), lanes);
        if (from < to && lane == 0) put(piece, of);
      });
    else if (from < smaller(kTileN, p.channels - first_channel))
      put((first_channel + from) / kUnit, own(from, from + kUnit, 0, 1));
  });
  if (p.exchange.segment_slots > 1)
    for_tiles([&](int image, int slot, int first_channel) {
      merge_share<Statistic, Of>(p.exchange, image, slot, first_channel, p.channels, epoch, thread / 32, 4);
    });
  for_tiles([&](int image, int slot, int first_channel) {
    if (thread >= Crew::kThreads) return;
    const GroupStatistics<Statistic, Crew, kScratch, Of> statistics(
        p.exchange, crew(thread), reinterpret_cast<Statistic*>(memory), epoch, image, first_channel, p.channels);
    statistics.gather();
    statistics.emit(
        slot == 0,
        [&](int, int n, const Statistic::Result& found) {
          store(p.by_channel + ((size_t(image) * slots + slot) * p.channels + first_channel + n) * kResults, found);
        },
        [&](int group, const Statistic::Result& found) {
          store(p.by_group + (size_t(image) * (p.channels / p.exchange.group_channels) + group) * kResults, found);
        });
  });
  __syncthreads();
  if (thread == 0) leave_launch(p.launch);
}
)";

// What is exchanged, what an element contributes, and what is stored of a group
const std::string reductions =
    "constexpr int kResults = Statistic::kFloats;\n"
    "UNISONO_DEVICE void store(float* to, const Statistic& of) {\n"
    "  for (int i = 0; i < kResults; ++i) to[i] = of.values[i];\n}\n";
const std::string two_sums =
    "using Statistic = unisono::Sums<2>;\n"
    "UNISONO_DEVICE Statistic of_element(float x, float y) { return {{x, x * y}}; }\n" +
    reductions;
const std::string five_sums =
    "using Statistic = unisono::Sums<5>;\n"
    "UNISONO_DEVICE Statistic of_element(float x, float y) { return {{x, x * y, y, y * y, 1.f}}; }\n" +
    reductions;
const std::string two_maxima =
    "using Statistic = unisono::Maxima<2>;\n"
    "UNISONO_DEVICE Statistic of_element(float x, float y) { return {{x, y - 1000.f}}; }\n" +
    reductions;
const std::string moments =
    "using Statistic = unisono::Moments;\n"
    "UNISONO_DEVICE Statistic of_element(float x, float y) { return {1.f, x, 0.f}; }\n"
    "constexpr int kResults = 2;\n"
    "UNISONO_DEVICE void store(float* to, const Statistic::Result& of) { to[0] = of.mean, to[1] = of.variance; }\n";

const std::string warpgroup =
    "using Crew = unisono::WarpgroupCrew<8>;\nUNISONO_DEVICE Crew crew(int thread) { return {thread, 1}; }\n";
const std::string warp = "using Crew = unisono::WarpCrew;\nUNISONO_DEVICE Crew crew(int thread) { return {thread}; }\n";

/// A result in float64 and how far f32 may be from it, whatever the order of sums.
struct Expected {
  double value = 0, bound = 0;
};

using Elements = std::vector<std::array<double, 2>>;  ///< of an image and group
using Judge = std::vector<Expected> (*)(const Elements&);

/// n terms of f32: each is rounded once when it is made and in n sums at most.
Expected sum(const Elements& elements, double (*term)(double x, double y)) {
  Expected e;
  double sizes = 0;
  for (const auto& [x, y] : elements) e.value += term(x, y), sizes += std::abs(term(x, y));
  e.bound = 0x1p-23 * static_cast<double>(elements.size()) * sizes;
  return e;
}
std::vector<Expected> expect_sums(const Elements& elements) {
  std::vector<Expected> all;
  for (const auto term : {+[](double x, double) { return x; }, +[](double x, double y) { return x * y; },
                          +[](double, double y) { return y; }, +[](double, double y) { return y * y; },
                          +[](double, double) { return 1.; }})
    all.push_back(sum(elements, term));
  return all;
}
std::vector<Expected> expect_maxima(const Elements& elements) {
  std::vector<Expected> all(2, {-HUGE_VAL, 0});
  for (const auto& [x, y] : elements) {
    all[0].value = std::max(all[0].value, x);
    all[1].value = std::max(all[1].value, double{static_cast<float>(y) - 1000.f});
  }
  return all;
}
std::vector<Expected> expect_moments(const Elements& elements) {
  const auto count = static_cast<double>(elements.size());
  double mean = 0, variance = 0, largest = 0;
  for (const auto& element : elements) mean += element[0] / count, largest = std::max(largest, std::abs(element[0]));
  for (const auto& element : elements) variance += (element[0] - mean) * (element[0] - mean) / count;
  // the mean to a few roundings of the values, the squares of deviations from it to as many of their own
  return {{mean, 0x1p-21 * largest}, {variance, 0x1p-16 * variance + 0x1p-40 * largest * largest}};
}

struct ExchangeCase {
  const char* name;
  std::string statistic, crew;
  int floats, results;
  Judge expect;
  int scratch;  ///< statistics that shared memory has room for; groups of more units take the slow path
  int images, rows, segment_slots;
  bool cut = false;

  int slots() const { return (rows + tile_rows - 1) / tile_rows; }
  int segments() const { return (slots() + segment_slots - 1) / segment_slots; }
  /// One slot of every image.
  std::size_t slot_bytes() const {
    return static_cast<std::size_t>(images * (channels / unit) * entries_of(floats)) * sizeof(Entry);
  }
  std::size_t elements() const { return static_cast<std::size_t>(images) * rows * channels; }
};
void PrintTo(const ExchangeCase& c, std::ostream* out) { *out << c.name; }

class ExchangeSmall : public testing::TestWithParam<ExchangeCase> {
 protected:
  ~ExchangeSmall() override {
    if (module_ != nullptr) cuda::driver().cuModuleUnload(module_);
  }

  void load() {
    const std::string source = fmt::format(
        "#include <unisono/exchange/moments.cuh>\n#include <unisono/exchange/reductions.cuh>\n"
        "#include <unisono/exchange/statistics_exchange.cuh>\nconstexpr int kTileN = {}, kUnit = {}, kScratch = {};\n"
        "constexpr bool kCut = {};\nusing Of = unisono::Pieces<kTileN, kUnit, kCut>;\n",
        tile_channels, unit, c_.scratch, c_.cut);
    const jit::Binary binary = compiler().compile({.source = source + c_.statistic + c_.crew + own_kernel,
                                                   .headers = lower::device_headers(),
                                                   .entry = "exchange_statistics",
                                                   .title = "an exchange of the tests' own",
                                                   .arch = device().device.arch()});
    cuda::check(cuda::driver().cuModuleLoadData(&module_, binary.cubin.data()), "loading");
    cuda::check(cuda::driver().cuModuleGetFunction(&kernel_, module_, "exchange_statistics"), "finding");
  }

  Exchanged parameters() const {
    auto* const slots = static_cast<std::byte*>(workspace_.data());
    return {
        .exchange = {.slots = reinterpret_cast<Entry*>(slots),
                     .segments = reinterpret_cast<Entry*>(
                         slots + (c_.segment_slots > 1 ? c_.slot_bytes() * static_cast<std::size_t>(c_.slots()) : 0)),
                     .slots_per_image = c_.slots(),
                     .segment_slots = c_.segment_slots,
                     .segments_per_image = c_.segments(),
                     .group_channels = group_channels,
                     .by_group_channels = divisor(group_channels),
                     .by_common_channels = divisor(std::lcm(group_channels, tile_channels))},
        .launch = {.exits = static_cast<u32*>(exits_.data()),
                   .last = kEpochs * blocks - 1,
                   .by_ctas = divisor(blocks),
                   .unused = 0},
        .x = x_.data(),
        .y = y_.data(),
        .by_channel = by_channel_.data(),
        .by_group = by_group_.data(),
        .images = c_.images,
        .rows = c_.rows,
        .channels = channels,
        .tile_rows = tile_rows};
  }

  void launch() {
    Exchanged p = parameters();
    void* list[] = {&p};
    CUlaunchAttribute together{};
    together.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, together.value.cooperative = 1;
    CUlaunchConfig config{};
    config.gridDimX = blocks, config.blockDimX = 128;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = static_cast<unsigned>(c_.scratch * c_.floats) * 4, config.attrs = &together,
    config.numAttrs = 1;
    by_channel_.poison(), by_group_.poison();
    cuda::check(cuda::driver().cuLaunchKernelEx(&config, kernel_, list, nullptr), "launching");
    wait(nullptr, "an exchange of the tests' own");
  }

  /// Every slot's CTA has the results of all channels, to the same bits, and they are those of the image and group.
  void judge(const std::vector<float>& x, const std::vector<float>& y) const {
    const auto results = static_cast<std::size_t>(c_.results), slots = static_cast<std::size_t>(c_.slots());
    std::vector<float> channel(by_channel_.bytes() / 4), group(by_group_.bytes() / 4);
    by_channel_.download(channel.data()), by_group_.download(group.data());
    for (std::size_t image = 0; image < static_cast<std::size_t>(c_.images); ++image)
      for (std::size_t g = 0; g < groups; ++g) {
        Elements elements;
        for (std::size_t row = 0; row < static_cast<std::size_t>(c_.rows); ++row)
          for (std::size_t n = g * group_channels; n < (g + 1) * group_channels; ++n) {
            const std::size_t i = (image * static_cast<std::size_t>(c_.rows) + row) * channels + n;
            elements.push_back({x[i], y[i]});
          }
        const std::vector<Expected> expected = c_.expect(elements);
        for (std::size_t r = 0; r < results; ++r) {
          const float found = group[(image * groups + g) * results + r];
          ASSERT_LE(std::abs(found - expected[r].value), expected[r].bound)
              << "image " << image << ", group " << g << ", result " << r << ": " << found << ", not "
              << expected[r].value;
          for (std::size_t slot = 0; slot < slots; ++slot)
            for (std::size_t n = g * group_channels; n < (g + 1) * group_channels; ++n)
              ASSERT_EQ(std::bit_cast<u32>(channel[((image * slots + slot) * channels + n) * results + r]),
                        std::bit_cast<u32>(found))
                  << "image " << image << ", slot " << slot << ", channel " << n << ", result " << r;
        }
      }
  }

  const ExchangeCase& c_ = GetParam();
  Buffer x_{c_.elements() * 4}, y_{c_.elements() * 4};
  Buffer by_channel_{static_cast<std::size_t>(c_.images) * c_.slots() * channels * c_.results * 4},
      by_group_{static_cast<std::size_t>(c_.images) * groups * c_.results * 4};
  Buffer workspace_{c_.slot_bytes() * static_cast<std::size_t>(c_.slots() + c_.segments())}, exits_{8};
  CUmodule module_ = nullptr;
  CUfunction kernel_ = nullptr;
};

TEST_P(ExchangeSmall, AgreesWithFloat64) {
  load();
  const std::array<u32, 2> none{};
  exits_.upload(none.data());
  std::mt19937 random(7);
  std::normal_distribution<float> around(30.f, 2.f), centred(0.f, 1.f);
  std::vector<float> x(c_.elements()), y(c_.elements());
  for (int launches = 0; launches < 3; ++launches) {  // each with the workspace as the one before left it
    std::generate(x.begin(), x.end(), [&] { return around(random); });
    std::generate(y.begin(), y.end(), [&] { return centred(random); });
    x_.upload(x.data()), y_.upload(y.data());
    launch();
    judge(x, y);
    if (HasFatalFailure()) return;
  }
  for (const Buffer* b : {&x_, &y_, &by_channel_, &by_group_, &workspace_, &exits_}) EXPECT_TRUE(b->guards_hold());
}

INSTANTIATE_TEST_SUITE_P(
    , ExchangeSmall,
    testing::Values(ExchangeCase{"sums", two_sums, warpgroup, 2, 2, expect_sums, 16, 3, 33, 1},
                    ExchangeCase{"sums_of_segments", two_sums, warpgroup, 2, 2, expect_sums, 16, 3, 33, 3},
                    ExchangeCase{"sums_of_two_entries", five_sums, warp, 5, 5, expect_sums, 16, 3, 33, 3},
                    ExchangeCase{"sums_of_large_segments", five_sums, warp, 5, 5, expect_sums, 16, 1, 373, 38},
                    ExchangeCase{"maxima_without_room", two_maxima, warpgroup, 2, 2, expect_maxima, 4, 3, 33, 3},
                    ExchangeCase{"moments", moments, warp, 3, 2, expect_moments, 16, 3, 33, 3},
                    ExchangeCase{"sums_of_cut_groups", two_sums, warpgroup, 2, 2, expect_sums, 16, 3, 33, 3, true},
                    ExchangeCase{"moments_of_cut_groups", moments, warp, 3, 2, expect_moments, 16, 3, 33, 1, true},
                    ExchangeCase{"maxima_of_cut_groups_without_room", two_maxima, warp, 2, 2, expect_maxima, 2, 3, 33,
                                 3, true}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace unisono::gpu
