#pragma once

#include "device/stream.h"
#include "kernels/inline.h"
#include "kernels/write.h"
#include "schema/convolution_scratch.h"
#include "schema/image_window.h"
#include "tensor/matrix.h"

namespace trireme {

// P are the pixels of the input, Q those of the output, C channels, F filters. The filters and the
// channels are cut into `groups`; a filter reads the channels of its group. K = size * size *
// (C / groups) are the elements of a filter, in the order row, column, channel. Operands have one
// dtype (fp32, bf16 or fp16). Products are summed in fp32 in an order that depends on the window
// and the channels only, so an output pixel has the same bits whatever the number of images and
// threads. 2 Q F K FLOPs each.

// y = the window's pixels times the filters [+ bias], rounded once.
struct ConvolutionForwardArgs {
  ImageWindow window;
  int64_t groups = 1;
  MatrixRef x_PC;
  MatrixRef w_FK;
  TensorRef bias_F;  // absent: 0
  MatrixRef y_QF;    // written
};
void convolution_forward_ref(Stream& stream, const ConvolutionForwardArgs& args);
void check_convolution_forward(const ConvolutionForwardArgs& args);  // throws ContractError

// dx (+)= the sum over the output pixels that read it of their gradient times the filter's element,
// rounded once.
struct ConvolutionBackwardInputArgs {
  ImageWindow window;
  int64_t groups = 1;
  MatrixRef dy_QF;
  MatrixRef w_FK;
  MatrixRef dx_PC;    // written or added to, as `write` says
  TensorRef scratch;  // convolution_scratch().bytes() of uint8, 64-byte aligned
  Write write = Write::Overwrite;
};
void convolution_backward_input_ref(Stream& stream, const ConvolutionBackwardInputArgs& args);
void check_convolution_backward_input(const ConvolutionBackwardInputArgs& args);

// dw (+)= the sum over output pixels, in their order, of their gradient times the window's pixels.
struct ConvolutionBackwardWeightArgs {
  ImageWindow window;
  int64_t groups = 1;
  MatrixRef dy_QF;
  MatrixRef x_PC;
  MatrixRef dw_FK;  // fp32 or bf16
  Write write = Write::Overwrite;
};
void convolution_backward_weight_ref(Stream& stream, const ConvolutionBackwardWeightArgs& args);
void check_convolution_backward_weight(const ConvolutionBackwardWeightArgs& args);

}  // namespace trireme
