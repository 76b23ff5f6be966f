#include "plan/products.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "ir/suggest.hpp"
#include "unisono/error.hpp"

namespace unisono::plan {
namespace {

/// What differs between products, in the units of data sheets.
struct Sheet {
  std::string_view name, reported;
  int capability, sms, shared_kb, l2_mb, clock_mhz, memory_mhz, bus_bits;
};

// By NVIDIA's data sheets and architecture white papers: boost clocks; the memory's clock, which transfers two bits a
// wire, by its bandwidth
constexpr std::array sheets{
    Sheet{"H200", "NVIDIA H200", 90, 132, 227, 60, 1980, 3201, 6016},
    Sheet{"H100", "NVIDIA H100 80GB HBM3", 90, 132, 227, 50, 1980, 2619, 5120},
    Sheet{"A100", "NVIDIA A100-SXM4-80GB", 80, 108, 163, 40, 1410, 1593, 5120},
    Sheet{"A100-40", "NVIDIA A100-SXM4-40GB", 80, 108, 163, 40, 1410, 1215, 5120},
    Sheet{"A30", "NVIDIA A30", 80, 56, 163, 24, 1440, 1215, 3072},
    Sheet{"A10", "NVIDIA A10", 86, 72, 99, 6, 1695, 6251, 384},
    Sheet{"RTX A6000", "NVIDIA RTX A6000", 86, 84, 99, 6, 1800, 8001, 384},
    Sheet{"RTX 3090", "NVIDIA GeForce RTX 3090", 86, 82, 99, 6, 1695, 9751, 384},
    Sheet{"L4", "NVIDIA L4", 89, 58, 99, 48, 2040, 6251, 192},
    Sheet{"L40S", "NVIDIA L40S", 89, 142, 99, 96, 2520, 9001, 384},
    Sheet{"RTX 4090", "NVIDIA GeForce RTX 4090", 89, 128, 99, 72, 2520, 10501, 384},
    Sheet{"RTX 5090", "NVIDIA GeForce RTX 5090", 120, 170, 99, 96, 2407, 14001, 512},
    Sheet{"RTX PRO 6000", "NVIDIA RTX PRO 6000 Blackwell", 120, 188, 99, 128, 2617, 14001, 512},
    Sheet{"B200", "NVIDIA B200", 100, 148, 227, 126, 1965, 3996, 8192},
    Sheet{"B300", "NVIDIA B300", 103, 148, 227, 126, 1965, 3996, 8192},
};

Product product_of(const Sheet& s) {
  return {s.name,
          {.name = std::string(s.reported),
           .major = s.capability / 10,
           .minor = s.capability % 10,
           .sms = s.sms,
           .shared_bytes = static_cast<std::size_t>(s.shared_kb) << 10,
           .l2_bytes = static_cast<std::size_t>(s.l2_mb) << 20,
           .clock_khz = s.clock_mhz * 1000,
           .memory_clock_khz = s.memory_mhz * 1000,
           .memory_bus_bits = s.bus_bits}};
}

bool is_alike(std::string_view x, std::string_view y) {
  return std::ranges::equal(
      x, y, {}, [](unsigned char c) { return std::tolower(c); }, [](unsigned char c) { return std::tolower(c); });
}

}  // namespace

const std::vector<Product>& products() {
  static const std::vector<Product> all = [] {
    std::vector<Product> list;
    for (const Sheet& s : sheets) list.push_back(product_of(s));
    return list;
  }();
  return all;
}

Device product(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Product& p : products()) {
    names.push_back(p.name);
    if (!is_alike(p.name, name)) continue;
    Device d = described(p.reported);
    if (d.major == 9) d.resident_ctas = Device{}.resident_ctas;  // all of 132 SMs: as an H200's driver reports them
    return d;
  }
  throw UserError(fmt::format("GPU '{}' is not known; expected one of {}{}", name, fmt::join(names, ", "),
                              ir::did_you_mean(ir::nearest(name, names))));
}

namespace {

/// What mma.sync reaches of wgmma's rate, by which Hopper's is known.
constexpr double share_of_wgmma = 0.62;

/// An older architecture with the rates and SMs of the GPU at hand.
Device older(const Device& own, int capability, std::size_t shared_kb) {
  Device as = own;
  as.name = fmt::format("sm_{}", capability);
  as.major = capability / 10, as.minor = capability % 10;
  as.shared_bytes = shared_kb << 10;
  if (own.major == 9) as.tensor_tflops *= share_of_wgmma;
  return as;
}

Device named(const Device& own, std::string_view name) {
  if (name == "sm_80") return older(own, 80, 163);
  if (name == "sm_86") return older(own, 86, 99);
  return product(name);
}

}  // namespace

Device planned_as(const Device& own, std::string_view name) {
  Device as = named(own, name);
  if (std::pair(as.major, as.minor) > std::pair(own.major, own.minor))
    throw UserError(
        fmt::format("UNISONO_PLAN_AS={}: compute capability {}.{}, whose kernels a {} of {}.{} does not run", name,
                    as.major, as.minor, own.name, own.major, own.minor));
  as.name = fmt::format("{} as {}", own.name, as.name);
  as.sms = std::min(as.sms, own.sms), as.threads = std::min(as.threads, own.threads);
  as.shared_bytes = std::min(as.shared_bytes, own.shared_bytes);
  as.resident_ctas = {0, as.sms};
  as.driver = own.driver, as.runs = own.arch();
  return as;
}

}  // namespace unisono::plan
