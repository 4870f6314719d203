#include "kernels/dropout/dropout.h"
#include "kernels/ref_access.h"

namespace trireme {

void dropout_ref(Stream&, const DropoutArgs& args) {
  check_dropout(args);
  const int64_t cols = args.x_TC.cols;
  for (int64_t t = 0; t < args.x_TC.rows; ++t) {
    const int64_t row = args.first_row + t;
    const uint64_t sample = args.first_sample + row / args.rows_per_sample;
    for (int64_t c = 0; c < cols; ++c) {
      const int64_t position = args.positions.of(row % args.rows_per_sample);
      const uint64_t element = position * args.columns_of_row() + args.first_column + c;
      const PhiloxCounter words = philox(args.key, counter_of(sample, element / 4));
      const bool kept = uniform_float(words[element % 4]) >= args.probability;
      const double value = kept ? read(args.x_TC, t, c) / (1.0 - args.probability) : 0.0;
      write(args.y_TC, t, c, value + (args.residual_TC ? read(args.residual_TC, t, c) : 0.0));
    }
  }
}

}  // namespace trireme
