#pragma once

#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "base/result.h"
#include "collectives/collective.h"

namespace trireme {

// Reductions are limited by memory bandwidth, so these are plain loops that the compiler vectorises
// for the widest instruction set of the processor. Types: fp32, bf16 and fp16 (added in fp32),
// int32, int64.

Status check_reducible(DType dtype);

// target = left op right, element by element. The target may be `left` or `right`. Mean adds.
void reduce_pair(DType dtype, ReduceOp op, void* target, const void* left, const void* right,
                 int64_t count);

// Every target = the reduction of all sources in one binary tree over their index: sources 0 and 1,
// 2 and 3, then the pairs; a missing leaf is skipped. So any aligned group of a power of two of
// addends has the same sum, wherever it was added. bf16 and fp16 are rounded at every node. Mean
// divides by the number of sources. A target may be one of the sources.
void reduce_tree(DType dtype, ReduceOp op, std::span<void* const> targets,
                 std::span<const void* const> sources, int64_t count);

// x = x / divisor; integers round toward zero.
void divide(DType dtype, void* x, int64_t count, int64_t divisor);

}  // namespace trireme
