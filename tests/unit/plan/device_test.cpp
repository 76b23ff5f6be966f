#include "plan/device.hpp"

#include <gtest/gtest.h>

#include <map>

#include "plan/products.hpp"
#include "plan/spare_sms.hpp"
#include "unisono/error.hpp"

namespace unisono::plan {
namespace {

/// What a driver reports of a product, and what its data sheet says of it.
struct Known {
  DeviceAttributes reported;
  double sheet_tflops;  ///< dense, of bf16 or f16 with sums in f32
  double sheet_tbps;
  double tensor_share, memory_share;  ///< of the data sheet's rates under load
  int lanes, threads;
  const char* arch;
};

DeviceAttributes attributes(const char* name, int capability, int sms, int clock_mhz, int memory_mhz, int bus_bits) {
  return {.name = name,
          .major = capability / 10,
          .minor = capability % 10,
          .sms = sms,
          .shared_bytes = 101376,
          .l2_bytes = 1 << 25,
          .clock_khz = clock_mhz * 1000,
          .memory_clock_khz = memory_mhz * 1000,
          .memory_bus_bits = bus_bits};
}

// Hopper's data sheets count with 0.92 of the clock that the driver reports
constexpr double hopper = 800 / 989.4, hopper_memory = 4.2 / 4.8;

const Known known[] = {
    {attributes("NVIDIA H200", 90, 132, 1980, 3201, 6016), 989.4, 4.8, hopper, hopper_memory, 128, 2048, "sm_90a"},
    {attributes("NVIDIA H100 PCIe", 90, 114, 1755, 1593, 5120), 756, 2.0, hopper, hopper_memory, 128, 2048, "sm_90a"},
    {attributes("NVIDIA H100 80GB HBM3", 90, 132, 1980, 2619, 5120), 989.4, 3.35, hopper, hopper_memory, 128, 2048,
     "sm_90a"},
    {attributes("NVIDIA A100-SXM4-80GB", 80, 108, 1410, 1593, 5120), 312, 2.039, 0.8, 0.85, 64, 2048, "sm_80"},
    {attributes("NVIDIA A40", 86, 84, 1740, 7251, 384), 149.7, 0.696, 0.8, 0.85, 128, 1536, "sm_86"},
    {attributes("NVIDIA L4", 89, 58, 2040, 6251, 192), 121, 0.3, 0.8, 0.85, 128, 1536, "sm_89"},
    {attributes("NVIDIA GeForce RTX 4090", 89, 128, 2520, 10501, 384), 165.2, 1.008, 0.8, 0.85, 128, 1536, "sm_89"},
    {attributes("NVIDIA GeForce RTX 3090", 86, 82, 1695, 9751, 384), 71, 0.936, 0.8, 0.85, 128, 1536, "sm_86"},
    {attributes("Tesla T4", 75, 40, 1590, 5001, 256), 65, 0.32, 0.8, 0.85, 64, 1024, "sm_75"},
};

TEST(DescribedDevice, HasTheRatesOfItsDataSheet) {
  for (const Known& p : known) {
    const Device d = described(p.reported);
    EXPECT_NEAR(d.tensor_tflops / (p.sheet_tflops * p.tensor_share), 1, 0.02) << p.reported.name;
    EXPECT_NEAR(d.memory_tbps / (p.sheet_tbps * p.memory_share), 1, 0.03) << p.reported.name;
    EXPECT_EQ(d.lanes, p.lanes) << p.reported.name;
    EXPECT_EQ(d.threads, p.threads) << p.reported.name;
    EXPECT_EQ(d.arch(), p.arch) << p.reported.name;
    EXPECT_LT(d.clock_ghz, p.reported.clock_khz * 1e-6) << p.reported.name;
    EXPECT_GT(d.clock_ghz, 0.85e-6 * p.reported.clock_khz) << p.reported.name;
  }
}

// Dense products of bf16 with sums in f32, and bytes, as the data sheets have them
TEST(Products, HaveTheRatesOfTheirDataSheets) {
  const std::map<std::string_view, std::pair<double, double>> sheets{
      {"H200", {989.4, 4.8}},           {"H100", {989.4, 3.35}},      {"A100", {312, 2.039}},
      {"A100-40", {312, 1.555}},        {"A30", {165, 0.933}},        {"A10", {125, 0.6}},
      {"RTX A6000", {154.8, 0.768}},    {"RTX 3090", {71, 0.936}},    {"L4", {121, 0.3}},
      {"L40S", {362, 0.864}},           {"RTX 4090", {165.2, 1.008}}, {"RTX 5090", {209.5, 1.792}},
      {"RTX PRO 6000", {503.8, 1.792}}, {"B200", {2250, 8}},          {"B300", {2250, 8}}};
  EXPECT_EQ(products().size(), sheets.size());
  for (const auto& [name, rates] : sheets) {
    const Device d = product(name);
    const bool hopper_share = d.major == 9;
    EXPECT_NEAR(d.tensor_tflops / (rates.first * (hopper_share ? hopper : 0.8)), 1, 0.06) << name;
    EXPECT_NEAR(d.memory_tbps / (rates.second * (hopper_share ? hopper_memory : 0.85)), 1, 0.03) << name;
  }
  EXPECT_EQ(product("rtx 4090").name, "NVIDIA GeForce RTX 4090");
  EXPECT_THROW(product("A1000"), UserError);
}

TEST(Products, AreWhatAnotherGpuIsPlannedForAs) {
  const Device h200 = product("H200"), as = planned_as(h200, "A100"), small = planned_as(product("A10"), "A100");
  EXPECT_EQ(std::tuple(as.major, as.minor, as.sms, as.shared_bytes, as.arch()),
            std::tuple(8, 0, 108, std::size_t{163} << 10, "sm_90a"));
  EXPECT_EQ(std::tuple(small.sms, small.shared_bytes, small.arch()), std::tuple(72, std::size_t{99} << 10, "sm_86"));
  const Device sm80 = planned_as(h200, "sm_80");
  EXPECT_EQ(std::tuple(sm80.arch(), sm80.sms, sm80.shared_bytes), std::tuple("sm_90a", 132, std::size_t{163} << 10));
  EXPECT_THROW(planned_as(h200, "B200"), UserError);
}

// Plans that are made without a GPU are those that are made with an H200
TEST(DescribedDevice, IsAnH200ByDefault) {
  DeviceAttributes h200 = known[0].reported;
  h200.shared_bytes = 232448, h200.l2_bytes = 62914560;
  const Device found = described(h200), given;
  EXPECT_EQ(found.name, given.name);
  EXPECT_EQ(found.arch(), given.arch());
  EXPECT_EQ(found.sms, given.sms);
  EXPECT_EQ(found.shared_bytes, given.shared_bytes);
  EXPECT_EQ(found.l2_bytes, given.l2_bytes);
  EXPECT_EQ(found.lanes, given.lanes);
  EXPECT_EQ(found.threads, given.threads);
  EXPECT_DOUBLE_EQ(found.clock_ghz, given.clock_ghz);
  EXPECT_DOUBLE_EQ(found.tensor_tflops, given.tensor_tflops);
  EXPECT_DOUBLE_EQ(found.memory_tbps, given.memory_tbps);
}

TEST(DescribedDevice, OfAnArchitectureWithoutARowIsTakenForTheOneBefore) {
  const Device known = described(attributes("B200", 100, 148, 1965, 3996, 8192)),
               unknown = described(attributes("B300", 103, 148, 1965, 3996, 8192));
  EXPECT_DOUBLE_EQ(unknown.tensor_tflops, known.tensor_tflops);
  EXPECT_GT(known.tensor_tflops, 2 * product("H200").tensor_tflops);
  EXPECT_EQ(described(attributes("of a later year", 130, 100, 2000, 2000, 512)).lanes, 128);
}

TEST(DescribedDevice, HasEstimatesForWhatIsNotReported) {
  const Device d = described(attributes("shares its memory", 121, 48, 0, 0, 0));
  EXPECT_DOUBLE_EQ(d.memory_tbps, 0.2);
  EXPECT_DOUBLE_EQ(d.clock_ghz, 0.9 * 1.5);
  EXPECT_GT(d.tensor_tflops, 0);
}

TEST(SpareSms, TakeTheirPartOfTheProductsRate) {
  EXPECT_DOUBLE_EQ(with_spare_sms(Device{}, 33, "an option").tensor_tflops, 600);
  EXPECT_DOUBLE_EQ(with_spare_sms(Device{}, 33, "an option").memory_tbps, 4.2);
}

}  // namespace
}  // namespace unisono::plan
