// Matrix multiply-accumulate of one warp, from sm_80 on.
#pragma once
#include "unisono/ptx/types.cuh"

namespace unisono {

template <class A, class B>
struct Same {
  static constexpr bool value = false;
};
template <class A>
struct Same<A, A> {
  static constexpr bool value = true;
};

// The instruction of one warp, operands in registers: d (16, 8) += a (16, 16) * b (8, 16)^T, of pairs of 16-bit
// elements. Lane l has of d rows l / 4 and l / 4 + 8, columns 2 * (l % 4) + {0, 1}; of a these rows, first k = 2 * (l %
// 4) + {0, 1}, then the same + 8; of b row l / 4, those k. Of tf32 there are eight k, one a register: l % 4, then the
// same + 4.
template <class Element>
UNISONO_DEVICE void multiply_fragments(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  if constexpr (Same<Element, Bf16>::value)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
        "%2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else if constexpr (Same<Element, Tf32>::value)
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
        "%2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace unisono
