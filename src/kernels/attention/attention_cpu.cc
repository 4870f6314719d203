#include "kernels/attention/attention.h"

namespace trireme::TRIREME_ISA {

void attention_forward(Stream& stream, const AttentionForwardArgs& args) {
  attention_forward_ref(stream, args);
}
void attention_backward(Stream& stream, const AttentionBackwardArgs& args) {
  attention_backward_ref(stream, args);
}

}  // namespace trireme::TRIREME_ISA
