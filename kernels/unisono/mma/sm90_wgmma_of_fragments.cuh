// Warpgroup matrix multiply-accumulate with its first operand in registers.
#pragma once
#include "unisono/mma/sm90_wgmma.cuh"

namespace unisono {

#define UNISONO_WGMMA_OF_FRAGMENTS(N, i, type, a0, a1, a2, a3, b, p, major_b)                        \
  asm volatile("{.reg .pred p; setp.ne.b32 p, " p                                                    \
               ", 0;\n"                                                                              \
               "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" UNISONO_TEXT_##i \
               "}, {" a0 ", " a1 ", " a2 ", " a3 "}, " b ", p, 1, 1, " major_b ";}\n"                \
               : UNISONO_REGISTERS_##i                                                               \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(descriptor_b), "r"(accumulate),     \
                 "n"(kColumnsB ? 1 : 0))
#define UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(N, i, ...)          \
  if constexpr (kN == N) {                                   \
    if constexpr (Same<Element, Bf16>::value)                \
      UNISONO_WGMMA_OF_FRAGMENTS(N, i, "bf16", __VA_ARGS__); \
    else                                                     \
      UNISONO_WGMMA_OF_FRAGMENTS(N, i, "f16", __VA_ARGS__);  \
  }

// d (64, kN) = a (64, 16) * b (kN, 16)^T, added to d where `accumulate` is not zero. Of a, thread t has rows 16 * (t /
// 32)
// + (t % 32) / 4 (+ 8), as multiply_fragments() has them. Registers of a are not written until the product is waited
// for. kColumnsB: b is MN-major.
template <class Element, int kN, bool kColumnsB = false>
UNISONO_DEVICE void wgmma_of_fragments(float (&d)[kN / 2], const u32 (&a)[4], u64 descriptor_b, u32 accumulate) {
  static_assert(kN % 8 == 0 && kN >= 8 && kN <= 256, "a matrix instruction is 8 to 256 columns wide");
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(8, 0, "%4", "%5", "%6", "%7", "%8", "%9", "%10")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(16, 1, "%8", "%9", "%10", "%11", "%12", "%13", "%14")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(24, 2, "%12", "%13", "%14", "%15", "%16", "%17", "%18")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(32, 3, "%16", "%17", "%18", "%19", "%20", "%21", "%22")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(40, 4, "%20", "%21", "%22", "%23", "%24", "%25", "%26")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(48, 5, "%24", "%25", "%26", "%27", "%28", "%29", "%30")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(56, 6, "%28", "%29", "%30", "%31", "%32", "%33", "%34")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(64, 7, "%32", "%33", "%34", "%35", "%36", "%37", "%38")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(72, 8, "%36", "%37", "%38", "%39", "%40", "%41", "%42")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(80, 9, "%40", "%41", "%42", "%43", "%44", "%45", "%46")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(88, 10, "%44", "%45", "%46", "%47", "%48", "%49", "%50")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(96, 11, "%48", "%49", "%50", "%51", "%52", "%53", "%54")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(104, 12, "%52", "%53", "%54", "%55", "%56", "%57", "%58")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(112, 13, "%56", "%57", "%58", "%59", "%60", "%61", "%62")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(120, 14, "%60", "%61", "%62", "%63", "%64", "%65", "%66")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(128, 15, "%64", "%65", "%66", "%67", "%68", "%69", "%70")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(136, 16, "%68", "%69", "%70", "%71", "%72", "%73", "%74")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(144, 17, "%72", "%73", "%74", "%75", "%76", "%77", "%78")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(152, 18, "%76", "%77", "%78", "%79", "%80", "%81", "%82")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(160, 19, "%80", "%81", "%82", "%83", "%84", "%85", "%86")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(168, 20, "%84", "%85", "%86", "%87", "%88", "%89", "%90")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(176, 21, "%88", "%89", "%90", "%91", "%92", "%93", "%94")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(184, 22, "%92", "%93", "%94", "%95", "%96", "%97", "%98")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(192, 23, "%96", "%97", "%98", "%99", "%100", "%101", "%102")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(200, 24, "%100", "%101", "%102", "%103", "%104", "%105", "%106")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(208, 25, "%104", "%105", "%106", "%107", "%108", "%109", "%110")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(216, 26, "%108", "%109", "%110", "%111", "%112", "%113", "%114")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(224, 27, "%112", "%113", "%114", "%115", "%116", "%117", "%118")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(232, 28, "%116", "%117", "%118", "%119", "%120", "%121", "%122")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(240, 29, "%120", "%121", "%122", "%123", "%124", "%125", "%126")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(248, 30, "%124", "%125", "%126", "%127", "%128", "%129", "%130")
  UNISONO_WGMMA_OF_FRAGMENTS_WIDTH(256, 31, "%128", "%129", "%130", "%131", "%132", "%133", "%134")
}

}  // namespace unisono
