// Warpgroup matrix multiply-accumulate: m64 nN k16 (k8 of tf32: 32 bytes of k in any type), operands in shared memory,
// float32 accumulators. Thread t of the warpgroup holds, for row block rows 16*(t/32) + (t%32)/4 (+8) and columns 8*j +
// 2*(t%4) + {0,1}: d[4*j + 0,1] of the first row and d[4*j + 2,3] of the second.
#pragma once
#include "unisono/mma/fragments.cuh"
#include "unisono/mma/sm90_descriptor.cuh"

namespace unisono {

UNISONO_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
UNISONO_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
UNISONO_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from reading accumulators before the wait that precedes this.
template <int kCount>
UNISONO_DEVICE void wgmma_hold(float (&d)[kCount]) {
  _Pragma("unroll") for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// UNISONO_TEXT_i and UNISONO_REGISTERS_i name the first 4*(i+1) accumulators, for N = 8*(i+1).
#define UNISONO_TEXT_0 "%0, %1, %2, %3"
#define UNISONO_REGISTERS_0 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define UNISONO_TEXT_1 UNISONO_TEXT_0 ", %4, %5, %6, %7"
#define UNISONO_REGISTERS_1 UNISONO_REGISTERS_0, "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define UNISONO_TEXT_2 UNISONO_TEXT_1 ", %8, %9, %10, %11"
#define UNISONO_REGISTERS_2 UNISONO_REGISTERS_1, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
#define UNISONO_TEXT_3 UNISONO_TEXT_2 ", %12, %13, %14, %15"
#define UNISONO_REGISTERS_3 UNISONO_REGISTERS_2, "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define UNISONO_TEXT_4 UNISONO_TEXT_3 ", %16, %17, %18, %19"
#define UNISONO_REGISTERS_4 UNISONO_REGISTERS_3, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19])
#define UNISONO_TEXT_5 UNISONO_TEXT_4 ", %20, %21, %22, %23"
#define UNISONO_REGISTERS_5 UNISONO_REGISTERS_4, "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define UNISONO_TEXT_6 UNISONO_TEXT_5 ", %24, %25, %26, %27"
#define UNISONO_REGISTERS_6 UNISONO_REGISTERS_5, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27])
#define UNISONO_TEXT_7 UNISONO_TEXT_6 ", %28, %29, %30, %31"
#define UNISONO_REGISTERS_7 UNISONO_REGISTERS_6, "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define UNISONO_TEXT_8 UNISONO_TEXT_7 ", %32, %33, %34, %35"
#define UNISONO_REGISTERS_8 UNISONO_REGISTERS_7, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35])
#define UNISONO_TEXT_9 UNISONO_TEXT_8 ", %36, %37, %38, %39"
#define UNISONO_REGISTERS_9 UNISONO_REGISTERS_8, "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define UNISONO_TEXT_10 UNISONO_TEXT_9 ", %40, %41, %42, %43"
#define UNISONO_REGISTERS_10 UNISONO_REGISTERS_9, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43])
#define UNISONO_TEXT_11 UNISONO_TEXT_10 ", %44, %45, %46, %47"
#define UNISONO_REGISTERS_11 UNISONO_REGISTERS_10, "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define UNISONO_TEXT_12 UNISONO_TEXT_11 ", %48, %49, %50, %51"
#define UNISONO_REGISTERS_12 UNISONO_REGISTERS_11, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51])
#define UNISONO_TEXT_13 UNISONO_TEXT_12 ", %52, %53, %54, %55"
#define UNISONO_REGISTERS_13 UNISONO_REGISTERS_12, "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define UNISONO_TEXT_14 UNISONO_TEXT_13 ", %56, %57, %58, %59"
#define UNISONO_REGISTERS_14 UNISONO_REGISTERS_13, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59])
#define UNISONO_TEXT_15 UNISONO_TEXT_14 ", %60, %61, %62, %63"
#define UNISONO_REGISTERS_15 UNISONO_REGISTERS_14, "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define UNISONO_TEXT_16 UNISONO_TEXT_15 ", %64, %65, %66, %67"
#define UNISONO_REGISTERS_16 UNISONO_REGISTERS_15, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67])
#define UNISONO_TEXT_17 UNISONO_TEXT_16 ", %68, %69, %70, %71"
#define UNISONO_REGISTERS_17 UNISONO_REGISTERS_16, "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define UNISONO_TEXT_18 UNISONO_TEXT_17 ", %72, %73, %74, %75"
#define UNISONO_REGISTERS_18 UNISONO_REGISTERS_17, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75])
#define UNISONO_TEXT_19 UNISONO_TEXT_18 ", %76, %77, %78, %79"
#define UNISONO_REGISTERS_19 UNISONO_REGISTERS_18, "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define UNISONO_TEXT_20 UNISONO_TEXT_19 ", %80, %81, %82, %83"
#define UNISONO_REGISTERS_20 UNISONO_REGISTERS_19, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83])
#define UNISONO_TEXT_21 UNISONO_TEXT_20 ", %84, %85, %86, %87"
#define UNISONO_REGISTERS_21 UNISONO_REGISTERS_20, "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define UNISONO_TEXT_22 UNISONO_TEXT_21 ", %88, %89, %90, %91"
#define UNISONO_REGISTERS_22 UNISONO_REGISTERS_21, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91])
#define UNISONO_TEXT_23 UNISONO_TEXT_22 ", %92, %93, %94, %95"
#define UNISONO_REGISTERS_23 UNISONO_REGISTERS_22, "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define UNISONO_TEXT_24 UNISONO_TEXT_23 ", %96, %97, %98, %99"
#define UNISONO_REGISTERS_24 UNISONO_REGISTERS_23, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99])
#define UNISONO_TEXT_25 UNISONO_TEXT_24 ", %100, %101, %102, %103"
#define UNISONO_REGISTERS_25 UNISONO_REGISTERS_24, "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define UNISONO_TEXT_26 UNISONO_TEXT_25 ", %104, %105, %106, %107"
#define UNISONO_REGISTERS_26 UNISONO_REGISTERS_25, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107])
#define UNISONO_TEXT_27 UNISONO_TEXT_26 ", %108, %109, %110, %111"
#define UNISONO_REGISTERS_27 UNISONO_REGISTERS_26, "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define UNISONO_TEXT_28 UNISONO_TEXT_27 ", %112, %113, %114, %115"
#define UNISONO_REGISTERS_28 UNISONO_REGISTERS_27, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115])
#define UNISONO_TEXT_29 UNISONO_TEXT_28 ", %116, %117, %118, %119"
#define UNISONO_REGISTERS_29 UNISONO_REGISTERS_28, "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define UNISONO_TEXT_30 UNISONO_TEXT_29 ", %120, %121, %122, %123"
#define UNISONO_REGISTERS_30 UNISONO_REGISTERS_29, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123])
#define UNISONO_TEXT_31 UNISONO_TEXT_30 ", %124, %125, %126, %127"
#define UNISONO_REGISTERS_31 UNISONO_REGISTERS_30, "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

#define UNISONO_WGMMA(N, i, type, a, b, p, major_a, major_b)                                         \
  asm volatile("{.reg .pred p; setp.ne.b32 p, " p                                                    \
               ", 0;\n"                                                                              \
               "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" UNISONO_TEXT_##i \
               "}, " a ", " b ", p, 1, 1, " major_a ", " major_b ";}\n"                              \
               : UNISONO_REGISTERS_##i                                                               \
               : "l"(descriptor_a), "l"(descriptor_b), "r"(accumulate), "n"(kColumnsA ? 1 : 0),      \
                 "n"(kColumnsB ? 1 : 0))
#define UNISONO_WGMMA_TF32(N, i, a, b, p)                                                                   \
  asm volatile("{.reg .pred p; setp.ne.b32 p, " p                                                           \
               ", 0;\n"                                                                                     \
               "wgmma.mma_async.sync.aligned.m64n" #N "k8.f32.tf32.tf32 {" UNISONO_TEXT_##i "}, " a ", " b  \
                                                                                            ", p, 1, 1;}\n" \
               : UNISONO_REGISTERS_##i                                                                      \
               : "l"(descriptor_a), "l"(descriptor_b), "r"(accumulate))
#define UNISONO_WGMMA_WIDTH(N, i, a, b, p, major_a, major_b)  \
  if constexpr (kN == N) {                                    \
    if constexpr (Same<Element, Tf32>::value)                 \
      UNISONO_WGMMA_TF32(N, i, a, b, p);                      \
    else if constexpr (Same<Element, Bf16>::value)            \
      UNISONO_WGMMA(N, i, "bf16", a, b, p, major_a, major_b); \
    else                                                      \
      UNISONO_WGMMA(N, i, "f16", a, b, p, major_a, major_b);  \
  }

// d (64, kN) = a (64, k) * b (kN, k)^T, k = 16 or of tf32 8, added to d where `accumulate` is not zero. kColumnsA,
// kColumnsB: the operand is MN-major.
template <class Element, int kN, bool kColumnsA = false, bool kColumnsB = false>
UNISONO_DEVICE void wgmma(float (&d)[kN / 2], u64 descriptor_a, u64 descriptor_b, u32 accumulate) {
  static_assert(kN % 8 == 0 && kN >= 8 && kN <= 256, "a matrix instruction is 8 to 256 columns wide");
  UNISONO_WGMMA_WIDTH(8, 0, "%4", "%5", "%6", "%7", "%8")
  UNISONO_WGMMA_WIDTH(16, 1, "%8", "%9", "%10", "%11", "%12")
  UNISONO_WGMMA_WIDTH(24, 2, "%12", "%13", "%14", "%15", "%16")
  UNISONO_WGMMA_WIDTH(32, 3, "%16", "%17", "%18", "%19", "%20")
  UNISONO_WGMMA_WIDTH(40, 4, "%20", "%21", "%22", "%23", "%24")
  UNISONO_WGMMA_WIDTH(48, 5, "%24", "%25", "%26", "%27", "%28")
  UNISONO_WGMMA_WIDTH(56, 6, "%28", "%29", "%30", "%31", "%32")
  UNISONO_WGMMA_WIDTH(64, 7, "%32", "%33", "%34", "%35", "%36")
  UNISONO_WGMMA_WIDTH(72, 8, "%36", "%37", "%38", "%39", "%40")
  UNISONO_WGMMA_WIDTH(80, 9, "%40", "%41", "%42", "%43", "%44")
  UNISONO_WGMMA_WIDTH(88, 10, "%44", "%45", "%46", "%47", "%48")
  UNISONO_WGMMA_WIDTH(96, 11, "%48", "%49", "%50", "%51", "%52")
  UNISONO_WGMMA_WIDTH(104, 12, "%52", "%53", "%54", "%55", "%56")
  UNISONO_WGMMA_WIDTH(112, 13, "%56", "%57", "%58", "%59", "%60")
  UNISONO_WGMMA_WIDTH(120, 14, "%60", "%61", "%62", "%63", "%64")
  UNISONO_WGMMA_WIDTH(128, 15, "%64", "%65", "%66", "%67", "%68")
  UNISONO_WGMMA_WIDTH(136, 16, "%68", "%69", "%70", "%71", "%72")
  UNISONO_WGMMA_WIDTH(144, 17, "%72", "%73", "%74", "%75", "%76")
  UNISONO_WGMMA_WIDTH(152, 18, "%76", "%77", "%78", "%79", "%80")
  UNISONO_WGMMA_WIDTH(160, 19, "%80", "%81", "%82", "%83", "%84")
  UNISONO_WGMMA_WIDTH(168, 20, "%84", "%85", "%86", "%87", "%88")
  UNISONO_WGMMA_WIDTH(176, 21, "%88", "%89", "%90", "%91", "%92")
  UNISONO_WGMMA_WIDTH(184, 22, "%92", "%93", "%94", "%95", "%96")
  UNISONO_WGMMA_WIDTH(192, 23, "%96", "%97", "%98", "%99", "%100")
  UNISONO_WGMMA_WIDTH(200, 24, "%100", "%101", "%102", "%103", "%104")
  UNISONO_WGMMA_WIDTH(208, 25, "%104", "%105", "%106", "%107", "%108")
  UNISONO_WGMMA_WIDTH(216, 26, "%108", "%109", "%110", "%111", "%112")
  UNISONO_WGMMA_WIDTH(224, 27, "%112", "%113", "%114", "%115", "%116")
  UNISONO_WGMMA_WIDTH(232, 28, "%116", "%117", "%118", "%119", "%120")
  UNISONO_WGMMA_WIDTH(240, 29, "%120", "%121", "%122", "%123", "%124")
  UNISONO_WGMMA_WIDTH(248, 30, "%124", "%125", "%126", "%127", "%128")
  UNISONO_WGMMA_WIDTH(256, 31, "%128", "%129", "%130", "%131", "%132")
}

}  // namespace unisono
