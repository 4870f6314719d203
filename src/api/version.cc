#include "trireme/version.h"

namespace trireme::api {

const char* version() { return TRIREME_VERSION_STRING; }

}  // namespace trireme::api
