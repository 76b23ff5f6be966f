// Integers by their width, the same to the compilers of the host and the device, and how a kernel divides by one that
// the host knows. What includes no more than this is no other kernel when the structs of params.cuh change.
#pragma once

namespace unisono {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

// x / divisor = x * factor >> shift, of x below 2^31: with l = log2(divisor), rounded up, ceil(2^(31 + l) / divisor) is
// too large by less than 1, which times x < 2^31 moves the quotient by less than 2^-l, hence 1 / divisor: too little to
// reach the next integer.
struct Divisor {
  u32 factor, shift;
};
constexpr Divisor divisor(u64 by) {  // of 1 to 2^31 - 1
  u32 log = 0;
  while ((u64{1} << log) < by) ++log;
  return {u32(((u64{1} << (31 + log)) + by - 1) / by), 31 + log};
}

}  // namespace unisono
