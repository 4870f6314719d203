#include "kernels/ref_access.h"
#include "kernels/scale/scale.h"

namespace trireme {

void scale_forward_ref(Stream&, const ScaleForwardArgs& args) {
  check_scale_forward(args);
  for (int64_t t = 0; t < args.x_TC.rows; ++t) {
    for (int64_t c = 0; c < args.x_TC.cols; ++c) {
      write(args.y_TC, t, c, read(args.gain_C, c) * read(args.x_TC, t, c));
    }
  }
}

void scale_backward_input_ref(Stream&, const ScaleBackwardInputArgs& args) {
  check_scale_backward_input(args);
  for (int64_t t = 0; t < args.dy_TC.rows; ++t) {
    for (int64_t c = 0; c < args.dy_TC.cols; ++c) {
      const double addend = args.addend_TC ? read(args.addend_TC, t, c) : 0.0;
      write(args.dx_TC, t, c, addend + read(args.gain_C, c) * read(args.dy_TC, t, c));
    }
  }
}

void scale_backward_weight_ref(Stream&, const ScaleBackwardWeightArgs& args) {
  check_scale_backward_weight(args);
  for (int64_t c = 0; c < args.x_TC.cols; ++c) {
    double dgain = args.write == Write::Accumulate ? read(args.dgain_C, c) : 0.0;
    for (int64_t t = 0; t < args.x_TC.rows; ++t) {
      dgain += read(args.dy_TC, t, c) * read(args.x_TC, t, c);
    }
    write(args.dgain_C, c, dgain);
  }
}

}  // namespace trireme
