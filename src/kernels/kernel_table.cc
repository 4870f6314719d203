#include "kernels/kernel_table.h"

namespace trireme {

namespace avx2 {
extern const KernelTable kKernels;
void matmul(Stream& stream, const MatmulArgs& args);
void grouped_matmul(Stream& stream, const GroupedMatmulArgs& args);
void quantized_matmul(Stream& stream, const QuantizedMatmulArgs& args);
void convolution_forward(Stream& stream, const ConvolutionForwardArgs& args);
void convolution_backward_input(Stream& stream, const ConvolutionBackwardInputArgs& args);
void convolution_backward_weight(Stream& stream, const ConvolutionBackwardWeightArgs& args);
}  // namespace avx2
// Weaker kernels stand for those that are not compiled.
#ifdef TRIREME_WITHOUT_AVX512
namespace avx512 = avx2;
#else
namespace avx512 {
extern const KernelTable kKernels;
}
#endif
#ifdef TRIREME_WITHOUT_AVX512_BF16
namespace avx512_bf16 = avx2;
#else
namespace avx512_bf16 {
extern const KernelTable kKernels;
}
#endif
#ifdef TRIREME_WITHOUT_AMX_BF16
namespace amx_bf16 = avx2;
#else
// The kernels that use tile registers.
namespace amx_bf16 {
void matmul(Stream& stream, const MatmulArgs& args);
void grouped_matmul(Stream& stream, const GroupedMatmulArgs& args);
void quantized_matmul(Stream& stream, const QuantizedMatmulArgs& args);
void convolution_forward(Stream& stream, const ConvolutionForwardArgs& args);
void convolution_backward_input(Stream& stream, const ConvolutionBackwardInputArgs& args);
void convolution_backward_weight(Stream& stream, const ConvolutionBackwardWeightArgs& args);
}  // namespace amx_bf16
#endif

namespace {

// Processors with tile registers multiply fp32 twice as fast as pairs of bf16 in vector registers,
// so attention widens its operands.
KernelTable amx_kernels() {
  KernelTable kernels = avx512_bf16::kKernels;
  kernels.name = name_of(Isa::AmxBf16);
  kernels.attention_forward = avx512::kKernels.attention_forward;
  kernels.attention_backward = avx512::kKernels.attention_backward;
  kernels.matmul = amx_bf16::matmul;
  kernels.grouped_matmul = amx_bf16::grouped_matmul;
  kernels.quantized_matmul = amx_bf16::quantized_matmul;
  // Convolutions with a window of one pixel are products of matrices, which have variants of their
  // own.
  kernels.convolution_forward = amx_bf16::convolution_forward;
  kernels.convolution_backward_input = amx_bf16::convolution_backward_input;
  kernels.convolution_backward_weight = amx_bf16::convolution_backward_weight;
  return kernels;
}

}  // namespace

const KernelTable& cpu_kernels(Isa isa) {
  switch (isa) {
    case Isa::Avx2:
      return avx2::kKernels;
    case Isa::Avx512:
      return avx512::kKernels;
    case Isa::Avx512Bf16:
      return avx512_bf16::kKernels;
    case Isa::AmxBf16: {
      static const KernelTable kAmxKernels = amx_kernels();
      return kAmxKernels;
    }
  }
  contract_failure(__FILE__, __LINE__, "isa", "an instruction set without kernels");
}

}  // namespace trireme
