#pragma once

// The product that an instruction set computes for matrices of T, for *_cpu.cc files only. Its
// kUnitRows are the rows that it multiplies at once; with fewer than kSerialFlops the work is done
// before a second thread would have started.

#include <type_traits>

#include "kernels/matmul/product.h"
#if defined(__AMX_BF16__)
#include "kernels/matmul/amx_product.h"
#endif

namespace trireme::TRIREME_ISA {
namespace {

#if defined(__AMX_BF16__)
template <typename T>
using ProductOf = std::conditional_t<std::is_same_v<T, bf16>, AmxProduct, Product<T>>;
#else
template <typename T>
using ProductOf = Product<T>;
#endif

}  // namespace
}  // namespace trireme::TRIREME_ISA
