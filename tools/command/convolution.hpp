#pragma once
/// Convolutions and products as they are written on the command line.

#include <string>

#include "unisono/contraction.hpp"
#include "unisono/graph.hpp"

namespace unisono::command {

/// What --conv and --gemm take, for help and messages.
inline constexpr const char* convolution_form =
    "N,H,W,C->K,RxS[,pad=P][,stride=S][,dilation=D][,groups=G][,layout=nchw][,transposed][,output_pad=O][,dgrad][,"
    "wgrad][,dtype=T], or of volumes N,D,H,W,C->K,TxRxS[,pad=P][,stride=S][,dilation=D][,groups=G][,dtype=T]";
inline constexpr const char* product_form = "[B,]M[+M...],K->N[,nn|nt|tn|tt][,dtype=T]";

/// "8,64,64,320->320,3x3": N,H,W,C -> K,RxS, then in any order pad=1 or pad=top.left.bottom.right (default: half of the
/// filter), stride=2 or stride=2x1, dilation=1, groups=1, layout=nhwc (the default) or nchw, dtype=bf16 (the default),
/// f16 or f32; `transposed` makes it a ConvTranspose2d, which may have output_pad=1, `dgrad` the gradient of its
/// image, `wgrad` that of its filters. "1,17,64,64,96->96,3x3x3" is a Conv3d: N,D,H,W,C -> K,TxRxS, then in any order
/// pad=1, pad=1x0x0 or, before and after, pad=2.1.1.0.1.1, stride, dilation, groups and dtype. Throws UserError that
/// shows the part at fault.
Contraction parse_convolution(const std::string& text);

/// "512,1024->4096": M,K->N of a linear layer, A (m, k) by B (n, k); "16,512,64->512" is a batch of 16 products,
/// "100+28,1024->4096" a grouped product of 100 and 28 rows with a B each. Then
/// how the factors lie, n as they are and t transposed (default: nt), and dtype=bf16 (the default), f16 or f32. Throws
/// likewise.
Gemm parse_product(const std::string& text);

/// That of --conv or --gemm, of which one must be given: else UserError, which says that `what` needs it.
Contraction parse_contraction(const std::string& conv, const std::string& gemm, const std::string& what);

/// The product that the graph is made for: with two right operands if it reads acc1. Convolutions are as they were.
Contraction with_products(Contraction contraction, const Graph& graph);

}  // namespace unisono::command
