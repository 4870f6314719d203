#include "failures/failure_class.h"

namespace trireme {

std::string_view name_of(FailureClass failure_class) {
  return kFailureClassNames[static_cast<uint8_t>(failure_class)];
}

}  // namespace trireme
