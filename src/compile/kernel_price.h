#pragma once

#include "graph/op_work.h"
#include "schema/hardware.h"

// Seconds of single kernels on a device.
namespace trireme {

// Seconds of one call that makes a product: its FLOPs at the share of the peak that products of its
// depth reach or that the power limit sustains, or its reads and writes, or the launch of the next
// kernel, whichever is longest. On a processor all three together.
double price_product(const Product& product, DType compute, const Hardware& hardware);

// Bytes of both operands and of the result.
double product_bytes(const Product& product, DType compute);

// Returns the gradient of weights as a device makes it. On a GPU the product itself adds to a
// gradient of the table's dtype, which is read and written, unless the trainer has another kernel
// that copies it or adds it to earlier ones.
HalfWork weight_grad_on(HalfWork half, const Hardware& hardware);

// Seconds of kernels that read and write so many bytes.
double price_memory(double bytes, int calls, const Hardware& hardware);

// Seconds of the kernels of half an op that make no products: their reads and writes, or their
// operations on single numbers, whichever take longer.
double price_vectors(const HalfWork& half, const Hardware& hardware);

// Seconds of the forward pass of one op.
double price_forward(const OpWork& work, DType compute, const Hardware& hardware);

// FLOPs of the backward pass of attention / of its forward pass.
inline constexpr double kBackwardAttention = 2.5;

// Bytes that attention by one kernel, which stores no scores, reads and writes in its forward pass:
// queries, keys, values and its output. Its backward pass moves twice as many: the same again, and
// their gradients.
double fused_attention_bytes(const AttentionWork& work, DType compute);

// Seconds of attention by such a kernel. `factor`: FLOPs of the pass / of the forward pass.
double price_fused_attention(const AttentionWork& work, double factor, DType compute,
                             const Hardware& hardware);

}  // namespace trireme
