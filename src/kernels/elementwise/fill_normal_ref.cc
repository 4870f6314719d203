#include "kernels/elementwise/elementwise.h"
#include "kernels/fp32_math.h"
#include "kernels/scalar_lane.h"

namespace trireme {

void fill_normal_ref(Stream&, const FillNormalArgs& args) {
  check_fill_normal(args);
  float* x_N = args.x_N.as<float>();
  for (int64_t i = 0; i < args.x_N.num_elements(); ++i) {
    const uint64_t element = args.first_element + i;
    const PhiloxCounter words = philox(args.key, counter_of(0, element / 4));
    const int pair = element % 4 / 2;
    scalar::F32 normal[2];
    box_muller(scalar::U32{words[2 * pair]}, scalar::U32{words[2 * pair + 1]}, normal[0],
               normal[1]);
    x_N[i] = normal[element % 2].v * args.stddev;
  }
}

}  // namespace trireme
